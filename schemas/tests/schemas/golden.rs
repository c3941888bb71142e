//! One record in the bytes of every published schema, encoded by another implementation (apache-avro), and how today's code reads it.
//! `avro/golden/FINGERPRINT.txt`: the single object in hexadecimal, which is never rewritten, then the reading.

use crate::{avro, blessing};
use apache_avro::{Schema, types::Value as Datum, writer::datum::GenericDatumWriter};
use fleet_schemas::*;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug, fmt::Write, fs};

/// A record as `T`: how it reads, and what today's code writes for it.
fn reading<T: Record + Debug>(bytes: &[u8]) -> (String, Vec<u8>) {
    let record: T = decode(bytes).unwrap_or_else(|e| panic!("{}: {e}", T::NAME));
    (format!("{record:#?}\n"), encode(&record))
}

macro_rules! readings {
    ($($t:ty),*) => { |name: &str| match name {
        $(<$t as Record>::NAME => (reading::<$t> as fn(&[u8]) -> _, registry::current::<$t>().fingerprint),)*
        _ => panic!("{name} was published and is read by nobody"),
    } };
}

#[test]
fn every_published_schema_reads_as_it_always_did() {
    let readings = every_record!(readings);
    for published in registry::all() {
        let file = avro().join("golden").join(format!("{}.txt", published.fingerprint));
        let name = published.name.as_str();
        let (read, current) = readings(name);
        let kept = fs::read_to_string(&file).ok();
        let bytes = match &kept {
            Some(text) => unhex(text.lines().next().unwrap()),
            None => sample(published),
        };
        let (text, again) = read(&bytes);
        if published.fingerprint == current {
            assert_eq!(again, bytes, "{name}: today's code writes other bytes than apache-avro for the same record");
        }
        let now = format!("{}\n{text}", hex(&bytes));
        if blessing() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &now).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), now, "{name}: {}; FM_BLESS=1 writes the reading", file.display());
    }
}

/// A record with something in every field.
fn sample(published: &registry::Published) -> Vec<u8> {
    let schema = Schema::parse_str(&published.text).unwrap();
    let json: Value = serde_json::from_str(&published.text).unwrap();
    let datum = Sampler::default().value(&json, "", "");
    let writer = GenericDatumWriter::builder(&schema).build().unwrap();
    [&[0xC3, 0x01], &published.fingerprint.0[..], &writer.write_value_to_vec(datum).unwrap()].concat()
}

/// Makes values of a schema; numbers count up, so that no two fields hold the same.
#[derive(Default)]
struct Sampler {
    named: BTreeMap<String, Value>,
    count: i64,
}

impl Sampler {
    fn value(&mut self, schema: &Value, field: &str, doc: &str) -> Datum {
        self.count += 1;
        let n = self.count;
        match schema {
            Value::Array(options) => Datum::Union(1, Box::new(self.value(&options[1], field, doc))),
            Value::String(name) => match name.as_str() {
                "string" => Datum::String(text(field, doc, n)),
                "boolean" => Datum::Boolean(true),
                "long" => Datum::Long(n),
                "int" => Datum::Int(n as i32),
                "double" => Datum::Double(n as f64 + 0.5),
                "bytes" => Datum::Bytes(vec![n as u8; 3]),
                named => {
                    let schema = self.named[named].clone();
                    self.value(&schema, field, doc)
                }
            },
            Value::Object(object) => {
                if let Some(name) = object.get("name") {
                    self.named.insert(format!("fm.v1.{}", name.as_str().unwrap()), schema.clone());
                }
                match object["type"].as_str().unwrap() {
                    "record" => Datum::Record(object["fields"].as_array().unwrap().iter().map(|f| self.field(f)).collect()),
                    "array" => Datum::Array(vec![self.value(&object["items"], field, doc)]),
                    "map" => Datum::Map([("key".to_owned(), self.value(&object["values"], field, doc))].into()),
                    "fixed" => {
                        let size = object["size"].as_u64().unwrap() as usize;
                        Datum::Fixed(size, vec![n as u8; size])
                    }
                    "long" if object.contains_key("logicalType") => Datum::TimestampMicros(1_800_000_000_000_000 + n),
                    other => self.value(&Value::from(other), field, doc),
                }
            }
            other => panic!("no schema: {other}"),
        }
    }

    fn field(&mut self, field: &Value) -> (String, Datum) {
        let (name, doc) = (field["name"].as_str().unwrap(), field["doc"].as_str().unwrap_or_default());
        (name.to_owned(), self.value(&field["type"], name, doc))
    }
}

/// A text that its field may hold: one of its words, where the contract names them.
fn text(field: &str, doc: &str, n: i64) -> String {
    match doc.split_once("Words: ").and_then(|(_, words)| words.split([',', '.']).next()) {
        Some(word) => word.to_owned(),
        None if field == "stream" => "device/6f0c2a55-7b1e-4c7e-9d0a-3f516b8e24d1".to_owned(),
        None => format!("{}-{n}", field.replace('_', "-")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        write!(out, "{b:02x}").unwrap();
        out
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
