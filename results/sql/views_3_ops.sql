-- Op calls of the attempts that count. What does not compute (results/operators.py) is marked, not
-- hidden; an op that should only view and yet ran on the CPU had to be computed there.
CREATE OR REPLACE VIEW v_op_calls AS
SELECT
    o.run, o.case_id, p.kind, o.stage, o.called, o.executed, o.dtype,
    coalesce(m.role, 'compute') AS role,
    coalesce(m.role, 'compute') = 'movement' AS data_movement,
    coalesce(m.role, 'compute') = 'compute' OR (m.role = 'metadata' AND o.fallback_calls > 0) AS computes,
    o.device_calls, o.fallback_calls, o.device_ns, o.fallback_ns, o.bytes_moved
FROM op_calls o
JOIN planned p USING (run, case_id)
JOIN v_attempts a ON a.run = o.run AND a.case_id = o.case_id AND a.attempt = o.attempt
LEFT JOIN op_roles m ON m.op = o.executed;

CREATE OR REPLACE VIEW v_ops AS
WITH per_case AS (
    SELECT
        run, called, executed, dtype, role, data_movement, case_id, kind,
        sum(device_calls) AS device_calls,
        sum(fallback_calls) AS fallback_calls,
        sum(device_ns) AS device_ns,
        sum(fallback_ns) AS fallback_ns,
        sum(bytes_moved) AS bytes_moved
    FROM v_op_calls
    GROUP BY ALL
)
SELECT
    run, called, executed, dtype, role, data_movement,
    sum(device_calls)::BIGINT AS device_calls,
    sum(fallback_calls)::BIGINT AS fallback_calls,
    sum(device_ns)::BIGINT AS device_ns,
    sum(fallback_ns)::BIGINT AS fallback_ns,
    sum(bytes_moved)::BIGINT AS bytes_moved,
    count(*) FILTER (kind = 'model') AS models,
    count(*) FILTER (kind <> 'model') AS tests
FROM per_case
GROUP BY run, called, executed, dtype, role, data_movement;

-- Shares are of calls to computing ops: copies, allocations and views would flatter them.
CREATE OR REPLACE VIEW v_device_share AS
WITH sums AS (
    SELECT
        run, kind,
        coalesce(sum(device_calls) FILTER (computes), 0)::BIGINT AS device,
        coalesce(sum(fallback_calls) FILTER (computes), 0)::BIGINT AS fallback,
        coalesce(sum(device_calls + fallback_calls) FILTER (data_movement), 0)::BIGINT AS movement,
        sum(bytes_moved)::BIGINT AS bytes
    FROM v_op_calls
    GROUP BY run, kind
)
SELECT
    run, kind, device AS device_calls, fallback AS fallback_calls,
    device / nullif(device + fallback, 0) AS share,
    movement AS movement_calls, bytes AS bytes_moved
FROM sums;

-- Distinct overloads that ran on the device, on the CPU, or on both, by the name that was called.
CREATE OR REPLACE VIEW v_op_routes AS
WITH per_op AS (
    SELECT run, called, sum(device_calls) > 0 AS device, sum(fallback_calls) > 0 AS fallback
    FROM v_op_calls
    WHERE computes
    GROUP BY run, called
)
SELECT
    run,
    count(*) FILTER (device AND NOT fallback) AS device_only,
    count(*) FILTER (device AND fallback) AS both,
    count(*) FILTER (fallback AND NOT device) AS fallback_only,
    count(*) FILTER (device OR fallback) AS ops
FROM per_op
GROUP BY run;

-- Ops that fell back, the one that touches most models first. An op is named as it was called.
CREATE OR REPLACE VIEW v_gaps AS
WITH hits AS (
    SELECT
        run, called AS op, case_id, kind, list(DISTINCT dtype) AS dtypes, list(DISTINCT executed) AS executed,
        sum(fallback_calls) AS calls, sum(fallback_ns) AS ns, sum(bytes_moved) AS bytes
    FROM v_op_calls
    WHERE fallback_calls > 0 AND computes
    GROUP BY run, called, case_id, kind
), ranked AS (
    SELECT
        h.run, h.op,
        count(*) FILTER (h.kind = 'model') AS models,
        coalesce(sum(m.downloads), 0)::BIGINT AS downloads,
        count(*) FILTER (h.kind <> 'model') AS tests,
        sum(h.calls)::BIGINT AS fallback_calls,
        sum(h.ns)::BIGINT AS fallback_ns,
        sum(h.bytes)::BIGINT AS bytes_moved,
        list_sort(list_distinct(flatten(list(h.dtypes)))) AS dtypes,
        list_sort(list_distinct(flatten(list(h.executed)))) AS executed,
        coalesce(
            (list(m.model_id ORDER BY m.downloads DESC NULLS LAST, m.model_id)
                FILTER (m.model_id IS NOT NULL))[1:5], []
        ) AS example_models
    FROM hits h
    LEFT JOIN models m ON m.run = h.run AND m.case_id = h.case_id
    GROUP BY h.run, h.op
)
SELECT
    run,
    row_number() OVER (
        PARTITION BY run ORDER BY models DESC, downloads DESC, fallback_calls DESC, op
    ) AS rank,
    op, models, downloads, tests, fallback_calls, fallback_ns, bytes_moved, dtypes, executed, example_models
FROM ranked;
