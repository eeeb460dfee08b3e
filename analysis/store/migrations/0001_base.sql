-- Every row below `source` carries source_id, so that removing a source removes exactly what it brought.
CREATE TABLE dataset (
    name        VARCHAR PRIMARY KEY,
    title       VARCHAR,
    simulated   BOOLEAN NOT NULL DEFAULT false,
    licence     VARCHAR,
    citation    VARCHAR,
    created_at  TIMESTAMP NOT NULL DEFAULT current_timestamp
);

CREATE TABLE source (
    source_id         INTEGER PRIMARY KEY,
    dataset           VARCHAR NOT NULL,
    file_name         VARCHAR NOT NULL,
    sha256            VARCHAR NOT NULL UNIQUE,
    bytes             BIGINT  NOT NULL,
    format            VARCHAR NOT NULL,
    era               VARCHAR,
    importer_version  VARCHAR NOT NULL,
    rows_read         BIGINT  NOT NULL,
    rows_loaded       BIGINT  NOT NULL,   -- includes rows that a rule set aside
    rows_set_aside    BIGINT  NOT NULL,
    rows_rejected     BIGINT  NOT NULL,
    set_aside         JSON    NOT NULL,   -- rule -> rows
    report            JSON    NOT NULL,   -- encoding, separators, lines skipped, n/a metrics, warnings
    simulated         BOOLEAN NOT NULL DEFAULT false,
    licence           VARCHAR,
    citation          VARCHAR,
    loaded_at         TIMESTAMP NOT NULL DEFAULT current_timestamp,
    CHECK (rows_read = rows_loaded + rows_rejected)
);

CREATE TABLE rejected_row (
    source_id  INTEGER NOT NULL,
    line       BIGINT,
    "column"   VARCHAR,
    reason     VARCHAR NOT NULL,
    text       VARCHAR
);

CREATE TABLE workload (
    workload_id    INTEGER PRIMARY KEY,
    dataset        VARCHAR NOT NULL,
    name           VARCHAR NOT NULL,
    model          VARCHAR,
    family         VARCHAR,
    training_data  VARCHAR,
    batch_size     INTEGER,
    "precision"    VARCHAR,
    phase          VARCHAR,
    UNIQUE (dataset, name)
);

-- One profile a workload and GPU; its kernels may come from several files.
CREATE TABLE profile (
    profile_id   INTEGER PRIMARY KEY,
    workload_id  INTEGER NOT NULL,
    gpu          VARCHAR NOT NULL,
    UNIQUE (workload_id, gpu)
);

CREATE TABLE kernel (                       -- one launch
    kernel_id    BIGINT PRIMARY KEY,
    profile_id   INTEGER NOT NULL,
    source_id    INTEGER NOT NULL,
    process_id   VARCHAR,
    launch_id    VARCHAR,
    name         VARCHAR NOT NULL,
    short_name   VARCHAR NOT NULL,
    grid         VARCHAR,
    block        VARCHAR,
    cc           VARCHAR,
    device       VARCHAR,
    invocations  BIGINT NOT NULL DEFAULT 1,
    duration_ns  DOUBLE,                    -- of one launch
    line         BIGINT                     -- first line in the file
);

CREATE TABLE kernel_metric (
    kernel_id  BIGINT  NOT NULL,
    source_id  INTEGER NOT NULL,
    line       BIGINT,
    section    VARCHAR,
    metric     VARCHAR NOT NULL,
    unit       VARCHAR,                     -- base unit
    value      DOUBLE,                      -- NULL = the tool printed n/a
    text       VARCHAR,                     -- as printed where it is no number
    family     VARCHAR,                     -- stall family, see data/stall_reasons.csv
    reason     VARCHAR                      -- canonical stall reason
);

CREATE TABLE kernel_rule (
    kernel_id    BIGINT  NOT NULL,
    source_id    INTEGER NOT NULL,
    line         BIGINT,
    section      VARCHAR,
    rule         VARCHAR,
    kind         VARCHAR,
    text         VARCHAR,
    top_reason   VARCHAR,                   -- canonical reason that the CPIStall text names
    top_share    DOUBLE                     -- percent of warp cycles that the text states
);

CREATE TABLE solo (
    source_id        INTEGER NOT NULL,
    workload_id      INTEGER NOT NULL,
    gpu              VARCHAR NOT NULL,
    measure          VARCHAR NOT NULL,      -- throughput, time, latency, normalised
    unit             VARCHAR,
    value            DOUBLE,
    peak_memory_mib  DOUBLE,
    memory_kind      VARCHAR                -- nvidia-smi, reserved, allocated
);

CREATE TABLE feature (                      -- published per-workload aggregates, measured solo
    source_id    INTEGER NOT NULL,
    workload_id  INTEGER NOT NULL,
    gpu          VARCHAR NOT NULL,
    name         VARCHAR NOT NULL,
    value        DOUBLE,
    unit         VARCHAR
);

CREATE TABLE run (
    run_id       INTEGER PRIMARY KEY,
    source_id    INTEGER NOT NULL,
    external_id  VARCHAR,                   -- the file's own run id or row
    gpu          VARCHAR NOT NULL,
    mechanism    VARCHAR NOT NULL,
    k            INTEGER NOT NULL,
    outcome      VARCHAR NOT NULL CHECK (outcome IN ('ran', 'partial', 'did_not_run')),
    line         BIGINT,
    note         VARCHAR
);

CREATE TABLE member (
    run_id             INTEGER NOT NULL,
    source_id          INTEGER NOT NULL,
    slot               INTEGER NOT NULL,
    workload_id        INTEGER NOT NULL,
    outcome            VARCHAR NOT NULL CHECK (outcome IN ('ran', 'did_not_run')),
    measure            VARCHAR,             -- throughput, time, latency, normalised, slowdown
    unit               VARCHAR,
    solo_value         DOUBLE,
    corun_value        DOUBLE,
    slowdown           DOUBLE,              -- NULL where the job did not run or has no target
    p99_solo_ms        DOUBLE,
    p99_corun_ms       DOUBLE,
    peak_memory_mib    DOUBLE,
    memory_kind        VARCHAR,
    thread_percentage  DOUBLE,
    memory_cap_mib     DOUBLE,
    mig_profile        VARCHAR,
    priority           VARCHAR,
    flags              VARCHAR[] NOT NULL DEFAULT [],  -- clipped, hard_coded, averaged ...
    PRIMARY KEY (run_id, slot)
);

CREATE TABLE telemetry (
    source_id    INTEGER NOT NULL,
    workload_id  INTEGER,
    gpu          VARCHAR,
    device       VARCHAR,
    entity       VARCHAR,                   -- pod, process, MIG instance
    measured_at  TIMESTAMP,
    name         VARCHAR NOT NULL,
    value        DOUBLE,
    unit         VARCHAR,
    reason       VARCHAR                    -- why the value is missing
);

CREATE TABLE model (
    model_id    VARCHAR PRIMARY KEY,
    predictor   VARCHAR NOT NULL,
    dataset     VARCHAR NOT NULL,
    created_at  TIMESTAMP NOT NULL DEFAULT current_timestamp,
    manifest    JSON NOT NULL,
    payload     BLOB NOT NULL               -- skops
);

CREATE TABLE evaluation (
    evaluation_id  VARCHAR PRIMARY KEY,
    dataset        VARCHAR NOT NULL,
    protocol       VARCHAR NOT NULL,
    created_at     TIMESTAMP NOT NULL DEFAULT current_timestamp,
    request        JSON NOT NULL,
    result         JSON NOT NULL            -- rows of the comparison
);

CREATE TABLE prediction (                   -- out-of-fold predictions of an evaluation, or predictions of a model
    evaluation_id  VARCHAR,
    model_id       VARCHAR,
    predictor      VARCHAR NOT NULL,
    seed           INTEGER,
    fold           INTEGER,
    run_id         INTEGER,
    slot           INTEGER,
    workload       VARCHAR NOT NULL,
    co_workloads   VARCHAR[],
    gpu            VARCHAR,
    mechanism      VARCHAR,
    measured       DOUBLE,
    predicted      DOUBLE NOT NULL,
    low            DOUBLE,
    high           DOUBLE
);

CREATE TABLE job (
    job_id       VARCHAR PRIMARY KEY,
    kind         VARCHAR NOT NULL,
    request      JSON NOT NULL,
    state        VARCHAR NOT NULL,          -- queued, running, done, failed, cancelled
    fraction     DOUBLE NOT NULL DEFAULT 0,
    message      VARCHAR,
    result       JSON,
    created_at   TIMESTAMP NOT NULL DEFAULT current_timestamp,
    finished_at  TIMESTAMP
);

-- What a user decided about a check's finding; every later figure says so.
CREATE TABLE exclusion (
    dataset   VARCHAR NOT NULL,
    rule      VARCHAR NOT NULL,
    gpu       VARCHAR,
    workload  VARCHAR,
    run_id    INTEGER,
    decided_at TIMESTAMP NOT NULL DEFAULT current_timestamp
);

CREATE TABLE setting (
    name   VARCHAR PRIMARY KEY,
    value  VARCHAR
);
