-- Numbers that can't be are refused by the schema itself, whoever writes; analysis/store/possible.py holds the same
-- limits. Those that stand in a file of before become absent, and are listed among the rejected rows of their source.
INSERT INTO rejected_row SELECT source_id, line, 'duration_ns', 'can''t be: no measurement gives that', 'kernel: ' || "duration_ns"
FROM kernel WHERE NOT ("duration_ns" IS NULL OR ("duration_ns" BETWEEN 0.0 AND 1e+18 AND ("duration_ns" = 0 OR abs("duration_ns") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, line, 'invocations', 'can''t be: no measurement gives that', 'kernel: ' || "invocations"
FROM kernel WHERE NOT ("invocations" IS NULL OR ("invocations" BETWEEN 0.0 AND 1000000000000000.0));
ALTER TABLE kernel RENAME TO kernel_before;
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
    line         BIGINT,                     -- first line in the file
    CHECK ("duration_ns" IS NULL OR ("duration_ns" BETWEEN 0.0 AND 1e+18 AND ("duration_ns" = 0 OR abs("duration_ns") >= 1e-18))),
    CHECK ("invocations" IS NULL OR ("invocations" BETWEEN 0.0 AND 1000000000000000.0))
);
INSERT INTO kernel SELECT "kernel_id", "profile_id", "source_id", "process_id", "launch_id", "name", "short_name", "grid", "block", "cc", "device", CASE WHEN "invocations" IS NULL OR ("invocations" BETWEEN 0.0 AND 1000000000000000.0) THEN "invocations" ELSE 1 END, CASE WHEN "duration_ns" IS NULL OR ("duration_ns" BETWEEN 0.0 AND 1e+18 AND ("duration_ns" = 0 OR abs("duration_ns") >= 1e-18)) THEN "duration_ns" END, "line"
FROM kernel_before ORDER BY rowid;
DROP TABLE kernel_before;
INSERT INTO rejected_row SELECT source_id, line, 'value', 'can''t be: no measurement gives that', 'kernel_value: ' || "value"
FROM kernel_value WHERE NOT ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)));
ALTER TABLE kernel_value RENAME TO kernel_value_before;
CREATE TABLE kernel_value (
    kernel_id  BIGINT  NOT NULL,
    source_id  INTEGER NOT NULL,
    line       BIGINT,
    label_id   INTEGER NOT NULL,
    value      DOUBLE,                      -- NULL = the tool printed n/a
    text       VARCHAR,                      -- as printed where it is no number
    CHECK ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)))
);
INSERT INTO kernel_value SELECT "kernel_id", "source_id", "line", "label_id", CASE WHEN "value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)) THEN "value" END, "text"
FROM kernel_value_before ORDER BY rowid;
DROP TABLE kernel_value_before;
INSERT INTO rejected_row SELECT source_id, line, 'top_share', 'can''t be: no measurement gives that', 'kernel_rule: ' || "top_share"
FROM kernel_rule WHERE NOT ("top_share" IS NULL OR ("top_share" BETWEEN 0.0 AND 1000000.0));
ALTER TABLE kernel_rule RENAME TO kernel_rule_before;
CREATE TABLE kernel_rule (
    kernel_id    BIGINT  NOT NULL,
    source_id    INTEGER NOT NULL,
    line         BIGINT,
    section      VARCHAR,
    rule         VARCHAR,
    kind         VARCHAR,
    text         VARCHAR,
    top_reason   VARCHAR,                   -- canonical reason that the CPIStall text names
    top_share    DOUBLE,                     -- percent of warp cycles that the text states
    CHECK ("top_share" IS NULL OR ("top_share" BETWEEN 0.0 AND 1000000.0))
);
INSERT INTO kernel_rule SELECT "kernel_id", "source_id", "line", "section", "rule", "kind", "text", "top_reason", CASE WHEN "top_share" IS NULL OR ("top_share" BETWEEN 0.0 AND 1000000.0) THEN "top_share" END
FROM kernel_rule_before ORDER BY rowid;
DROP TABLE kernel_rule_before;
INSERT INTO rejected_row SELECT source_id, NULL, 'value', 'can''t be: no measurement gives that', 'solo: ' || "value"
FROM solo WHERE NOT ("value" IS NULL OR ("value" BETWEEN 0.0 AND 1e+18 AND ("value" = 0 OR abs("value") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'peak_memory_mib', 'can''t be: no measurement gives that', 'solo: ' || "peak_memory_mib"
FROM solo WHERE NOT ("peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09)));
ALTER TABLE solo RENAME TO solo_before;
CREATE TABLE solo (
    source_id        INTEGER NOT NULL,
    workload_id      INTEGER NOT NULL,
    gpu              VARCHAR NOT NULL,
    measure          VARCHAR NOT NULL,      -- throughput, time, latency, normalised
    unit             VARCHAR,
    value            DOUBLE,
    peak_memory_mib  DOUBLE,
    memory_kind      VARCHAR,                -- nvidia-smi, reserved, allocated
    CHECK ("value" IS NULL OR ("value" BETWEEN 0.0 AND 1e+18 AND ("value" = 0 OR abs("value") >= 1e-18))),
    CHECK ("peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09)))
);
INSERT INTO solo SELECT "source_id", "workload_id", "gpu", "measure", "unit", CASE WHEN "value" IS NULL OR ("value" BETWEEN 0.0 AND 1e+18 AND ("value" = 0 OR abs("value") >= 1e-18)) THEN "value" END, CASE WHEN "peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09)) THEN "peak_memory_mib" END, "memory_kind"
FROM solo_before ORDER BY rowid;
DROP TABLE solo_before;
INSERT INTO rejected_row SELECT source_id, NULL, 'value', 'can''t be: no measurement gives that', 'feature: ' || "value"
FROM feature WHERE NOT ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)));
ALTER TABLE feature RENAME TO feature_before;
CREATE TABLE feature (                      -- published per-workload aggregates, measured solo
    source_id    INTEGER NOT NULL,
    workload_id  INTEGER NOT NULL,
    gpu          VARCHAR NOT NULL,
    name         VARCHAR NOT NULL,
    value        DOUBLE,
    unit         VARCHAR,
    CHECK ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)))
);
INSERT INTO feature SELECT "source_id", "workload_id", "gpu", "name", CASE WHEN "value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)) THEN "value" END, "unit"
FROM feature_before ORDER BY rowid;
DROP TABLE feature_before;
INSERT INTO rejected_row SELECT source_id, line, 'k', 'can''t be: no measurement gives that', 'run: ' || "k"
FROM run WHERE NOT ("k" IS NULL OR ("k" BETWEEN 1 AND 1000000));
ALTER TABLE run RENAME TO run_before;
CREATE TABLE run (
    run_id       INTEGER PRIMARY KEY,
    source_id    INTEGER NOT NULL,
    external_id  VARCHAR,                   -- the file's own run id or row
    gpu          VARCHAR NOT NULL,
    mechanism    VARCHAR NOT NULL,
    k            INTEGER NOT NULL,
    outcome      VARCHAR NOT NULL CHECK (outcome IN ('ran', 'partial', 'did_not_run')),
    line         BIGINT,
    note         VARCHAR,
    CHECK ("k" IS NULL OR ("k" BETWEEN 1 AND 1000000))
);
INSERT INTO run SELECT "run_id", "source_id", "external_id", "gpu", "mechanism", CASE WHEN "k" IS NULL OR ("k" BETWEEN 1 AND 1000000) THEN "k" ELSE 1 END, "outcome", "line", "note"
FROM run_before ORDER BY rowid;
DROP TABLE run_before;
INSERT INTO rejected_row SELECT source_id, NULL, 'slot', 'can''t be: no measurement gives that', 'member: ' || "slot"
FROM member WHERE NOT ("slot" IS NULL OR ("slot" BETWEEN 0 AND 1000000));
INSERT INTO rejected_row SELECT source_id, NULL, 'solo_value', 'can''t be: no measurement gives that', 'member: ' || "solo_value"
FROM member WHERE NOT ("solo_value" IS NULL OR ("solo_value" BETWEEN 0.0 AND 1e+18 AND ("solo_value" = 0 OR abs("solo_value") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'corun_value', 'can''t be: no measurement gives that', 'member: ' || "corun_value"
FROM member WHERE NOT ("corun_value" IS NULL OR ("corun_value" BETWEEN 0.0 AND 1e+18 AND ("corun_value" = 0 OR abs("corun_value") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'slowdown', 'can''t be: no measurement gives that', 'member: ' || "slowdown"
FROM member WHERE NOT ("slowdown" IS NULL OR ("slowdown" BETWEEN 1e-12 AND 1000000000000.0));
INSERT INTO rejected_row SELECT source_id, NULL, 'p99_solo_ms', 'can''t be: no measurement gives that', 'member: ' || "p99_solo_ms"
FROM member WHERE NOT ("p99_solo_ms" IS NULL OR ("p99_solo_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_solo_ms" = 0 OR abs("p99_solo_ms") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'p99_corun_ms', 'can''t be: no measurement gives that', 'member: ' || "p99_corun_ms"
FROM member WHERE NOT ("p99_corun_ms" IS NULL OR ("p99_corun_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_corun_ms" = 0 OR abs("p99_corun_ms") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'peak_memory_mib', 'can''t be: no measurement gives that', 'member: ' || "peak_memory_mib"
FROM member WHERE NOT ("peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09)));
INSERT INTO rejected_row SELECT source_id, NULL, 'memory_cap_mib', 'can''t be: no measurement gives that', 'member: ' || "memory_cap_mib"
FROM member WHERE NOT ("memory_cap_mib" IS NULL OR ("memory_cap_mib" BETWEEN 0.0 AND 1000000000.0 AND ("memory_cap_mib" = 0 OR abs("memory_cap_mib") >= 1e-09)));
INSERT INTO rejected_row SELECT source_id, NULL, 'thread_percentage', 'can''t be: no measurement gives that', 'member: ' || "thread_percentage"
FROM member WHERE NOT ("thread_percentage" IS NULL OR ("thread_percentage" BETWEEN 0.0 AND 100.0));
ALTER TABLE member RENAME TO member_before;
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
    PRIMARY KEY (run_id, slot),
    CHECK ("slot" IS NULL OR ("slot" BETWEEN 0 AND 1000000)),
    CHECK ("solo_value" IS NULL OR ("solo_value" BETWEEN 0.0 AND 1e+18 AND ("solo_value" = 0 OR abs("solo_value") >= 1e-18))),
    CHECK ("corun_value" IS NULL OR ("corun_value" BETWEEN 0.0 AND 1e+18 AND ("corun_value" = 0 OR abs("corun_value") >= 1e-18))),
    CHECK ("slowdown" IS NULL OR ("slowdown" BETWEEN 1e-12 AND 1000000000000.0)),
    CHECK ("p99_solo_ms" IS NULL OR ("p99_solo_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_solo_ms" = 0 OR abs("p99_solo_ms") >= 1e-18))),
    CHECK ("p99_corun_ms" IS NULL OR ("p99_corun_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_corun_ms" = 0 OR abs("p99_corun_ms") >= 1e-18))),
    CHECK ("peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09))),
    CHECK ("memory_cap_mib" IS NULL OR ("memory_cap_mib" BETWEEN 0.0 AND 1000000000.0 AND ("memory_cap_mib" = 0 OR abs("memory_cap_mib") >= 1e-09))),
    CHECK ("thread_percentage" IS NULL OR ("thread_percentage" BETWEEN 0.0 AND 100.0))
);
INSERT INTO member SELECT "run_id", "source_id", "slot", "workload_id", "outcome", "measure", "unit", CASE WHEN "solo_value" IS NULL OR ("solo_value" BETWEEN 0.0 AND 1e+18 AND ("solo_value" = 0 OR abs("solo_value") >= 1e-18)) THEN "solo_value" END, CASE WHEN "corun_value" IS NULL OR ("corun_value" BETWEEN 0.0 AND 1e+18 AND ("corun_value" = 0 OR abs("corun_value") >= 1e-18)) THEN "corun_value" END, CASE WHEN "slowdown" IS NULL OR ("slowdown" BETWEEN 1e-12 AND 1000000000000.0) THEN "slowdown" END, CASE WHEN "p99_solo_ms" IS NULL OR ("p99_solo_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_solo_ms" = 0 OR abs("p99_solo_ms") >= 1e-18)) THEN "p99_solo_ms" END, CASE WHEN "p99_corun_ms" IS NULL OR ("p99_corun_ms" BETWEEN 0.0 AND 1e+18 AND ("p99_corun_ms" = 0 OR abs("p99_corun_ms") >= 1e-18)) THEN "p99_corun_ms" END, CASE WHEN "peak_memory_mib" IS NULL OR ("peak_memory_mib" BETWEEN 0.0 AND 1000000000.0 AND ("peak_memory_mib" = 0 OR abs("peak_memory_mib") >= 1e-09)) THEN "peak_memory_mib" END, "memory_kind", CASE WHEN "thread_percentage" IS NULL OR ("thread_percentage" BETWEEN 0.0 AND 100.0) THEN "thread_percentage" END, CASE WHEN "memory_cap_mib" IS NULL OR ("memory_cap_mib" BETWEEN 0.0 AND 1000000000.0 AND ("memory_cap_mib" = 0 OR abs("memory_cap_mib") >= 1e-09)) THEN "memory_cap_mib" END, "mig_profile", "priority", "flags"
FROM member_before ORDER BY rowid;
DROP TABLE member_before;
INSERT INTO rejected_row SELECT source_id, NULL, 'solo_ms', 'can''t be: no measurement gives that', 'member_latency: ' || "solo_ms"
FROM member_latency WHERE NOT ("solo_ms" IS NULL OR ("solo_ms" BETWEEN 0.0 AND 1e+18 AND ("solo_ms" = 0 OR abs("solo_ms") >= 1e-18)));
INSERT INTO rejected_row SELECT source_id, NULL, 'corun_ms', 'can''t be: no measurement gives that', 'member_latency: ' || "corun_ms"
FROM member_latency WHERE NOT ("corun_ms" IS NULL OR ("corun_ms" BETWEEN 0.0 AND 1e+18 AND ("corun_ms" = 0 OR abs("corun_ms") >= 1e-18)));
ALTER TABLE member_latency RENAME TO member_latency_before;
CREATE TABLE member_latency (
    run_id     INTEGER NOT NULL,
    source_id  INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    statistic  VARCHAR NOT NULL,
    solo_ms    DOUBLE,
    corun_ms   DOUBLE,
    PRIMARY KEY (run_id, slot, statistic),
    CHECK ("solo_ms" IS NULL OR ("solo_ms" BETWEEN 0.0 AND 1e+18 AND ("solo_ms" = 0 OR abs("solo_ms") >= 1e-18))),
    CHECK ("corun_ms" IS NULL OR ("corun_ms" BETWEEN 0.0 AND 1e+18 AND ("corun_ms" = 0 OR abs("corun_ms") >= 1e-18)))
);
INSERT INTO member_latency SELECT "run_id", "source_id", "slot", "statistic", CASE WHEN "solo_ms" IS NULL OR ("solo_ms" BETWEEN 0.0 AND 1e+18 AND ("solo_ms" = 0 OR abs("solo_ms") >= 1e-18)) THEN "solo_ms" END, CASE WHEN "corun_ms" IS NULL OR ("corun_ms" BETWEEN 0.0 AND 1e+18 AND ("corun_ms" = 0 OR abs("corun_ms") >= 1e-18)) THEN "corun_ms" END
FROM member_latency_before ORDER BY rowid;
DROP TABLE member_latency_before;
INSERT INTO rejected_row SELECT source_id, NULL, 'measured_at', 'is no time of a measurement', measured_at::VARCHAR
FROM telemetry WHERE NOT (measured_at BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2200-01-01');
UPDATE telemetry SET measured_at = NULL WHERE NOT (measured_at BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2200-01-01');
INSERT INTO rejected_row SELECT source_id, NULL, 'value', 'can''t be: no measurement gives that', 'telemetry: ' || "value"
FROM telemetry WHERE NOT ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)));
ALTER TABLE telemetry RENAME TO telemetry_before;
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
    reason       VARCHAR,                    -- why the value is missing
    CHECK (measured_at IS NULL OR measured_at BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2200-01-01'),
    CHECK ("value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)))
);
INSERT INTO telemetry SELECT "source_id", "workload_id", "gpu", "device", "entity", "measured_at", "name", CASE WHEN "value" IS NULL OR ("value" BETWEEN -1e+30 AND 1e+30 AND ("value" = 0 OR abs("value") >= 1e-30)) THEN "value" END, "unit", "reason"
FROM telemetry_before ORDER BY rowid;
DROP TABLE telemetry_before;
