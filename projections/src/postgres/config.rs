//! Where the database is, who we are there, and how much of it we use.

use crate::db::Error;
use secrecy::SecretString;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};
use url::Url;

/// A role of the database.
#[derive(Clone, Debug)]
pub struct Login {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: SecretString,
}

/// A database for read models and control.
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// `postgres://user@host:port/database`, without a password; `sslmode` may be said here. Unsaid, it is `verify-full`, and on
    /// loopback without a CA `prefer`.
    pub url: String,
    /// The password of the URL's user. This role owns the schemas.
    pub password: SecretString,
    /// The CA that signed the server's certificate, PEM; absent = the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Who asks questions, where that is another role: it is granted each generation for reading, and nothing else.
    pub reader: Option<Login>,
    /// What the names of our schemas begin with; hubs with the same one share everything.
    pub prefix: String,
    /// After how long the server ends a statement.
    pub statement_timeout: Duration,
    /// Connections that read one generation at the same time.
    pub readers: u32,
    /// Of these, how many are kept open when nobody asks.
    pub warm: u32,
}

impl PostgresConfig {
    /// With what suits a hub of 100,000 devices.
    pub fn new(url: impl Into<String>, password: SecretString) -> Self {
        Self {
            url: url.into(),
            password,
            ca_file: None,
            reader: None,
            prefix: "fleet".into(),
            statement_timeout: Duration::from_secs(10),
            readers: 8,
            warm: 2,
        }
    }

    /// Whether it could be meant; without asking the database.
    ///
    /// # Errors
    /// [`Error::Setting`], with what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        self.place().map(|_| ())
    }

    /// Where it is, without who we are.
    pub(super) fn place(&self) -> Result<PgConnectOptions, Error> {
        let bad = |why: String| Error::Setting(format!("PostgreSQL: {why}"));
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !self.prefix.starts_with(|c: char| c.is_ascii_lowercase()) || !self.prefix.chars().all(name) || self.prefix.len() > 40 {
            return Err(bad(format!("`{}` is no prefix: a small letter, then at most 39 of a-z, 0-9 and _", self.prefix)));
        }
        if self.readers == 0 || self.warm > self.readers || self.statement_timeout < Duration::from_millis(100) {
            return Err(bad("there is at least one reader, no more are warm than there are, and a statement has 100 ms or more".into()));
        }
        let url = Url::parse(&self.url).map_err(|e| bad(format!("the URL: {e}")))?;
        if !["postgres", "postgresql"].contains(&url.scheme()) || url.username().is_empty() {
            return Err(bad("the URL has the form postgres://user@host:port/database".into()));
        }
        if url.password().is_some() || url.query_pairs().any(|(key, _)| key == "password") {
            return Err(bad("the password has a setting of its own: it is not taken from the URL, which is logged".into()));
        }
        let mut options = PgConnectOptions::from_str(&self.url)?;
        if !url.query_pairs().any(|(key, _)| key == "sslmode" || key == "ssl-mode") {
            let near = self.ca_file.is_none() && loopback(&options);
            options = options.ssl_mode(if near { PgSslMode::Prefer } else { PgSslMode::VerifyFull });
        }
        if matches!(options.get_ssl_mode(), PgSslMode::VerifyCa) {
            // sqlx 0.8 forgives another name only in an error that rustls no longer gives (docs/adr/0013).
            return Err(bad("sslmode=verify-ca is not to be had: verify-full, with the name or address that the certificate has".into()));
        }
        Ok(match &self.ca_file {
            Some(file) => options.ssl_root_cert(file),
            None => options,
        })
    }
}

fn loopback(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some() || host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, change: impl FnOnce(&mut PostgresConfig)) -> Result<PgConnectOptions, String> {
        let mut config = PostgresConfig::new(url, SecretString::from("x"));
        change(&mut config);
        config.check().and_then(|()| config.place()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_says_why() {
        let url = "postgres://fleet@db:5432/fleet";
        type Row<'a> = (&'a str, fn(&mut PostgresConfig), &'a str);
        let rows: &[Row<'_>] = &[
            ("postgres://fleet:secret@db/fleet", |_| {}, "a setting of its own"),
            ("postgres://fleet@db/fleet?password=secret", |_| {}, "a setting of its own"),
            ("postgres://db/fleet", |_| {}, "postgres://user@host"),
            ("mysql://fleet@db/fleet", |_| {}, "postgres://user@host"),
            ("postgres://fleet@db/fleet?sslmode=verify-ca", |_| {}, "verify-full"),
            (url, |c| c.prefix = "Fleet".into(), "no prefix"),
            (url, |c| c.prefix = "a\"; DROP".into(), "no prefix"),
            (url, |c| c.prefix = String::new(), "no prefix"),
            (url, |c| c.warm = 9, "no more are warm"),
        ];
        for (url, change, expected) in rows {
            let why = place(url, change).unwrap_err();
            assert!(why.contains(expected) && !why.contains("secret"), "{url}: {why}");
        }
    }

    #[test]
    fn beyond_loopback_the_server_proves_itself_unless_said_otherwise() {
        let mode = |url: &str| format!("{:?}", place(url, |_| {}).unwrap().get_ssl_mode());
        assert_eq!(mode("postgres://fleet@db/fleet"), "VerifyFull");
        assert_eq!(mode("postgres://fleet@10.0.0.1/fleet"), "VerifyFull");
        assert_eq!(mode("postgres://fleet@db/fleet?sslmode=require"), "Require");
        assert_eq!(mode("postgres://fleet@127.0.0.1/fleet"), "Prefer");
        let with_ca = place("postgres://fleet@127.0.0.1/fleet", |c| c.ca_file = Some("ca.pem".into())).unwrap();
        assert_eq!(format!("{:?}", with_ca.get_ssl_mode()), "VerifyFull");
    }
}
