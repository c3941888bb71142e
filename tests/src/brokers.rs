//! Real Kafka brokers of a test's own, by `tests/labs/kafka.sh`: each can be killed, paused and started again.

use crate::Proxy;
use anyhow::{Context, bail};
use fleet_log::kafka::{self, Options};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// Password of the user `fleet`.
pub const PASSWORD: &str = "lab-kafka";

/// Brokers in a folder; they end with the value.
pub struct Brokers {
    folder: PathBuf,
    count: usize,
    port: u16,
    props: String,
    tls: bool,
    front: bool,
}

impl Brokers {
    /// Starts `count` of them on free ports. `props` are further server properties, one a line.
    pub fn start(folder: &Path, count: usize, props: &str) -> anyhow::Result<Self> {
        let mut brokers = Self::of(folder, count)?;
        brokers.props = props.replace('\n', "\\n");
        brokers.up()
    }

    /// One that also speaks TLS and asks for a user's password.
    pub fn start_with_users(folder: &Path) -> anyhow::Result<Self> {
        let mut brokers = Self::of(folder, 1)?;
        brokers.tls = true;
        brokers.up()
    }

    /// `count` of them, with a further listener each that clients reach by a proxy alone.
    pub fn start_with_proxies(folder: &Path, count: usize) -> anyhow::Result<(Self, Vec<Proxy>)> {
        let mut brokers = Self::of(folder, count)?;
        brokers.front = true;
        let brokers = brokers.up()?;
        let one = |i: u16| Proxy::start(brokers.port + 150 + i, brokers.port + 50 + i);
        let proxies = (0..count as u16).map(one).collect::<Result<_, _>>()?;
        Ok((brokers, proxies))
    }

    fn of(folder: &Path, count: usize) -> anyhow::Result<Self> {
        Ok(Self { folder: folder.join("kafka"), count, port: free_ports()?, props: String::new(), tls: false, front: false })
    }

    /// Another test may take the same ports at the same moment.
    fn up(mut self) -> anyhow::Result<Self> {
        for _ in 0..3 {
            if self.script("up").is_ok() {
                return Ok(self);
            }
            let _ = self.script("wipe");
            self.port = free_ports()?;
        }
        self.script("up")?;
        Ok(self)
    }

    /// The same brokers as a user, over TLS.
    pub fn options_of_user(&self, password: &str) -> Options {
        let tls = Some(kafka::Tls { ca_file: Some(self.folder.join("tls/ca.pem")), client: None });
        let sasl = Some(kafka::Sasl { mechanism: "SCRAM-SHA-512".into(), username: "fleet".into(), password: password.to_owned().into() });
        Options { bootstrap: format!("127.0.0.1:{}", self.port + 200), tls, sasl, ..self.options() }
    }

    /// Where the certificates are.
    pub fn certificates(&self) -> PathBuf {
        self.folder.join("tls")
    }

    fn script(&self, what: &str) -> anyhow::Result<()> {
        let script = crate::repository("tests/labs/kafka.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(what).env("KAFKA_LAB_HOME", &self.folder).env("KAFKA_LAB_PORT", self.port.to_string());
        if std::env::var_os("KAFKA_LAB_JAVA").is_none() {
            command.env("KAFKA_LAB_JAVA", "-XX:TieredStopAtLevel=1");
        }
        if self.tls {
            command.env("KAFKA_LAB_TLS", "1").env("KAFKA_LAB_USER", "fleet").env("KAFKA_LAB_PW", PASSWORD);
        }
        if self.front {
            command.env("KAFKA_LAB_FRONT", "1");
        }
        command
            .env("KAFKA_LAB_BROKERS", self.count.to_string())
            .env("KAFKA_LAB_HEAP", "384m")
            .env("KAFKA_LAB_WAIT", "300")
            .env("KAFKA_LAB_PROPS", &self.props);
        let done = command.stdin(Stdio::null()).output().context("kafka.sh")?;
        if done.status.success() { Ok(()) } else { bail!("kafka.sh {what}: {}", String::from_utf8_lossy(&done.stderr)) }
    }

    /// How they are reached, with a prefix of our own.
    pub fn options(&self) -> Options {
        let brokers: Vec<_> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (replication, min_insync) = if self.count >= 3 { (3, 2) } else { (1, 1) };
        Options { prefix: "c.".into(), replication, min_insync, ..Options::plain(&brokers.join(",")) }
    }

    /// The port of each, without a proxy.
    pub fn ports(&self) -> Vec<u16> {
        (0..self.count as u16).map(|i| self.port + i).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where broker `nth`, from 0, keeps its records.
    pub fn data(&self, nth: usize) -> PathBuf {
        self.folder.join(format!("n{}/data", nth + 1))
    }

    /// Sends a signal to broker `nth`, from 0.
    pub fn signal(&self, nth: usize, signal: &str) -> anyhow::Result<()> {
        Command::new("kill").args([&format!("-{signal}"), &*self.pid(nth)?]).stderr(Stdio::null()).status()?;
        Ok(())
    }

    /// The process of broker `nth`, from 0.
    pub fn pid(&self, nth: usize) -> anyhow::Result<String> {
        let file = self.folder.join(format!("n{}/pid", nth + 1));
        let pid = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(pid.trim().to_owned())
    }

    /// Starts those that do not run, and waits until all are in.
    pub fn mend(&self) -> anyhow::Result<()> {
        self.script("up")
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for nth in 0..self.count {
            // A paused one does not hear that it is to end; one that was killed has no pid.
            let _ = self.signal(nth, "CONT").and_then(|()| self.signal(nth, "KILL"));
        }
    }
}

/// The first of three hundred and some ports that nobody listens on, where the lab wants them: brokers, controllers 100 above, TLS 200; and
/// proxies between.
fn free_ports() -> anyhow::Result<u16> {
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Several of one process start at the same time, and listen only when they run.
    static STARTED: AtomicU16 = AtomicU16::new(0);
    let begin = 24_000 + (std::process::id() as u16 % 13 + STARTED.fetch_add(1, Ordering::Relaxed)) % 13 * 300;
    let found =
        (0..13).map(|i| 24_000 + (begin - 24_000 + i * 300) % 3900).find(|b| (0..3).all(|i| (0..5).all(|row| free(b + row * 50 + i))));
    found.context("no free ports between 24000 and 28000")
}
