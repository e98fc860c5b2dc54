-- Two runs compared, case by case (results/diff.py). Macros, since a view has no parameters: the two runs.

-- The cases of a run as a comparison sees them. A state says what is known: passed, failed, skipped or nothing.
CREATE OR REPLACE MACRO diff_side(one_run) AS TABLE
SELECT
    c.case_id, c.kind, c.suite, c.file, c.op, c.dtype, c.outcome, c.stage, s.ordinal AS stage_ordinal,
    c.exception, c.message, c.signature, c.expectation, m.model_id, m.downloads,
    CASE
        WHEN c.outcome IN (SELECT outcome FROM verdict_rules WHERE verdict = 'incomplete') THEN 'unknown'
        WHEN c.outcome IN ('skipped_upstream', 'skipped_backend') THEN 'skipped'
        WHEN c.outcome = 'passed' THEN 'passed'
        ELSE 'failed'
    END AS state
FROM v_cases c
JOIN stage_rules s ON s.kind = c.kind AND s.stage = c.stage
LEFT JOIN models m ON m.run = c.run AND m.case_id = c.case_id
WHERE c.run = one_run;

-- Models whose commit changed: in each run one case of the model that the other has not, and no second one.
CREATE OR REPLACE MACRO diff_moved(before_run, after_run) AS TABLE
WITH alone_before AS (
    SELECT model_id, any_value(case_id) AS case_id
    FROM models b
    WHERE b.run = before_run
        AND NOT EXISTS (SELECT 1 FROM models o WHERE o.run = after_run AND o.case_id = b.case_id)
    GROUP BY model_id
    HAVING count(*) = 1
), alone_after AS (
    SELECT model_id, any_value(case_id) AS case_id
    FROM models a
    WHERE a.run = after_run
        AND NOT EXISTS (SELECT 1 FROM models o WHERE o.run = before_run AND o.case_id = a.case_id)
    GROUP BY model_id
    HAVING count(*) = 1
)
SELECT b.case_id AS before_id, a.case_id AS after_id
FROM alone_before b
JOIN alone_after a USING (model_id);

-- Every case of either run, once, in exactly one class.
CREATE OR REPLACE MACRO diff_cases(before_run, after_run) AS TABLE
WITH before_side AS (
    SELECT s.*, coalesce(m.after_id, s.case_id) AS pair
    FROM diff_side(before_run) s
    LEFT JOIN diff_moved(before_run, after_run) m ON m.before_id = s.case_id
), after_side AS (
    SELECT *, case_id AS pair FROM diff_side(after_run)
), paired AS (
    SELECT
        pair AS case_id,
        b.case_id AS before_id, a.case_id AS after_id,
        coalesce(a.kind, b.kind) AS kind,
        coalesce(a.suite, b.suite) AS suite,
        coalesce(a.file, b.file) AS file,
        coalesce(a.op, b.op) AS op,
        coalesce(a.dtype, b.dtype) AS dtype,
        coalesce(a.model_id, b.model_id) AS model_id,
        coalesce(a.downloads, b.downloads) AS downloads,
        coalesce(b.state, 'absent') AS before_state, coalesce(a.state, 'absent') AS after_state,
        b.outcome AS before_outcome, a.outcome AS after_outcome,
        b.stage AS before_stage, a.stage AS after_stage,
        b.stage_ordinal AS before_ordinal, a.stage_ordinal AS after_ordinal,
        b.signature AS before_signature, a.signature AS after_signature,
        b.exception AS before_exception, a.exception AS after_exception,
        b.message AS before_message, a.message AS after_message,
        coalesce(b.expectation = 'flaky', false) OR coalesce(a.expectation = 'flaky', false) AS declared_flaky
    FROM before_side b
    FULL JOIN after_side a USING (pair)
), classed AS (
    SELECT
        *,
        CASE
            WHEN before_state = 'absent' THEN 'added'
            WHEN after_state = 'absent' THEN 'removed'
            WHEN before_state = 'unknown' AND after_state = 'unknown' THEN 'unchanged'
            WHEN after_state = 'unknown' THEN 'not_run'
            WHEN before_state = 'unknown' THEN 'now_run'
            WHEN before_state = 'skipped' AND after_state = 'skipped' THEN 'unchanged'
            WHEN after_state = 'skipped' THEN 'became_skipped'
            WHEN before_state = 'skipped' THEN 'no_longer_skipped'
            WHEN before_state = 'passed' AND after_state = 'passed' THEN 'unchanged'
            WHEN before_state <> after_state AND declared_flaky THEN 'flaky'
            WHEN before_state = 'passed' THEN 'regressed'
            WHEN after_state = 'passed' THEN 'newly_passing'
            WHEN after_ordinal < before_ordinal THEN 'earlier_stage'
            WHEN after_ordinal > before_ordinal THEN 'later_stage'
            WHEN before_outcome <> after_outcome OR before_signature <> after_signature THEN 'changed_signature'
            ELSE 'unchanged'
        END AS class
    FROM paired
)
SELECT
    *,
    -- What passed and is skipped now proves as little as what fails.
    class IN ('regressed', 'earlier_stage') OR (class = 'became_skipped' AND before_state = 'passed') AS worse
FROM classed;

-- A class that occurs: how many cases of which suite, and the downloads of its models where they are known.
CREATE OR REPLACE MACRO diff_classes(before_run, after_run) AS TABLE
SELECT
    class, suite,
    count(*) AS cases,
    count(*) FILTER (kind = 'model') AS models,
    coalesce(sum(downloads), 0)::BIGINT AS downloads,
    count(*) FILTER (worse) AS worse,
    count(*) FILTER (after_state = 'failed') AS failed_after,
    count(*) FILTER (before_state <> 'absent') AS planned_before,
    count(*) FILTER (after_state <> 'absent') AS planned_after,
    count(*) FILTER (before_state = 'passed') AS passed_before,
    count(*) FILTER (before_state = 'failed') AS failed_before,
    count(*) FILTER (before_state = 'failed' AND after_state = 'failed') AS failed_both,
    count(*) FILTER (before_state IN ('passed', 'failed')) AS judged_before,
    count(*) FILTER (before_state = 'skipped') AS skipped_before,
    count(*) FILTER (before_state = 'unknown') AS unknown_before,
    count(*) FILTER (before_state NOT IN ('absent', 'unknown')) AS known_before
FROM diff_cases(before_run, after_run)
GROUP BY class, suite;

-- Equal failures among what got worse, was added, is run now or is no longer skipped.
CREATE OR REPLACE MACRO diff_failures(before_run, after_run) AS TABLE
SELECT
    class, after_signature AS signature, count(*) AS cases,
    count(*) FILTER (kind = 'model') AS models,
    coalesce(sum(downloads), 0)::BIGINT AS downloads,
    min(case_id) AS example_case,
    arg_min(after_outcome, case_id) AS outcome,
    arg_min(after_stage, case_id) AS stage,
    arg_min(after_exception, case_id) AS exception,
    arg_min(after_message, case_id) AS message
FROM diff_cases(before_run, after_run)
WHERE after_state = 'failed' AND class NOT IN ('unchanged', 'flaky')
GROUP BY class, after_signature;

-- What the two runs ran on, with and by, where it is not the same.
CREATE OR REPLACE MACRO diff_environment(before_run, after_run) AS TABLE
WITH asked AS (
    SELECT * FROM v_runs WHERE run IN (before_run, after_run)
), facts AS (
    SELECT run, 0 AS ordinal, 'device' AS name, device AS value FROM asked
    UNION ALL SELECT run, 1, 'profile', profile FROM asked
    UNION ALL SELECT run, 2, 'harness', harness_version FROM asked
    UNION ALL SELECT run, 3, 'plan', plan_hash FROM asked
    UNION ALL
    SELECT run, 4, e.key, e.value FROM (SELECT run, unnest(map_entries(environment)) AS e FROM asked)
    UNION ALL
    SELECT a.run, 5, 'setting ' || j.key, j.value::VARCHAR FROM asked a, json_each(a.settings) j
)
SELECT
    ordinal, name,
    any_value(value) FILTER (run = before_run) AS before,
    any_value(value) FILTER (run = after_run) AS after
FROM facts
GROUP BY ordinal, name
HAVING before IS DISTINCT FROM after;
