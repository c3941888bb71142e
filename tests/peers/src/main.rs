//! Measures what Fleet Manager is compared with, on the PostgreSQL that it is given: commands decided by cqrs-es and stored by
//! postgres-es, and rows written by a naive projector. One line of JSON a measurement on stdout; everything else on stderr.

mod device;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use device::{Command, Device, Hold};
use postgres_es::{PostgresCqrs, postgres_cqrs};
use serde::Serialize;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Connections that a pool has at most.
const WIDEST_POOL: u64 = 64;
/// Lanes that are measured at most; below the stride, a prime, so that no two lanes begin at one device.
const MOST_LANES: u64 = 1000;
const STRIDE: u64 = 7919;

/// `events` and `snapshots` are as postgres-es documents them (its `db/init.sql`).
const TABLES: &str = "
DROP SCHEMA IF EXISTS peer_cqrs_es CASCADE;
CREATE SCHEMA peer_cqrs_es;
CREATE TABLE events (
    aggregate_type text                         NOT NULL,
    aggregate_id   text                         NOT NULL,
    sequence       bigint CHECK (sequence >= 0) NOT NULL,
    event_type     text                         NOT NULL,
    event_version  text                         NOT NULL,
    payload        json                         NOT NULL,
    metadata       json                         NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id, sequence)
);
CREATE TABLE snapshots (
    aggregate_type   text                                 NOT NULL,
    aggregate_id     text                                 NOT NULL,
    last_sequence    bigint CHECK (last_sequence >= 0)    NOT NULL,
    current_snapshot bigint CHECK (current_snapshot >= 0) NOT NULL,
    payload          json                                 NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id, last_sequence)
);
CREATE TABLE naive (id uuid PRIMARY KEY, name text NOT NULL, doc jsonb NOT NULL, updated timestamptz NOT NULL);
";

const DURABLE: &str = "SELECT current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint";

const UPSERT: &str = "INSERT INTO naive (id, name, doc, updated) VALUES ($1, $2, $3, now())
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, doc = excluded.doc, updated = excluded.updated";

/// Measures cqrs-es on PostgreSQL, and a naive row-by-row projector.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// `postgres://user:password@host:port/database`, TLS as its `sslmode` and `sslrootcert` say; PGPASSWORD may have the password.
    #[arg(long)]
    url: String,
    /// How long each width is measured.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Commands in flight, one measurement each.
    #[arg(long, default_value = "1,16,64", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=MOST_LANES))]
    widths: Vec<u64>,
    /// Devices that the commands go round.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(MOST_LANES..))]
    devices: u64,
    /// Rows that the naive projector writes; 0 leaves it out.
    #[arg(long, default_value_t = 20_000)]
    naive_rows: u64,
}

/// Commands of one width.
#[derive(Serialize)]
struct Commands {
    width: u64,
    commands: usize,
    seconds: f64,
    p50_us: u64,
    p99_us: u64,
}

/// The floor.
#[derive(Serialize)]
struct Naive {
    naive_rows: u64,
    seconds: f64,
    rows_per_second: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let options: PgConnectOptions = args.url.parse().context("--url")?;
    let options = options.options([("search_path", "peer_cqrs_es")]);
    let mut connection = PgConnection::connect_with(&options).await.context("no connection to PostgreSQL")?;
    check(&mut connection, &args).await?;
    sqlx::raw_sql(TABLES).execute(&mut connection).await.context("no tables of its own")?;
    let measured = measure(&options, &args).await;
    let dropped = sqlx::raw_sql("DROP SCHEMA peer_cqrs_es CASCADE").execute(&mut connection).await;
    measured?;
    dropped.context("the schema is left behind")?;
    Ok(())
}

/// The commits are durable, and the server has room for the widest pool.
async fn check(connection: &mut PgConnection, args: &Args) -> Result<()> {
    let (commit, fsync, room): (String, String, i64) = sqlx::query_as(DURABLE).fetch_one(connection).await?;
    eprintln!("synchronous_commit {commit}, fsync {fsync}, {room} connections");
    ensure!(commit != "off" && fsync != "off", "commits are not durable: turn on synchronous_commit and fsync");
    // One more than the pool: the connection that asks.
    let wanted = args.widths.iter().max().map_or(0, |w| w.min(&WIDEST_POOL) + 1);
    ensure!(i64::try_from(wanted)? <= room, "{wanted} connections are wanted: raise max_connections");
    Ok(())
}

async fn measure(options: &PgConnectOptions, args: &Args) -> Result<()> {
    for &width in &args.widths {
        let commands = commands(options, args, width).await.with_context(|| format!("commands, {width} in flight"))?;
        println!("{}", serde_json::to_string(&commands)?);
    }
    if args.naive_rows > 0 {
        let naive = naive(options, args.naive_rows).await.context("the naive projector")?;
        println!("{}", serde_json::to_string(&naive)?);
    }
    Ok(())
}

/// Holds are placed and lifted on devices in turn, `width` at a time.
async fn commands(options: &PgConnectOptions, args: &Args, width: u64) -> Result<Commands> {
    let connections = u32::try_from(width.min(WIDEST_POOL))?;
    // In the peer's favour: connected before the first command, no ping before each use, events alone (streams are short), no query.
    let pool = PgPoolOptions::new().min_connections(connections).max_connections(connections).test_before_acquire(false);
    let pool = pool.connect_with(options.clone()).await?;
    let peer = Arc::new(postgres_cqrs(pool.clone(), Vec::new(), ()));
    // A multiple of the width: then lanes never meet, and each command finds what its lane left.
    let devices = args.devices - args.devices % width;
    let (started, mut lanes) = (Instant::now(), JoinSet::new());
    let until = started + Duration::from_secs(args.seconds);
    for lane in 0..width {
        lanes.spawn(run(peer.clone(), until, width, lane, devices));
    }
    let mut samples = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        samples.append(&mut lane??);
    }
    let seconds = started.elapsed().as_secs_f64();
    pool.close().await;
    samples.sort_unstable();
    let at = |share: f64| -> Result<u64> {
        let sample = samples.get((samples.len().saturating_sub(1) as f64 * share) as usize).context("nothing was measured")?;
        Ok(u64::try_from(sample.as_micros())?)
    };
    Ok(Commands { width, commands: samples.len(), seconds: rounded(seconds), p50_us: at(0.5)?, p99_us: at(0.99)? })
}

/// One lane; each command waits for the answer to the one before it.
async fn run(peer: Arc<PostgresCqrs<Device>>, until: Instant, width: u64, lane: u64, devices: u64) -> Result<Vec<Duration>> {
    let (mut samples, mut n) = (Vec::new(), 0u64);
    while Instant::now() < until {
        let target = id((lane * STRIDE + n / 2 * width) % devices).to_string();
        let hold = Hold { name: format!("b{width}-{lane}"), reason: "bench".into(), actor: "bench".into() };
        let command = if n.is_multiple_of(2) { Command::PlaceHold(hold) } else { Command::LiftHold(hold) };
        let asked = Instant::now();
        peer.execute(&target, command).await.with_context(|| format!("device {target}"))?;
        samples.push(asked.elapsed());
        n += 1;
    }
    Ok(samples)
}

/// One statement a row, one commit a statement.
async fn naive(options: &PgConnectOptions, naive_rows: u64) -> Result<Naive> {
    let mut connection = PgConnection::connect_with(options).await?;
    let started = Instant::now();
    for i in 0..naive_rows {
        let name = format!("gpu{i:06}");
        let conditions = json!({"SlurmMember": "True", "SlurmSchedulable": "True", "SlurmDrained": "False"});
        let (site, serial, rack) = (format!("dc{}", i % 20), format!("SN{i:07}"), format!("r{}", i / 40));
        let doc = json!({"site": site, "role": "gpu", "serial": serial, "rack": rack, "phase": "InService", "conditions": conditions});
        sqlx::query(UPSERT).bind(id(i)).bind(name).bind(doc).execute(&mut connection).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Naive { naive_rows, seconds: rounded(seconds), rows_per_second: (naive_rows as f64 / seconds).round() })
}

/// As scattered as the product's.
fn id(device: u64) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("bench/{device}").as_bytes())
}

/// To the millisecond.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
