//! Connections: each says how long a statement may take, where its tables are, and when the server may give it up.

use super::config::PostgresConfig;
use crate::db::Error;
use crate::sql::Pool;
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::time::Duration;

/// How long a connection is waited for: less than a person waits for an answer.
const ACQUIRE: Duration = Duration::from_secs(5);
/// What the network may add to the server's own limit.
const SLACK: Duration = Duration::from_secs(5);
/// The projector, the feed of parked inputs, and a rebuild that holds both still.
const WRITERS: u32 = 3;
const CONTROLLERS: u32 = 4;

/// What connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Questions.
    Reading,
    /// The projector. A commit is on the disk before it is told: whoever was shown a decision is shown it after a crash as well.
    Projecting,
    /// What outlives generations: a commit is a promise.
    Control,
}

fn options(config: &PostgresConfig, schema: &str, purpose: For) -> Result<PgConnectOptions, Error> {
    let (place, millis) = (config.place()?, config.statement_timeout.as_millis());
    let role = config.reader.as_ref().filter(|_| purpose == For::Reading);
    let place = match role {
        Some(reader) => place.username(&reader.user).password(reader.password.expose_secret()),
        None => place.password(config.password.expose_secret()),
    };
    // Where we are silent for a minute in the middle of a transaction, we are gone, and others wait for our locks.
    let common = place.application_name(&format!("fleet-manager {}", config.prefix)).options([
        ("search_path", schema.to_owned()),
        ("timezone", "UTC".to_owned()),
        ("statement_timeout", format!("{millis}ms")),
        ("lock_timeout", format!("{millis}ms")),
        ("idle_in_transaction_session_timeout", "60s".to_owned()),
        ("tcp_keepalives_idle", "30".to_owned()),
        ("tcp_keepalives_interval", "10".to_owned()),
        ("tcp_keepalives_count", "3".to_owned()),
        ("tcp_user_timeout", "60000".to_owned()),
        // Our statements are short: compiling one takes longer than running it.
        ("jit", "off".to_owned()),
    ]);
    Ok(match purpose {
        // A plan for any value is a bad plan for a page of a list: each question is planned with what was asked.
        // What is read is in memory, or on a disk without an arm: a page somewhere costs what the next one costs.
        For::Reading => {
            common.options([("default_transaction_read_only", "on"), ("plan_cache_mode", "force_custom_plan"), ("random_page_cost", "1.1")])
        }
        For::Projecting | For::Control => common,
    })
}

impl PostgresConfig {
    /// Connections for a store of its own in `schema`, which is made where it is missing: what is kept there is nobody else's.
    ///
    /// # Errors
    /// If the database does not answer, or the role may make no schema.
    pub async fn apart(&self, schema: &str) -> Result<sqlx::PgPool, Error> {
        let pool = PgPoolOptions::new().max_connections(2).min_connections(1).acquire_timeout(ACQUIRE);
        let pool = pool.connect_with(options(self, schema, For::Control)?).await?;
        let there: Option<i32> =
            sqlx::query_scalar("SELECT 1 FROM pg_namespace WHERE nspname = $1").bind(schema).fetch_optional(&pool).await?;
        if there.is_none() {
            // Of two that make it at once, one does.
            sqlx::query(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).execute(&pool).await?;
        }
        Ok(pool)
    }
}

/// Opens connections for a purpose, with those that are kept warm.
pub(super) async fn connect(config: &PostgresConfig, schema: &str, purpose: For) -> Result<Pool, Error> {
    let (most, least) = match purpose {
        For::Reading => (config.readers, config.warm),
        For::Projecting => (WRITERS, 1),
        For::Control => (CONTROLLERS, 1),
    };
    let pool = PgPoolOptions::new().max_connections(most).min_connections(least).acquire_timeout(ACQUIRE);
    let pool = pool.connect_with(options(config, schema, purpose)?).await?;
    Ok(Pool::Postgres { pool, limit: config.statement_timeout + SLACK })
}
