//! For tests of this crate: a generation of its own, in a file or in a schema that is dropped at the end.

use crate::db::Db;
use crate::store::Store;
use crate::{Login, PostgresConfig};
use std::io::Write;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) struct Trial {
    pub(crate) db: Db,
    pub(crate) store: Store,
    _folder: Option<TempDir>,
}

impl Trial {
    pub(crate) async fn file() -> Self {
        let folder = TempDir::new().unwrap();
        Self::open(Store::Folder(folder.path().into()), Some(folder)).await
    }

    /// Where `FM_TEST_POSTGRES` says; else the test says that it was not run.
    pub(crate) async fn schema(test: &str) -> Option<Self> {
        let Ok(url) = std::env::var("FM_TEST_POSTGRES") else {
            // Past the harness, which keeps what a passing test says to itself.
            std::io::stderr()
                .write_all(format!("{test} SKIPPED: FM_TEST_POSTGRES is not set (tests/labs/postgres.sh up)\n").as_bytes())
                .unwrap();
            return None;
        };
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut apart = url::Url::parse(&url).unwrap();
        let password = apart.password().unwrap().to_owned();
        apart.set_password(None).unwrap();
        let mut config = PostgresConfig::new(apart.as_str(), password.into());
        config.prefix = format!("t{}", &Uuid::new_v4().simple().to_string()[..16]);
        config.ca_file = std::env::var("FM_TEST_POSTGRES_CA").ok().map(Into::into);
        config.reader = std::env::var("FM_TEST_POSTGRES_READER").ok().and_then(|reader| {
            let (user, password) = reader.split_once(':')?;
            Some(Login { user: user.into(), password: password.into() })
        });
        Some(Self::open(Store::Postgres(Box::new(config)), None).await)
    }

    async fn open(store: Store, folder: Option<TempDir>) -> Self {
        let control = store.control().await.unwrap();
        let db = store.open(&control, 1).await.unwrap();
        Self { db, store, _folder: folder }
    }
}

/// Drops what was made, also where a test failed.
impl Drop for Trial {
    fn drop(&mut self) {
        let Store::Postgres(config) = self.store.clone() else { return };
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let drop = format!("DROP SCHEMA {0}_read_1 CASCADE; DROP SCHEMA {0}_control CASCADE", config.prefix);
            runtime.block_on(async {
                let mut t = Store::Postgres(config).control().await.unwrap().pool.begin().await.unwrap();
                t.script(drop).await.unwrap();
                t.commit().await.unwrap();
            });
        });
        // A test that failed has said why; what it left, a wipe of the lab takes away.
        let _ = dropped.join();
    }
}

/// A fleet of 20,000 devices at 20 sites, with what the planner knows of it. PostgreSQL alone.
pub(crate) async fn fleet(db: &Db) {
    let mut t = db.write.begin().await.unwrap();
    t.script(FLEET.to_owned()).await.unwrap();
    t.commit().await.unwrap();
}

const FLEET: &str = "
    INSERT INTO device
        SELECT md5(i::text)::uuid, 'gpu' || lpad(i::text, 5, '0'), 's' || i % 20, CASE WHEN i % 10 = 0 THEN 'cpu' ELSE 'gpu' END,
            (ARRAY['Ready', 'InService', 'InService', 'Draining'])[1 + i % 4], now(), 'ours', 'running', 'r' || i % 500, 'gpu' || i,
            CASE WHEN i % 100 = 0 THEN '[{\"type\": \"SlurmSchedulable\"}]'::jsonb ELSE '[]' END, (i % 1000 = 0)::int, 1, now()
        FROM generate_series(1, 20000) i;
    INSERT INTO condition
        SELECT md5(i::text)::uuid, t, '', CASE WHEN i % 100 = 0 THEN 'False' ELSE 'True' END, 'Seen', '',
            CASE WHEN i % 10 = 0 THEN 'Warning' ELSE 'Info' END, '{}', 'slurm', 's' || i % 20, now(), now(), true,
            i % 100 = 0 AND t = 'SlurmSchedulable'
        FROM generate_series(1, 20000) i, unnest(ARRAY['SlurmMember', 'SlurmSchedulable', 'InventoryVanished']) t;
    INSERT INTO attention
        SELECT md5(i::text)::uuid, 'look', 'why', '{}', now() - i * interval '1 minute' FROM generate_series(1, 20000) i;
    INSERT INTO operation
        SELECT md5('o' || i)::uuid, md5((i % 20000 + 1)::text)::uuid, 'drain', CASE WHEN i % 50 = 0 THEN 'running' ELSE 'succeeded' END, 'a', '',
            '', now() - i * interval '1 minute' FROM generate_series(1, 40000) i;
    INSERT INTO stream SELECT 'device/' || md5(i::text)::uuid, 1, '', '', now() FROM generate_series(1, 20000) i;
    INSERT INTO stream SELECT 'site/s' || i, 1, '', '', now() FROM generate_series(0, 19) i;
    INSERT INTO history SELECT 'device/' || md5((i % 20000)::text)::uuid, i, 1, 1, now(), 'accepted', '', '' FROM generate_series(1, 60000) i;
    ANALYZE";
