-- What a value of a launch is of (section, metric, unit, stall family and reason) is one of a few labels: it stands once
-- in the database and not beside each of a million values. Queries read the view, which has the columns of before.
CREATE TABLE kernel_label (
    label_id  INTEGER PRIMARY KEY,
    section   VARCHAR,
    metric    VARCHAR NOT NULL,
    unit      VARCHAR,                      -- base unit
    family    VARCHAR,                      -- stall family, see data/stall_reasons.csv
    reason    VARCHAR                       -- canonical stall reason
);
CREATE TABLE kernel_value (
    kernel_id  BIGINT  NOT NULL,
    source_id  INTEGER NOT NULL,
    line       BIGINT,
    label_id   INTEGER NOT NULL,
    value      DOUBLE,                      -- NULL = the tool printed n/a
    text       VARCHAR                      -- as printed where it is no number
);
INSERT INTO kernel_label
SELECT row_number() OVER (ORDER BY metric, section, unit, family, reason), section, metric, unit, family, reason
FROM (SELECT DISTINCT section, metric, unit, family, reason FROM kernel_metric);
INSERT INTO kernel_value
SELECT m.kernel_id, m.source_id, m.line, l.label_id, m.value, m.text
FROM kernel_metric m JOIN kernel_label l ON l.metric = m.metric AND l.section IS NOT DISTINCT FROM m.section
     AND l.unit IS NOT DISTINCT FROM m.unit AND l.family IS NOT DISTINCT FROM m.family
     AND l.reason IS NOT DISTINCT FROM m.reason
ORDER BY m.rowid;
DROP TABLE kernel_metric;
CREATE VIEW kernel_metric AS
SELECT v.kernel_id, v.source_id, v.line, l.section, l.metric, l.unit, v.value, v.text, l.family, l.reason
FROM kernel_value v JOIN kernel_label l USING (label_id);
