-- Where a result comes from (vocabulary.Evidence), and the case or the run that it was taken from, '' for one
-- that ran.

ALTER TABLE stage_results ADD COLUMN evidence VARCHAR DEFAULT 'ran';
ALTER TABLE stage_results ADD COLUMN evidence_from VARCHAR DEFAULT '';
