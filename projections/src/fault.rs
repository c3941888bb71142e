//! What can go wrong with a read model, and what each fault means to whoever meets it.

use crate::db::FORMAT;

/// Why the read model cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("read model: {0}")]
    Sql(sqlx::Error),
    /// A folder or file failed.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// How.
        source: std::io::Error,
    },
    /// A setting of the database is none.
    #[error("{0}")]
    Setting(String),
    /// The file or schema was made by another version of the program.
    #[error(
        "{path} has format {found}, this program has {FORMAT}: `fleet-manager projections rebuild --config FILE` (or --data DIR) makes it anew"
    )]
    Format {
        /// The file, or the schema.
        path: String,
        /// Its format.
        found: i64,
    },
    /// The journal is not the one that the read model was made from.
    #[error(
        "partition {partition}: {why}; if the journal is the right one, `fleet-manager projections rebuild --config FILE` (or --data DIR) makes the read model anew"
    )]
    AnotherJournal {
        /// The partition.
        partition: u32,
        /// What differs.
        why: String,
    },
    /// A generation with rows has no position: where to read on cannot be told.
    #[error(
        "the read model has no position for partition {partition}: it is not read on; `fleet-manager projections rebuild --config FILE` (or --data DIR) makes it anew"
    )]
    PositionLost {
        /// The partition.
        partition: u32,
    },
    /// Another projector moved this generation on; this one must read its position again.
    #[error("another projector moved partition {partition} on")]
    Overtaken {
        /// The partition.
        partition: u32,
    },
    /// Another process that shares the database rebuilds, flips or drops a generation at this moment.
    #[error("another process rebuilds, flips or drops a generation at this moment; ask again when it is done")]
    Busy,
    /// What was to be changed is no longer as it was seen: another process changed it.
    #[error("another process changed which generation serves; look again")]
    Moved,
    /// Nobody feeds the generation that serves: a rebuild stopped its feed and could not begin it again.
    #[error("the read model is no longer fed; the log says why; a restart goes on from where it stands")]
    Unfed,
    /// A stored value cannot be read.
    #[error("read model: {0}")]
    Corrupt(String),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] fleet_log::Error),
}

/// Without the library's as its cause: what it says stands in the text, and would be said again for each cause.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl Error {
    /// Whether the database is away, or full, or was told to stop: it is as it was before, and asking again later may succeed. A
    /// statement whose answer is missing may have taken effect.
    pub fn unavailable(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        match error {
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
                true
            }
            // Connection, authorization (a password that is being changed), rollback (deadlock), resources, operator; a lock or
            // statement that took too long; a server that only reads, while another takes over.
            sqlx::Error::Database(e) => e.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some_and(|e| {
                let code = e.code();
                ["08", "28", "40", "53", "57"].iter().any(|class| code.starts_with(class)) || ["55P03", "25006"].contains(&code)
            }),
            _ => false,
        }
    }

    /// Whether a question that failed so may be answered when it is asked again: the database is away, or the generation that was asked
    /// was dropped by another process a moment ago.
    pub fn passing(&self) -> bool {
        self.unavailable() || self.dropped()
    }

    /// Whether the tables are not there: the generation was dropped.
    pub(crate) fn dropped(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(e)) = self else { return false };
        e.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some_and(|e| ["42P01", "3F000"].contains(&e.code()))
    }
}
