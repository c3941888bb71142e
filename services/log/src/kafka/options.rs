//! How a cluster is reached, and the settings of our clients. Reasons and figures: `docs/adr/0010-kafka-provider.md`.

use rdkafka::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use std::path::PathBuf;

/// The largest record a topic takes, key and value together; a larger one is refused before it is sent, since it would take the records
/// sent with it down.
pub const MAX_RECORD: usize = MAX_BATCH - 4096;
/// `max.message.bytes` of every topic: the largest batch.
pub(super) const MAX_BATCH: usize = 1 << 20;

/// How a cluster is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// Brokers to begin with, `host:port`, comma separated.
    pub bootstrap: String,
    /// Put before the name of every topic: several fleets may share a cluster.
    pub prefix: String,
    /// Copies of each partition.
    pub replication: u16,
    /// Copies that must have a record before it is acknowledged.
    pub min_insync: u16,
    /// TLS, or none.
    pub tls: Option<Tls>,
    /// Who we are, where the brokers ask.
    pub sasl: Option<Sasl>,
}

/// How the brokers are known, and we to them.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The CA that signed the brokers' certificates, PEM; absent = the system's.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and key, PEM, where the brokers ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Who we are. (No OAUTHBEARER: the administrative client of this library cannot be given a token.)
#[derive(Clone, Debug)]
pub struct Sasl {
    /// `SCRAM-SHA-512`, `SCRAM-SHA-256` or `PLAIN`.
    pub mechanism: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: SecretString,
}

impl Options {
    /// Without TLS and a user, one copy: a broker of a laboratory.
    pub fn plain(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.into(), prefix: String::new(), replication: 1, min_insync: 1, tls: None, sasl: None }
    }

    /// What all clients have in common.
    pub(super) fn client(&self) -> ClientConfig {
        let mut c = ClientConfig::new();
        c.set("bootstrap.servers", &self.bootstrap)
            .set("client.id", "fleet-manager")
            // The default, 10 s, is most of an outage's length seen from here.
            .set("reconnect.backoff.max.ms", "1000")
            .set("topic.metadata.refresh.interval.ms", "60000")
            .set("socket.keepalive.enable", "true");
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        c.set("security.protocol", protocol);
        if let Some(tls) = &self.tls {
            if let Some(ca) = &tls.ca_file {
                c.set("ssl.ca.location", ca.display().to_string());
            }
            if let Some((cert, key)) = &tls.client {
                c.set("ssl.certificate.location", cert.display().to_string()).set("ssl.key.location", key.display().to_string());
            }
        }
        if let Some(Sasl { mechanism, username, password }) = &self.sasl {
            c.set("sasl.mechanism", mechanism).set("sasl.username", username).set("sasl.password", password.expose_secret());
        }
        c
    }

    pub(super) fn producer(&self) -> ClientConfig {
        let mut c = self.client();
        c.set("acks", "all")
            .set("enable.idempotence", "true")
            .set("linger.ms", "0")
            .set("compression.type", "lz4")
            // Never: a message that expires ends idempotence, and what was reported as failed is stored twice. Whoever waits has a deadline.
            .set("message.timeout.ms", "0")
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "500")
            .set("message.max.bytes", MAX_BATCH.to_string())
            .set("batch.size", (MAX_BATCH - 1024).to_string())
            .set("queue.buffering.max.messages", "100000")
            .set("queue.buffering.max.kbytes", "65536");
        c
    }

    pub(super) fn consumer(&self) -> ClientConfig {
        let mut c = self.client();
        // Nothing is joined under this name; assigning asks for one.
        c.set("group.id", "fleet-manager-no-group")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            // What a partition added to a running consumer waits at most; the default, 500 ms, is what others measure as Kafka's latency.
            .set("fetch.wait.max.ms", "50")
            .set("fetch.min.bytes", "1")
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.error.backoff.ms", "50")
            // Of each partition, of which a hub reads some two hundred.
            .set("queued.min.messages", "5000")
            .set("queued.max.messages.kbytes", "1024")
            .set("check.crcs", "true")
            // Nothing writes transactions to our topics: a stray open one must hide nothing.
            .set("isolation.level", "read_uncommitted");
        c
    }
}
