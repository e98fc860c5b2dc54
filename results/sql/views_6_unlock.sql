-- Gaps by dtype: the same counts as v_gaps for one called overload in one dtype, with the calls of it that did
-- run on the device. An op of the run that never fell back in a dtype is no gap in it.
CREATE OR REPLACE VIEW v_gap_dtypes AS
WITH calls AS (
    SELECT
        run, called AS op, dtype, case_id, kind,
        sum(device_calls) AS device_calls,
        sum(fallback_calls) AS fallback_calls,
        sum(fallback_ns) AS ns,
        sum(bytes_moved) FILTER (fallback_calls > 0) AS bytes
    FROM v_op_calls
    WHERE computes
    GROUP BY run, called, dtype, case_id, kind
)
SELECT
    c.run, c.op, c.dtype,
    sum(c.device_calls)::BIGINT AS device_calls,
    sum(c.fallback_calls)::BIGINT AS fallback_calls,
    count(*) FILTER (c.kind = 'model' AND c.fallback_calls > 0) AS models,
    coalesce(sum(m.downloads) FILTER (c.fallback_calls > 0), 0)::BIGINT AS downloads,
    count(*) FILTER (c.kind <> 'model' AND c.fallback_calls > 0) AS tests,
    sum(c.ns)::BIGINT AS fallback_ns,
    coalesce(sum(c.bytes), 0)::BIGINT AS bytes_moved
FROM calls c
LEFT JOIN models m ON m.run = c.run AND m.case_id = c.case_id
GROUP BY c.run, c.op, c.dtype
HAVING sum(c.fallback_calls) > 0;

-- What stands between a case and running on the device alone: the ops of it that fell back, and those that the
-- device, or the reason of a skip for want of a lowering, names. A case that fails besides is not freed by lowerings,
-- and what it would have called after its failure is not known.
CREATE OR REPLACE VIEW v_blocked AS
WITH fallen AS (
    SELECT run, case_id, list(DISTINCT called) AS ops
    FROM v_op_calls
    WHERE fallback_calls > 0 AND computes
    GROUP BY run, case_id
), said AS (
    SELECT
        s.run, s.case_id, s.kind,
        arg_min(s.outcome, if(s.outcome = 'passed', 1000 - s.ordinal, s.ordinal)) AS outcome,
        any_value(coalesce(nullif(s.facts['reason'], ''), nullif(s.message, ''), p.reason)) FILTER (
            s.outcome = 'unsupported' OR s.skip_category IN ('no_native_lowering', 'not_implemented')
        ) AS refusal
    FROM v_stages s
    JOIN planned p USING (run, case_id)
    GROUP BY s.run, s.case_id, s.kind
), joined AS (
    SELECT
        s.run, s.case_id, s.kind, s.outcome, coalesce(f.ops, []) AS fallen,
        coalesce(regexp_extract_all(s.refusal, '[A-Za-z_]\w*::\w+(\.\w+)?'), []) AS refused
    FROM said s
    LEFT JOIN fallen f USING (run, case_id)
    WHERE f.ops IS NOT NULL OR s.refusal IS NOT NULL
)
SELECT
    j.run, j.case_id, j.kind, coalesce(m.downloads, 0) AS downloads,
    list_sort(list_distinct(list_concat(j.fallen, j.refused))) AS ops,
    j.outcome, len(j.refused) > 0 AS refused, j.outcome = 'passed' OR len(j.refused) > 0 AS freeable
FROM joined j
LEFT JOIN models m USING (run, case_id)
WHERE len(j.fallen) + len(j.refused) > 0;

-- Cases that lack the same ops, on one line: what `results.unlock` chooses from.
CREATE OR REPLACE VIEW v_blocked_sets AS
SELECT
    run, ops,
    count(*) FILTER (kind = 'model') AS models,
    coalesce(sum(downloads) FILTER (kind = 'model'), 0)::BIGINT AS downloads,
    count(*) FILTER (kind <> 'model') AS tests,
    count(*) FILTER (refused) AS unsupported
FROM v_blocked
WHERE freeable
GROUP BY run, ops;
