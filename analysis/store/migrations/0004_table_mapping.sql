-- How columns of a table that no format claims fill the fields of an own table, as a user decided it.
CREATE TABLE table_mapping (
    name      VARCHAR PRIMARY KEY,
    kind      VARCHAR NOT NULL,             -- own-coruns, own-profiles
    header    VARCHAR[] NOT NULL,           -- names of the table's columns, in their order
    mapping   JSON NOT NULL,                -- field -> column, and field -> what all rows have
    saved_at  TIMESTAMP NOT NULL DEFAULT current_timestamp
);
