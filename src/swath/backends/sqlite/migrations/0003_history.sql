-- When positions were allotted, when claims were made, and who changed the frontier.

CREATE TABLE swath_milestone (
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (partition, position)
) WITHOUT ROWID;

CREATE TABLE swath_audit (
    number INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    lane TEXT,
    items INTEGER,
    detail TEXT
);

ALTER TABLE swath_claim ADD COLUMN claimed_at INTEGER NOT NULL DEFAULT 0;
