-- results/vocabulary.py and results/operators.py as tables. Derived, so made anew by each writer.
CREATE OR REPLACE TABLE outcome_rules (outcome VARCHAR, ordinal INTEGER, meaning VARCHAR, counts BOOLEAN, gates BOOLEAN);
CREATE OR REPLACE TABLE verdict_rules (outcome VARCHAR, expectation VARCHAR, as_declared BOOLEAN, verdict VARCHAR);
CREATE OR REPLACE TABLE stage_rules (kind VARCHAR, stage VARCHAR, ordinal INTEGER, on_device BOOLEAN);
CREATE OR REPLACE TABLE op_roles (op VARCHAR, role VARCHAR);
CREATE OR REPLACE TABLE skip_sources (source VARCHAR, ordinal INTEGER, meaning VARCHAR);
CREATE OR REPLACE TABLE category_rules (category VARCHAR, meaning VARCHAR);
