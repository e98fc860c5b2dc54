-- The skip ledger. A skipped case, and one that upstream does not even generate for the device, has exactly
-- one category (results/vocabulary.py) and so one source; what has none is uncategorised and comes first.
CREATE OR REPLACE VIEW v_skipped AS
SELECT skipped.*, o.ordinal
FROM (
    SELECT
        c.run, c.kind, c.suite, c.case_id, c.file, c.outcome,
        CASE
            WHEN s.skip_category = 'uncategorised' THEN 'uncategorised'
            WHEN c.outcome = 'skipped_backend' THEN 'deliberate'
            ELSE 'eligibility'
        END AS source,
        s.skip_category AS category,
        coalesce(nullif(s.facts['reason'], ''), nullif(s.message, ''), c.reason) AS reason,
        coalesce(s.facts['location'], '') AS location,
        coalesce(s.facts['decorator'], s.facts['frames'], '') AS raised,
        coalesce(s.facts['rule'], '') AS rule
    FROM v_cases c
    JOIN v_stages s ON s.run = c.run AND s.case_id = c.case_id AND s.stage = c.stage
    WHERE s.skip_category <> ''
) skipped
JOIN skip_sources o USING (source);

CREATE OR REPLACE VIEW v_skips AS
SELECT
    k.run, k.suite, k.source, o.ordinal, k.category, coalesce(r.meaning, o.meaning) AS meaning,
    count(*) AS cases,
    len(list_distinct(list(k.reason))) AS reasons,
    list_aggregate(list_sort(list(k.reason)), 'mode') AS example_reason,
    arg_min(k.case_id, (k.reason <> m.reason, k.case_id)) AS example_case
FROM v_skipped k
JOIN skip_sources o USING (source)
LEFT JOIN category_rules r USING (category)
JOIN (
    SELECT run, suite, source, category, list_aggregate(list_sort(list(reason)), 'mode') AS reason FROM v_skipped GROUP BY ALL
) m USING (run, suite, source, category)
GROUP BY k.run, k.suite, k.source, o.ordinal, k.category, r.meaning, o.meaning;

-- Both sums of a run, each counted twice: planned cases against their outcomes, and the cases whose outcome
-- says skipped against the ledger, in which those that upstream does not generate stand apart.
CREATE OR REPLACE VIEW v_skip_balance AS
WITH outcomes AS (
    SELECT
        run,
        sum(cases) AS outcomes,
        sum(cases) FILTER (outcome IN ('skipped_upstream', 'skipped_backend')) AS skipped
    FROM v_outcomes
    GROUP BY run
), ledger AS (
    SELECT
        run,
        count(*) FILTER (source = 'eligibility') AS eligibility,
        count(*) FILTER (source = 'deliberate') AS deliberate,
        count(*) FILTER (source = 'uncategorised') AS uncategorised,
        count(*) FILTER (outcome NOT IN ('skipped_upstream', 'skipped_backend')) AS not_generated
    FROM v_skipped
    GROUP BY run
), joined AS (
    SELECT
        r.run, r.planned,
        coalesce(o.outcomes, 0)::BIGINT AS outcomes,
        coalesce(o.skipped, 0)::BIGINT AS skipped,
        coalesce(l.not_generated, 0) AS not_generated,
        coalesce(l.eligibility, 0) AS eligibility,
        coalesce(l.deliberate, 0) AS deliberate,
        coalesce(l.uncategorised, 0) AS uncategorised
    FROM runs r
    LEFT JOIN outcomes o USING (run)
    LEFT JOIN ledger l USING (run)
)
SELECT
    *,
    skipped + not_generated AS skips,
    planned = outcomes AND skipped + not_generated = eligibility + deliberate + uncategorised AS balanced
FROM joined;
