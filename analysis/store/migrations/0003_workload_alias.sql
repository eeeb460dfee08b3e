-- Which workloads were made one, by whose decision it then was: the name that went, and what it became.
CREATE TABLE workload_alias (
    dataset     VARCHAR NOT NULL,
    alias       VARCHAR NOT NULL,
    workload    VARCHAR NOT NULL,
    attributes  JSON    NOT NULL,           -- model, batch size ... as they were known under the alias
    sources     INTEGER[] NOT NULL,         -- sources whose rows were moved
    decided_at  TIMESTAMP NOT NULL DEFAULT current_timestamp,
    PRIMARY KEY (dataset, alias)
);
