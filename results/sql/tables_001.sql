-- Schema version 1. Facts only: what a plan or an event said. Everything derived is a view.
-- Times are UTC. Each fact names the log and sequence number that it comes from.

CREATE TABLE runs (
    run VARCHAR PRIMARY KEY,
    device VARCHAR NOT NULL,
    profile VARCHAR NOT NULL,
    plan_hash VARCHAR NOT NULL,
    planned BIGINT NOT NULL,
    settings VARCHAR NOT NULL            -- JSON
);

-- A run that was resumed started, and perhaps ended, more than once.
CREATE TABLE run_starts (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    resumed BOOLEAN NOT NULL,
    harness_version VARCHAR NOT NULL,
    environment MAP(VARCHAR, VARCHAR) NOT NULL
);

CREATE TABLE run_ends (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE planned (
    run VARCHAR NOT NULL,
    case_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    suite VARCHAR NOT NULL,
    file VARCHAR NOT NULL,               -- second part of the id; the model id for a model
    op VARCHAR NOT NULL,                 -- '' where the case is not about one operator
    dtype VARCHAR NOT NULL,
    expectation VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    link VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    spec VARCHAR NOT NULL                -- JSON
);

CREATE TABLE models (
    run VARCHAR NOT NULL,
    case_id VARCHAR NOT NULL,
    model_id VARCHAR NOT NULL,
    revision VARCHAR NOT NULL,
    task VARCHAR NOT NULL,
    architecture VARCHAR NOT NULL,
    model_type VARCHAR NOT NULL,
    library VARCHAR NOT NULL,
    parameters BIGINT,
    downloads BIGINT
);

CREATE TABLE entered (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    case_id VARCHAR NOT NULL,
    attempt INTEGER NOT NULL,
    stage VARCHAR NOT NULL
);

CREATE TABLE stage_results (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    case_id VARCHAR NOT NULL,
    attempt INTEGER NOT NULL,
    stage VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    seconds DOUBLE NOT NULL,
    exception VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    traceback VARCHAR NOT NULL,
    signature VARCHAR NOT NULL,          -- '' where nothing failed
    metrics MAP(VARCHAR, DOUBLE) NOT NULL,
    facts MAP(VARCHAR, VARCHAR) NOT NULL
);

CREATE TABLE op_calls (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    case_id VARCHAR NOT NULL,
    attempt INTEGER NOT NULL,
    stage VARCHAR NOT NULL,
    called VARCHAR NOT NULL,
    executed VARCHAR NOT NULL,
    dtype VARCHAR NOT NULL,
    device_calls BIGINT NOT NULL,
    fallback_calls BIGINT NOT NULL,
    device_ns BIGINT NOT NULL,
    fallback_ns BIGINT NOT NULL,
    bytes_moved BIGINT NOT NULL
);

CREATE TABLE signatures (
    signature VARCHAR PRIMARY KEY,
    exception VARCHAR NOT NULL,
    pattern VARCHAR NOT NULL             -- the message without what differs between equal failures
);

CREATE TABLE worker_starts (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    worker VARCHAR NOT NULL,
    pid BIGINT NOT NULL,
    cases BIGINT NOT NULL
);

CREATE TABLE worker_ends (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    time TIMESTAMP NOT NULL,
    worker VARCHAR NOT NULL,
    fate VARCHAR NOT NULL,
    signal INTEGER NOT NULL,
    exit_code INTEGER NOT NULL,
    case_id VARCHAR NOT NULL,
    stage VARCHAR NOT NULL,
    output_tail VARCHAR NOT NULL
);

-- How far each log has been read, and the hash of what was read, so that the rest can be added.
CREATE TABLE ingested_logs (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    records BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    refused VARCHAR NOT NULL,            -- '' or why its other records were not taken
    PRIMARY KEY (run, log)
);
