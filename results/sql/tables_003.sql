-- Schema version 3: the one category that explains why a stage was skipped, '' where it was not.

ALTER TABLE stage_results ADD COLUMN category VARCHAR DEFAULT '';

UPDATE stage_results SET category = 'uncategorised' WHERE outcome IN ('skipped_upstream', 'skipped_backend');
