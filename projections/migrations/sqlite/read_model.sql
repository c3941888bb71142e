-- The read model: one file per generation, rebuilt from the journal at any time. Times are microseconds since 1970, UTC; ids are 16 bytes.
CREATE TABLE position (
    partition INTEGER PRIMARY KEY,
    next      INTEGER NOT NULL,            -- compare-and-set: two projectors cannot both move it
    state     BLOB NOT NULL                -- fence position, whole
) STRICT;

CREATE TABLE stream (
    id      TEXT PRIMARY KEY,              -- device/<uuid>, site/<name>, bootstrap-config/<site>/<role>, exclusive/<kind>/<value>, unclaimed/…
    version INTEGER NOT NULL,
    hash    BLOB NOT NULL,                 -- SHA-256 of its last accepted record
    state   BLOB NOT NULL,                 -- the fold of its events
    at      INTEGER NOT NULL,              -- when its version last changed
    stopped TEXT                           -- why nothing further of it is believed
) STRICT, WITHOUT ROWID;

CREATE TABLE device (
    id             BLOB PRIMARY KEY,
    name           TEXT NOT NULL,
    site           TEXT NOT NULL,
    role           TEXT NOT NULL,
    phase          TEXT,
    phase_since    INTEGER NOT NULL,
    owner          TEXT NOT NULL,
    tenant_state   TEXT NOT NULL,
    rack           TEXT,
    slurm_node     TEXT,
    conditions_bad TEXT NOT NULL,          -- JSON [{type, status, reason}]
    plans          INTEGER NOT NULL,       -- work orders whose effect is not seen yet
    version        INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX device_by_plans ON device (id) WHERE plans > 0;
CREATE INDEX device_by_name ON device (name, id, site);    -- the site, so that who reaches some sites finds a part of a name here as well
CREATE INDEX device_not_well ON device (name, id) WHERE conditions_bad <> '[]';
CREATE INDEX device_not_well_by_site ON device (site, name, id, conditions_bad) WHERE conditions_bad <> '[]';
CREATE INDEX device_by_site ON device (site, name, id);
CREATE INDEX device_by_phase ON device (phase, name, id);
CREATE INDEX device_by_rack ON device (rack, name, id);

CREATE TABLE condition (
    device             BLOB NOT NULL,
    type               TEXT NOT NULL,
    subject            TEXT NOT NULL,
    status             TEXT NOT NULL,
    reason             TEXT NOT NULL,
    message            TEXT NOT NULL,
    severity           TEXT NOT NULL,
    effects            TEXT NOT NULL,      -- JSON [effect]
    source             TEXT NOT NULL,
    site               TEXT NOT NULL,
    observed_at        INTEGER NOT NULL,
    last_transition_at INTEGER NOT NULL,
    confirmed_live     INTEGER NOT NULL,
    wrong              INTEGER NOT NULL,   -- whether it stands in its device's conditions_bad
    PRIMARY KEY (device, type, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX condition_by_type ON condition (type, status, device, subject);
CREATE INDEX condition_wrong ON condition (type, device) WHERE wrong = 1;

CREATE TABLE attention (
    device          BLOB NOT NULL,
    item            TEXT NOT NULL,         -- one of its name on a device
    why             TEXT NOT NULL,
    ways_out        TEXT NOT NULL,         -- JSON [text]
    since           INTEGER NOT NULL,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    acknowledgement TEXT,                  -- in that person's words
    PRIMARY KEY (device, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX attention_by_since ON attention (since, device, item);

CREATE TABLE history (
    stream    TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset    INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    outcome   TEXT NOT NULL,
    hash      BLOB NOT NULL,
    record    BLOB NOT NULL                -- the decision's exact wire bytes
) STRICT;                                  -- rows are added at the end, whatever the stream: a table in key order would be written all over
CREATE UNIQUE INDEX history_by_stream ON history (stream, offset);

CREATE TABLE operation (
    id         BLOB PRIMARY KEY,
    device     BLOB NOT NULL,
    verb       TEXT NOT NULL,
    state      TEXT NOT NULL,
    by_whom    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    message    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    deadline   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_by_device ON operation (device, started_at, id);
CREATE INDEX operation_by_time ON operation (started_at, id);
CREATE INDEX operation_by_state ON operation (state, started_at, id);

CREATE TABLE config_version (
    stream  TEXT NOT NULL,                 -- bootstrap-config/<site>/<role>
    version INTEGER NOT NULL,
    state   BLOB NOT NULL,                 -- as it stood then
    sealed  BLOB                           -- user-data that this version set, encrypted; its key is in the vault
) STRICT;
CREATE UNIQUE INDEX config_version_by_stream ON config_version (stream, version);

CREATE TABLE orphan (                      -- things that a source shows and no device claims, while that is so
    site      TEXT NOT NULL,
    source    TEXT NOT NULL,
    native_id TEXT NOT NULL,
    detail    TEXT NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (site, source, native_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE parked (
    topic     TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset    INTEGER NOT NULL,
    key       BLOB NOT NULL,
    value     BLOB NOT NULL,
    parked_by TEXT NOT NULL,
    why       TEXT NOT NULL,
    parked_at INTEGER NOT NULL,
    closing   TEXT,                        -- replayed, discarded; nothing = it waits for a person
    closed_by TEXT,
    closed_reason TEXT,
    closed_at INTEGER,
    PRIMARY KEY (topic, partition, offset)
) STRICT, WITHOUT ROWID;
CREATE TABLE parked_position (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL) STRICT;
