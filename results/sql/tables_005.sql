-- What is checked of an operator: 'forward', 'backward', ...; '' where a case is none of suite opinfo.

ALTER TABLE planned ADD COLUMN check_name VARCHAR DEFAULT '';
UPDATE planned SET check_name = coalesce(json_extract_string(spec, '$.check'), '') WHERE kind = 'opinfo';
