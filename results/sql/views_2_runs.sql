-- One row a run: when and of what it was made, and where it stands, without a look at its cases.
-- Starts and ends are in one log, and are ordered by it: a clock may be set back in a night.
CREATE OR REPLACE VIEW v_run_heads AS
WITH started AS (
    SELECT
        run, max(seq) AS seq, arg_min(time, seq) AS started, count(*) FILTER (resumed) AS resumes,
        arg_max(harness_version, seq) AS harness_version, arg_max(environment, seq) AS environment
    FROM run_starts
    GROUP BY run
), ended AS (
    SELECT
        run, max(seq) AS seq, arg_max(time, seq) AS ended,
        arg_max(state, seq) AS state, arg_max(reason, seq) AS reason
    FROM run_ends
    GROUP BY run
)
SELECT
    r.run, r.device, r.profile,
    CASE WHEN e.seq IS NULL OR s.seq > e.seq THEN 'running' ELSE e.state END AS state,
    s.started, e.ended,
    greatest(date_diff('millisecond', s.started, e.ended), 0) / 1000 AS seconds,
    r.planned,
    coalesce(e.reason, '') AS reason,
    coalesce(s.harness_version, '') AS harness_version,
    coalesce(s.resumes, 0) AS resumes,
    s.environment, r.plan_hash, r.settings
FROM runs r
LEFT JOIN started s USING (run)
LEFT JOIN ended e USING (run);

-- One row a run: whether every planned case has a result, and if not, how many have none.
CREATE OR REPLACE VIEW v_completeness AS
WITH counted AS (
    SELECT run, count(*) AS cases, count(*) FILTER (outcome <> 'not_run') AS with_result
    FROM v_decided
    GROUP BY run
), refused AS (
    SELECT run, count(*) AS logs, min(refused) AS why FROM ingested_logs WHERE refused <> '' GROUP BY run
), joined AS (
    SELECT
        r.run, r.planned,
        coalesce(c.with_result, 0) AS with_result,
        r.planned - coalesce(c.with_result, 0) AS missing,
        r.state, r.reason,
        coalesce(f.logs, 0) AS refused_logs,
        coalesce(f.why, '') AS refused_why
    FROM v_run_heads r
    LEFT JOIN counted c USING (run)
    LEFT JOIN refused f USING (run)
)
SELECT *, state = 'complete' AND missing = 0 AND refused_logs = 0 AS complete
FROM joined;

-- A test file of a run: how many of its tests were collected. What stands for a file or class that could not
-- be collected is no test.
CREATE OR REPLACE VIEW v_collected AS
SELECT
    run, suite, file,
    count(*) FILTER (NOT ends_with(case_id, '::<collection>')) AS collected,
    count(*) FILTER (ends_with(case_id, '::<collection>')) AS not_collected
FROM planned
WHERE kind = 'pytest'
GROUP BY run, suite, file;

CREATE OR REPLACE VIEW v_missing AS
SELECT run, reason, count(*) AS cases, min(case_id) AS example_case
FROM v_not_run
GROUP BY ALL;

CREATE OR REPLACE VIEW v_runs AS
SELECT
    h.run, h.device, h.profile, h.state, h.started, h.ended, h.seconds,
    h.planned, c.with_result, c.missing, c.complete, h.reason,
    h.harness_version, h.resumes, h.environment, h.plan_hash, h.settings
FROM v_run_heads h
JOIN v_completeness c USING (run);

-- How worker processes ended. A name used again after a resume is told apart by time.
CREATE OR REPLACE VIEW v_workers AS
SELECT
    e.run, e.worker, e.fate, e.fate <> 'finished' AS death, e.signal, e.exit_code,
    e.case_id, e.stage, s.pid, s.cases, s.time AS started, e.time AS ended, e.output_tail,
    e.peak_bytes
FROM worker_ends e
ASOF LEFT JOIN worker_starts s ON s.run = e.run AND s.worker = e.worker AND s.time <= e.time;

-- Deaths on one line a fate. The example is the first one that was in a case, if any was.
CREATE OR REPLACE VIEW v_deaths AS
SELECT
    run, fate, count(*) AS deaths,
    arg_min(worker, (case_id = '', ended, worker)) AS example_worker,
    arg_min(case_id, (case_id = '', ended, worker)) AS example_case,
    arg_min(stage, (case_id = '', ended, worker)) AS example_stage
FROM v_workers
WHERE death
GROUP BY run, fate;
