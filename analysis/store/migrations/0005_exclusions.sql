-- What a user decided about a check's finding. Nothing was ever written to the first form of this table.
DROP TABLE exclusion;
CREATE TABLE exclusion (                    -- a decision: these rows of this rule's finding are left out
    exclusion_id  INTEGER PRIMARY KEY,
    dataset       VARCHAR NOT NULL,
    rule          VARCHAR NOT NULL,
    place         VARCHAR NOT NULL,         -- where the rule found it
    condition     VARCHAR,                  -- which of the finding's rows, as the user wrote it
    why           VARCHAR,
    decided_by    VARCHAR NOT NULL,
    decided_at    TIMESTAMP NOT NULL DEFAULT current_timestamp
);

-- What the decision takes out of every figure; gone with its source. analysis/store/counted.py reads it.
CREATE TABLE excluded (
    exclusion_id  INTEGER NOT NULL,
    source_id     INTEGER NOT NULL,
    scope         VARCHAR NOT NULL CHECK (scope IN
                  ('run', 'member', 'solo', 'profile', 'value', 'feature', 'series', 'source')),
    run_id        INTEGER,
    slot          INTEGER,
    workload_id   INTEGER,
    gpu           VARCHAR,
    mechanism     VARCHAR,
    kernel_id     BIGINT,
    name          VARCHAR,                  -- of a metric, feature or telemetry counter
    device        VARCHAR
);
