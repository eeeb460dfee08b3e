-- Rows of a file that were understood and set aside by a rule of its format: they can be looked at like those rejected.
CREATE TABLE set_aside_row (
    source_id  INTEGER NOT NULL,
    rule       VARCHAR NOT NULL,
    line       BIGINT,
    text       VARCHAR
);
