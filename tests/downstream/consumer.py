#!/usr/bin/env python3
"""A downstream team's own table of devices, built from the public topics alone (docs/contracts/public-topics.md).

It keeps its place in each partition beside its rows, in one transaction: killed anywhere, it goes on where it was. It proves what it has:
`fleet_seq` counts the records of a subject in a topic from 1 without a hole, so a repeat is dropped and a gap is an error. Three tables:

  device      what device-state says, tombstones included
  phase       the phase of each device by its events alone
  condition   the conditions of each device by their events alone

  consumer.py --brokers HOST:PORT --schemas DIR --table FILE [--prefix P] [--idle SECONDS]   read, for ever or until nothing came so long
  consumer.py --table FILE --dump                                                            print the tables as JSON
"""

import argparse
import io
import json
import pathlib
import sqlite3
import sys
import time

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

EVENTS = ("fm.device-events.v1", "fm.condition-events.v1")
STATE = "fm.device-state.v1"
MARKER = b"\xc3\x01"  # Avro single-object encoding: marker, 8 bytes of fingerprint, the datum

TABLES = """
CREATE TABLE IF NOT EXISTS place (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS seq (topic TEXT, subject TEXT, last INTEGER, PRIMARY KEY (topic, subject));
CREATE TABLE IF NOT EXISTS device (id TEXT PRIMARY KEY, version INTEGER, state TEXT);
CREATE TABLE IF NOT EXISTS phase (device TEXT PRIMARY KEY, phase TEXT);
CREATE TABLE IF NOT EXISTS condition (device TEXT, type TEXT, subject TEXT, status TEXT, reason TEXT, PRIMARY KEY (device, type, subject));
CREATE TABLE IF NOT EXISTS tally (what TEXT PRIMARY KEY, count INTEGER);
"""


class Schemas:
    """The schemas that the records were written with, by fingerprint."""

    def __init__(self, folder):
        self.folder, self.known = pathlib.Path(folder), {}

    def read(self, value):
        if value[:2] != MARKER:
            sys.exit("a value is not in Avro single-object encoding")
        fingerprint = value[2:10].hex()
        if fingerprint not in self.known:
            schema = json.loads((self.folder / f"{fingerprint}.avsc").read_text())
            self.known[fingerprint] = (schema["name"], fastavro.parse_schema(schema))
        name, schema = self.known[fingerprint]
        return name, fastavro.schemaless_reader(io.BytesIO(value[10:]), schema, None)


def header(message, name):
    return next((value.decode() for key, value in message.headers() or [] if key == name), None)


def count(db, what):
    db.execute("INSERT INTO tally VALUES (?, 1) ON CONFLICT (what) DO UPDATE SET count = count + 1", (what,))


def take_event(db, topic, subject, seq, name, body, trimmed):
    row = db.execute("SELECT last FROM seq WHERE topic = ? AND subject = ?", (topic, subject)).fetchone()
    last = row[0] if row else 0
    if seq <= last:
        return count(db, "repeats")
    # Where the beginning of a partition is gone by age, a subject may begin later than at 1.
    if seq != last + 1 and not (last == 0 and trimmed):
        sys.exit(f"{topic}: {subject} has {seq} after {last}: records are missing")
    db.execute("INSERT INTO seq VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET last = excluded.last", (topic, subject, seq))
    count(db, topic)
    device = subject.removeprefix("device/")
    if name == "DevicePhaseChanged":
        db.execute("INSERT OR REPLACE INTO phase VALUES (?, ?)", (device, body["to"]))
    if name == "DeviceConditionChanged":
        row = (device, body["type"], body["subject"], body["status"], body["reason"])
        db.execute("INSERT OR REPLACE INTO condition VALUES (?, ?, ?, ?, ?)", row)


def take_state(db, subject, seq, body):
    device = subject.removeprefix("device/")
    row = db.execute("SELECT version FROM device WHERE id = ?", (device,)).fetchone()
    if row and seq < row[0]:
        return count(db, "late states")
    count(db, STATE)
    if body is None:
        db.execute("DELETE FROM device WHERE id = ?", (device,))
    else:
        state = json.dumps(body, default=str, sort_keys=True)
        db.execute("INSERT OR REPLACE INTO device VALUES (?, ?, ?)", (device, seq, state))


def take(db, schemas, prefix, trimmed, message):
    topic = message.topic().removeprefix(prefix)
    subject, seq = message.key().decode(), int(header(message, "fleet_seq"))
    name, body = schemas.read(message.value()) if message.value() else (None, None)
    if topic == STATE:
        take_state(db, subject, seq, body)
    else:
        take_event(db, topic, subject, seq, name, body, (topic, message.partition()) in trimmed)
    place = (topic, message.partition(), message.offset() + 1)
    db.execute("INSERT INTO place VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next", place)


def places(db, consumer, prefix):
    """Where each partition is read on: from what the tables hold, else from its beginning; and which have lost their beginning."""
    found, trimmed = [], set()
    for topic in (*EVENTS, STATE):
        metadata = consumer.list_topics(prefix + topic, timeout=30).topics[prefix + topic]
        if metadata.error is not None:
            sys.exit(f"{prefix + topic}: {metadata.error}")
        for partition in metadata.partitions:
            row = db.execute("SELECT next FROM place WHERE topic = ? AND partition = ?", (topic, partition)).fetchone()
            low, _ = consumer.get_watermark_offsets(TopicPartition(prefix + topic, partition), timeout=30)
            if low > 0:
                trimmed.add((topic, partition))
            if row and topic != STATE and row[0] < low:
                sys.exit(f"{topic}/{partition}: what comes after offset {row[0]} is gone; the table must be built anew")
            found.append(TopicPartition(prefix + topic, partition, max(row[0] if row else 0, low)))
    return found, trimmed


def follow(args):
    db = sqlite3.connect(args.table)
    db.executescript(TABLES)
    settings = {"bootstrap.servers": args.brokers, "group.id": "no-group", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer(settings)
    found, trimmed = places(db, consumer, args.prefix)
    consumer.assign(found)
    schemas, heard = Schemas(args.schemas), time.monotonic()
    while args.idle is None or time.monotonic() - heard < args.idle:
        messages = consumer.consume(500, timeout=0.2)
        with db:
            for message in messages:
                if message.error() is not None:
                    # A broker that is away comes back; what cannot be read on is not passed over.
                    if message.error().retriable() or message.error().code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                        continue
                    raise KafkaException(message.error())
                take(db, schemas, args.prefix, trimmed, message)
                heard = time.monotonic()
    consumer.close()


def dump(args):
    db = sqlite3.connect(args.table)
    rows = lambda sql: db.execute(sql).fetchall()  # noqa: E731
    tables = {
        "devices": {id: {"version": version, **json.loads(state)} for id, version, state in rows("SELECT * FROM device")},
        "phases": dict(rows("SELECT * FROM phase")),
        "conditions": {f"{d} {t} {s}": [status, reason] for d, t, s, status, reason in rows("SELECT * FROM condition")},
        "seqs": {f"{topic} {subject}": last for topic, subject, last in rows("SELECT * FROM seq")},
        "tally": dict(rows("SELECT * FROM tally")),
    }
    json.dump(tables, sys.stdout, indent=1, sort_keys=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers")
    parser.add_argument("--schemas", help="folder of <fingerprint>.avsc: schemas/avro/published of the repository")
    parser.add_argument("--table", required=True, help="SQLite file")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--idle", type=float, help="end when nothing came for so many seconds")
    parser.add_argument("--dump", action="store_true")
    args = parser.parse_args()
    if args.dump:
        dump(args)
    elif not (args.brokers and args.schemas):
        parser.error("--brokers and --schemas say where the records and their schemas are")
    else:
        follow(args)


if __name__ == "__main__":
    main()
