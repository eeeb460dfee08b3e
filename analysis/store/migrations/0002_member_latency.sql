-- Statistics of a member's latency beside the 99th percentile that `member` holds: mean, p90, p95 ...
CREATE TABLE member_latency (
    run_id     INTEGER NOT NULL,
    source_id  INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    statistic  VARCHAR NOT NULL,
    solo_ms    DOUBLE,
    corun_ms   DOUBLE,
    PRIMARY KEY (run_id, slot, statistic)
);
