-- The last attempt of a case is the one that counts; the others stay in stage_results.
CREATE OR REPLACE VIEW v_attempts AS
SELECT run, case_id, max(attempt) AS attempt, count(*) AS attempts
FROM (SELECT run, case_id, attempt FROM stage_results GROUP BY run, case_id, attempt)
GROUP BY run, case_id;

-- What each attempt of a case came to, of the cases that had several.
CREATE OR REPLACE VIEW v_attempt_outcomes AS
WITH folded AS (
    SELECT
        r.run, r.case_id, r.attempt, p.kind,
        count(*) FILTER (r.outcome = 'passed') AS passed,
        arg_min(r.outcome, s.ordinal) FILTER (r.outcome <> 'passed') AS failed
    FROM stage_results r
    JOIN v_attempts a USING (run, case_id)
    JOIN planned p USING (run, case_id)
    JOIN stage_rules s ON s.kind = p.kind AND s.stage = r.stage
    WHERE a.attempts > 1
    GROUP BY r.run, r.case_id, r.attempt, p.kind
), stages AS (
    SELECT kind, count(*) AS planned FROM stage_rules GROUP BY kind
)
SELECT
    f.run, f.case_id, f.attempt,
    coalesce(f.failed, if(f.passed = s.planned, 'passed', 'not_run')) AS outcome
FROM folded f
JOIN stages s USING (kind);

-- Every stage of every attempt, those included that were entered and whose end nobody recorded. What
-- the supervisor charged to a case names the worker among its facts; else the log has its name.
CREATE OR REPLACE VIEW v_attempt_stages AS
WITH attempted AS (
    SELECT
        run, case_id, attempt, stage, outcome, true AS recorded, seconds, exception, message,
        coalesce(facts['worker'], log) AS worker
    FROM stage_results
    UNION ALL
    SELECT
        e.run, e.case_id, e.attempt, e.stage, 'not_run', false, NULL, '',
        'entered, and its end was never recorded', e.log
    FROM entered e
    ANTI JOIN stage_results r USING (run, case_id, attempt, stage)
)
SELECT
    a.run, a.case_id, a.attempt, a.stage, s.ordinal, a.outcome, a.recorded, a.seconds,
    a.exception, a.message, regexp_replace(a.worker, '\.jsonl$', '') AS worker
FROM attempted a
JOIN planned p USING (run, case_id)
JOIN stage_rules s ON s.kind = p.kind AND s.stage = a.stage;

-- Cases that passed in one attempt and failed in another, and the cases that disturb them, if known. With
-- experiments and nobody who disturbs, the failure could not be reproduced.
CREATE OR REPLACE VIEW v_flakes AS
WITH mixed AS (
    SELECT run, case_id, list(outcome ORDER BY attempt) AS outcomes
    FROM v_attempt_outcomes
    JOIN outcome_rules USING (outcome)
    GROUP BY run, case_id
    HAVING bool_or(outcome = 'passed') AND bool_or(gates)
)
SELECT
    m.run, m.case_id, m.outcomes, coalesce(d.disturbed_by, []) AS disturbed_by,
    coalesce(d.experiments, 0) AS experiments
FROM mixed m
LEFT JOIN disturbances d USING (run, case_id);

-- One row for every planned stage of every planned case, whether it has a result or not.
CREATE OR REPLACE VIEW v_stages AS
SELECT
    p.run, p.case_id, p.kind, p.suite, s.stage, s.ordinal, s.on_device,
    coalesce(r.outcome, 'not_run') AS outcome,
    coalesce(r.seconds, 0) AS seconds,
    coalesce(r.exception, '') AS exception,
    coalesce(r.message, '') AS message,
    coalesce(r.signature, '') AS signature,
    a.attempt,
    r.outcome IS NOT NULL AS recorded,
    r.metrics, r.facts, r.traceback, r.log,
    coalesce(r.category, '') AS skip_category,
    coalesce(r.evidence, '') AS evidence,
    coalesce(r.evidence_from, '') AS evidence_from
FROM planned p
JOIN stage_rules s USING (kind)
LEFT JOIN v_attempts a USING (run, case_id)
LEFT JOIN stage_results r
    ON r.run = p.run AND r.case_id = p.case_id AND r.attempt = a.attempt AND r.stage = s.stage;

-- The first stage that did not pass decides a case, else its last stage (vocabulary.case_outcome). Told in one
-- pass over the stages, each column by itself, so that a query holds no more than the columns it asks for.
CREATE OR REPLACE VIEW v_decided AS
WITH ranked AS (
    SELECT *, if(outcome = 'passed', 1000 - ordinal, ordinal) AS rank FROM v_stages
)
SELECT
    run, case_id,
    any_value(kind) AS kind,
    any_value(suite) AS suite,
    arg_min(outcome, rank) AS outcome,
    arg_min(stage, rank) AS stage,
    arg_min(exception, rank) AS exception,
    arg_min(message, rank) AS message,
    arg_min(signature, rank) AS signature,
    arg_min(evidence, rank) AS evidence,
    arg_min(evidence_from, rank) AS evidence_from,
    any_value(attempt) AS attempt,
    sum(seconds) AS seconds
FROM ranked
GROUP BY run, case_id;

-- The same with what was declared of the case and the verdict on it.
CREATE OR REPLACE VIEW v_cases AS
SELECT
    p.run, p.case_id, p.kind, p.suite, p.file, p.op, p.dtype, p.check_name,
    d.outcome, d.stage, p.expectation,
    if(f.case_id IS NOT NULL AND p.expectation IN ('pass', 'flaky'), 'flake', v.verdict) AS verdict,
    d.seconds, d.exception, d.message, d.signature,
    p.category, p.reason, p.link, p.owner, p.expected_outcome, p.expected_stage,
    coalesce(a.attempts, 0) AS attempts, d.attempt, o.counts, o.gates,
    d.evidence, d.evidence_from
FROM planned p
JOIN v_decided d USING (run, case_id)
JOIN outcome_rules o ON o.outcome = d.outcome
JOIN verdict_rules v ON v.outcome = d.outcome AND v.expectation = p.expectation
    AND v.as_declared = (p.expected_outcome IN ('', d.outcome) AND p.expected_stage IN ('', d.stage))
LEFT JOIN v_attempts a ON a.run = p.run AND a.case_id = p.case_id
LEFT JOIN v_flakes f ON f.run = p.run AND f.case_id = p.case_id;

CREATE OR REPLACE VIEW v_outcomes AS
SELECT c.run, c.kind, c.suite, c.outcome, o.ordinal, o.counts, o.gates, count(*) AS cases
FROM v_decided c
JOIN outcome_rules o USING (outcome)
GROUP BY ALL;

CREATE OR REPLACE VIEW v_verdicts AS
SELECT run, verdict, count(*) AS cases
FROM v_cases
GROUP BY ALL;

-- Equal failures on one line. A case is counted once per signature, whatever the stage.
-- Beside other aggregates, DISTINCT and ORDER BY keep DuckDB 2.0 from pushing a condition on the run down to the
-- tables, and every run of the store is read: so lists are made, sorted and counted, here and in other views.
CREATE OR REPLACE VIEW v_failures AS
SELECT
    r.run, r.signature,
    any_value(g.exception) AS exception,
    min(r.message) AS message,
    len(list_distinct(list(r.case_id))) AS cases,
    min(r.case_id) AS example_case,
    list_aggregate(list_sort(list({'ordinal': s.ordinal, 'stage': r.stage})), 'mode').stage AS stage,
    list_aggregate(list_sort(list(r.outcome)), 'mode') AS outcome,
    any_value(g.pattern) AS pattern
FROM stage_results r
JOIN v_attempts a USING (run, case_id, attempt)
JOIN planned p USING (run, case_id)
JOIN stage_rules s ON s.kind = p.kind AND s.stage = r.stage
JOIN signatures g USING (signature)
WHERE r.signature <> ''
GROUP BY r.run, r.signature;

-- Equal regressions, of how many unrelated operators, files or models, and their share of the cases that passed
-- or failed. What was expected to fail is no evidence, and neither is what did not come to a judgement.
CREATE OR REPLACE VIEW v_common_failures AS
WITH judged AS (
    SELECT
        run, case_id, signature, exception, message,
        verdict = 'regression' AS regressed,
        coalesce(nullif(op, ''), file) AS subject
    FROM v_cases
    WHERE (outcome = 'passed' OR gates) AND verdict <> 'known_failure'
), totals AS (
    SELECT run, count(*) AS judged FROM judged GROUP BY run
), grouped AS (
    SELECT
        run, signature, count(*) AS cases, len(list_distinct(list(subject))) AS subjects,
        arg_min(exception, case_id) AS exception,
        arg_min(message, case_id) AS message,
        min(case_id) AS example_case
    FROM judged
    WHERE regressed
    GROUP BY run, signature
)
SELECT g.*, t.judged, g.cases / t.judged AS share
FROM grouped g
JOIN totals t USING (run);

-- Cases without a result, with the best reason there is.
CREATE OR REPLACE VIEW v_not_run AS
WITH last_entered AS (
    SELECT run, case_id, arg_max(e.stage, (e.attempt, e.time, e.seq)) AS stage
    FROM entered e
    ANTI JOIN stage_results r USING (run, case_id, attempt, stage)
    GROUP BY run, case_id
), last_end AS (
    SELECT run, arg_max(state, seq) AS state, arg_max(reason, seq) AS reason
    FROM run_ends
    GROUP BY run
)
SELECT
    c.run, c.case_id, c.kind, c.suite,
    CASE
        WHEN c.message <> '' THEN c.message
        WHEN e.stage IS NOT NULL THEN 'entered ' || e.stage || ', and its end was never recorded'
        WHEN c.attempts > 0 THEN 'stopped before ' || c.stage
        WHEN l.state IS NULL THEN 'never began; the run has not ended'
        ELSE 'never began; the run ended ' || l.state || if(l.reason = '', '', ': ' || l.reason)
    END AS reason
FROM v_cases c
LEFT JOIN last_entered e USING (run, case_id)
LEFT JOIN last_end l ON l.run = c.run
WHERE c.outcome = 'not_run';

-- Pass rates. An outcome that says nothing of the device (outcome_rules.counts) leaves the denominator.
CREATE OR REPLACE VIEW v_suites AS
WITH counted AS (
    SELECT
        run, kind, suite,
        sum(cases)::BIGINT AS planned,
        coalesce(sum(cases) FILTER (counts), 0)::BIGINT AS counted,
        coalesce(sum(cases) FILTER (outcome = 'passed'), 0)::BIGINT AS passed
    FROM v_outcomes
    GROUP BY run, kind, suite
)
SELECT *, passed / nullif(counted, 0) AS share
FROM counted;

-- The same for each check of each list of suite opinfo.
CREATE OR REPLACE VIEW v_checks AS
WITH counted AS (
    SELECT
        run, file AS list, check_name,
        count(*) AS planned,
        count(*) FILTER (counts) AS counted,
        count(*) FILTER (outcome = 'passed') AS passed,
        count(*) FILTER (gates) AS failed,
        count(*) FILTER (outcome = 'unsupported') AS unsupported,
        count(*) FILTER (outcome IN ('skipped_upstream', 'skipped_backend')) AS skipped,
        sum(seconds) AS seconds
    FROM v_cases
    WHERE check_name <> ''
    GROUP BY run, file, check_name
)
SELECT *, passed / nullif(counted, 0) AS share
FROM counted;
