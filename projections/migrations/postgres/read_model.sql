-- The read model: one schema per generation, rebuilt from the journal at any time. Made within the generation's schema, which is the
-- search path. Names are ordered bytewise, as SQLite orders them: a place in a list is the same place in both.
CREATE TABLE format (number bigint NOT NULL);

CREATE TABLE position (
    partition bigint PRIMARY KEY,
    next      bigint NOT NULL,             -- compare-and-set: of several projectors one moves it
    state     bytea  NOT NULL              -- fence position, whole
);

CREATE TABLE stream (
    id      text COLLATE "C" PRIMARY KEY,  -- device/<uuid>, site/<name>, bootstrap-config/<site>/<role>, exclusive/<kind>/<value>, unclaimed/…
    version bigint      NOT NULL,
    hash    bytea       NOT NULL,          -- SHA-256 of its last accepted record
    state   bytea       NOT NULL,          -- the fold of its events
    at      timestamptz NOT NULL,          -- when its version last changed
    stopped text                           -- why nothing further of it is believed
) WITH (fillfactor = 80);                  -- rows change in place, where their page has room for the next version

CREATE TABLE device (
    id             uuid PRIMARY KEY,
    name           text COLLATE "C" NOT NULL,
    site           text COLLATE "C" NOT NULL,
    role           text COLLATE "C" NOT NULL,
    phase          text COLLATE "C",
    phase_since    timestamptz NOT NULL,
    owner          text COLLATE "C" NOT NULL,
    tenant_state   text COLLATE "C" NOT NULL,
    rack           text COLLATE "C",
    slurm_node     text COLLATE "C",
    conditions_bad jsonb NOT NULL,         -- [{type, status, reason}]
    plans          bigint NOT NULL,        -- work orders whose effect is not seen yet
    version        bigint NOT NULL,
    updated_at     timestamptz NOT NULL
) WITH (fillfactor = 80);                  -- rows change in place, most often without touching an index
CREATE INDEX device_by_plans ON device (id) WHERE plans > 0;
CREATE INDEX device_by_name ON device (name, id, site);
CREATE INDEX device_not_well ON device (name, id) WHERE conditions_bad <> '[]';
CREATE INDEX device_not_well_by_site ON device (site, name, id) WHERE conditions_bad <> '[]';
CREATE INDEX device_by_site ON device (site, name, id);
CREATE INDEX device_by_phase ON device (phase, name, id);
CREATE INDEX device_by_rack ON device (rack, name, id);

CREATE TABLE condition (
    device             uuid NOT NULL,
    type               text COLLATE "C" NOT NULL,
    subject            text COLLATE "C" NOT NULL,
    status             text COLLATE "C" NOT NULL,
    reason             text COLLATE "C" NOT NULL,
    message            text COLLATE "C" NOT NULL,
    severity           text COLLATE "C" NOT NULL,
    effects            text[] NOT NULL,
    source             text COLLATE "C" NOT NULL,
    site               text COLLATE "C" NOT NULL,
    observed_at        timestamptz NOT NULL,
    last_transition_at timestamptz NOT NULL,
    confirmed_live     boolean NOT NULL,
    wrong              boolean NOT NULL,   -- whether it stands in its device's conditions_bad
    PRIMARY KEY (device, type, subject)
) WITH (fillfactor = 80);
CREATE INDEX condition_by_type ON condition (type, status, device, subject);
CREATE INDEX condition_wrong ON condition (type, device) WHERE wrong;

CREATE TABLE attention (
    device          uuid NOT NULL,
    item            text COLLATE "C" NOT NULL,         -- one of its name on a device
    why             text NOT NULL,
    ways_out        text[] NOT NULL,
    since           timestamptz NOT NULL,
    acknowledged_by text COLLATE "C",
    acknowledged_at timestamptz,
    acknowledgement text,                  -- in that person's words
    PRIMARY KEY (device, item)
);
CREATE INDEX attention_by_since ON attention (since, device, item);

CREATE TABLE history (
    stream    text COLLATE "C" NOT NULL,
    "offset"  bigint NOT NULL,
    partition bigint NOT NULL,
    version   bigint NOT NULL,
    at        timestamptz NOT NULL,
    outcome   text NOT NULL,
    hash      bytea NOT NULL,
    record    bytea NOT NULL,              -- the decision's exact wire bytes
    PRIMARY KEY (stream, "offset")
);

CREATE TABLE operation (
    id         uuid PRIMARY KEY,
    device     uuid NOT NULL,
    verb       text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    by_whom    text COLLATE "C" NOT NULL,
    reason     text NOT NULL,
    message    text NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    deadline   timestamptz
);
CREATE INDEX operation_by_device ON operation (device, started_at, id);
CREATE INDEX operation_by_time ON operation (started_at, id);
CREATE INDEX operation_by_state ON operation (state, started_at, id);

CREATE TABLE config_version (
    stream  text COLLATE "C" NOT NULL,     -- bootstrap-config/<site>/<role>
    version bigint NOT NULL,
    state   bytea NOT NULL,                -- as it stood then
    sealed  bytea,                         -- user-data that this version set, encrypted; its key is in the vault
    PRIMARY KEY (stream, version)
);

CREATE TABLE orphan (                      -- things that a source shows and no device claims, while that is so
    site      text COLLATE "C" NOT NULL,
    source    text COLLATE "C" NOT NULL,
    native_id text COLLATE "C" NOT NULL,
    detail    text NOT NULL,
    since     timestamptz NOT NULL,
    PRIMARY KEY (site, source, native_id)
);

CREATE TABLE parked (
    topic     text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    "offset"  bigint NOT NULL,
    key       bytea NOT NULL,
    value     bytea NOT NULL,
    parked_by text NOT NULL,
    why       text NOT NULL,
    parked_at timestamptz NOT NULL,
    closing   text,                        -- replayed, discarded; nothing = it waits for a person
    closed_by text,
    closed_reason text,
    closed_at timestamptz,
    PRIMARY KEY (topic, partition, "offset")
);
CREATE TABLE parked_position (partition bigint PRIMARY KEY, next bigint NOT NULL);
