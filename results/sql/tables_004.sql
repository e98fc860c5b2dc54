-- What a known failure has to be, and where; '' for any.

ALTER TABLE planned ADD COLUMN expected_outcome VARCHAR DEFAULT '';
ALTER TABLE planned ADD COLUMN expected_stage VARCHAR DEFAULT '';
