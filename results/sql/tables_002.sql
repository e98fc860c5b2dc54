-- Schema version 2: what experiments found of failures that depend on the cases before them, and
-- the memory that workers held.

ALTER TABLE worker_ends ADD COLUMN peak_bytes BIGINT DEFAULT 0;

CREATE TABLE disturbances (
    run VARCHAR NOT NULL,
    log VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    case_id VARCHAR NOT NULL,
    disturbed_by VARCHAR[] NOT NULL,     -- the fewest cases that have to run before it, in order
    experiments INTEGER NOT NULL
);
