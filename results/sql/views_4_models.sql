-- One row a model, with a column for each stage. Shares are of calls to computing ops, as everywhere.
CREATE OR REPLACE VIEW v_models AS
WITH stages AS (
    SELECT
        run, case_id,
        any_value(outcome) FILTER (stage = 'fetch') AS fetch,
        any_value(outcome) FILTER (stage = 'load') AS load,
        any_value(outcome) FILTER (stage = 'forward') AS forward,
        any_value(outcome) FILTER (stage = 'backward') AS backward,
        any_value(outcome) FILTER (stage = 'compile') AS compile
    FROM v_stages
    WHERE kind = 'model'
    GROUP BY run, case_id
), calls AS (
    SELECT
        run, case_id,
        coalesce(sum(device_calls) FILTER (computes), 0)::BIGINT AS device_calls,
        coalesce(sum(fallback_calls) FILTER (computes), 0)::BIGINT AS fallback_calls,
        list_sort(coalesce(
            list(DISTINCT called) FILTER (fallback_calls > 0 AND computes), []
        )) AS fallback_ops
    FROM v_op_calls
    WHERE kind = 'model'
    GROUP BY run, case_id
)
SELECT
    m.run, m.model_id, m.revision, m.task, m.architecture, m.model_type, m.library,
    m.parameters, m.downloads,
    s.fetch, s.load, s.forward, s.backward, s.compile,
    coalesce(c.device_calls, 0) AS device_calls,
    coalesce(c.fallback_calls, 0) AS fallback_calls,
    c.device_calls / nullif(c.device_calls + c.fallback_calls, 0) AS device_share,
    coalesce(c.fallback_ops, []) AS fallback_ops,
    v.seconds, v.outcome, v.stage, v.verdict, v.message, v.signature, v.counts, m.case_id,
    v.evidence, v.evidence_from
FROM models m
JOIN stages s USING (run, case_id)
JOIN v_cases v ON v.run = m.run AND v.case_id = m.case_id
-- A model whose class was run by another called what that one called.
LEFT JOIN calls c ON c.run = m.run
    AND c.case_id = if(v.evidence IN ('representative', 'header'), v.evidence_from, m.case_id);

-- Models that pass each stage. A model that could not be judged (not fetched, or its reference does not run
-- here) is planned but not counted, in any stage.
CREATE OR REPLACE VIEW v_funnel AS
WITH judged AS (
    SELECT s.run, s.stage, s.ordinal, s.on_device, s.outcome, m.downloads, v.counts
    FROM v_stages s
    JOIN models m USING (run, case_id)
    JOIN v_cases v USING (run, case_id)
)
SELECT
    run, ordinal, stage, on_device,
    count(*) AS planned,
    count(*) FILTER (counts) AS counted,
    count(*) FILTER (outcome = 'passed' AND counts) AS passed,
    passed / nullif(counted, 0) AS share,
    coalesce(sum(downloads) FILTER (counts), 0)::BIGINT AS counted_downloads,
    coalesce(sum(downloads) FILTER (outcome = 'passed' AND counts), 0)::BIGINT AS passed_downloads,
    passed_downloads / nullif(counted_downloads, 0) AS downloads_share
FROM judged
GROUP BY run, ordinal, stage, on_device;

-- Models by how their results were come by; '' for those without one.
CREATE OR REPLACE VIEW v_evidence AS
SELECT
    m.run, v.evidence,
    count(*) AS models,
    coalesce(sum(m.downloads), 0)::BIGINT AS downloads,
    count(*) FILTER (v.outcome = 'passed') AS passed,
    coalesce(sum(m.downloads) FILTER (v.outcome = 'passed'), 0)::BIGINT AS passed_downloads
FROM models m
JOIN v_cases v USING (run, case_id)
GROUP BY m.run, v.evidence;
