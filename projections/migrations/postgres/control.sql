-- What outlives every generation, in a schema of its own. Made by whichever process comes first.
CREATE TABLE IF NOT EXISTS generation (
    one     bigint PRIMARY KEY CHECK (one = 1),
    active  bigint NOT NULL,               -- serves
    standby bigint,                        -- stands beside
    last    bigint                         -- the highest number that any had
);
CREATE TABLE IF NOT EXISTS jti (           -- assertions that were used: each counts once, whichever hub it came to
    client     text COLLATE "C" NOT NULL,
    jti        text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,            -- seconds since 1970, as JWTs say it
    PRIMARY KEY (client, jti)
);
CREATE INDEX IF NOT EXISTS jti_by_end ON jti (expires_at);
CREATE TABLE IF NOT EXISTS denial (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    client     text NOT NULL,
    reason     text NOT NULL,
    method     text NOT NULL,
    path       text NOT NULL,
    detail     text NOT NULL,
    unrecorded bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS reactor_position (
    partition bigint PRIMARY KEY,
    next      bigint NOT NULL,
    state     bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS publisher_position (
    partition bigint PRIMARY KEY,
    next      bigint NOT NULL,
    state     bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS parked_closing (
    topic     text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    "offset"  bigint NOT NULL,
    at        timestamptz NOT NULL,
    done      boolean NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
);
