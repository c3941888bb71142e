//! Real Kafka brokers of a test's own, by `tests/labs/kafka.sh`: each can be killed, paused and started again.

use anyhow::{Context, bail};
use fleet_log::kafka::Options;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Brokers in a folder; they end with the value.
pub struct Brokers {
    folder: PathBuf,
    count: usize,
    port: u16,
    props: String,
}

impl Brokers {
    /// Starts `count` of them on free ports. `props` are further server properties, one a line.
    pub fn start(folder: &Path, count: usize, props: &str) -> anyhow::Result<Self> {
        let brokers = Self { folder: folder.join("kafka"), count, port: free_ports()?, props: props.replace('\n', "\\n") };
        brokers.script("up")?;
        Ok(brokers)
    }

    fn script(&self, what: &str) -> anyhow::Result<()> {
        let script = crate::repository("tests/labs/kafka.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(what).env("KAFKA_LAB_HOME", &self.folder).env("KAFKA_LAB_PORT", self.port.to_string());
        command.env("KAFKA_LAB_JAVA", "-XX:TieredStopAtLevel=1");
        command.env("KAFKA_LAB_BROKERS", self.count.to_string()).env("KAFKA_LAB_HEAP", "384m").env("KAFKA_LAB_PROPS", &self.props);
        let done = command.stdin(Stdio::null()).output().context("kafka.sh")?;
        if done.status.success() { Ok(()) } else { bail!("kafka.sh {what}: {}", String::from_utf8_lossy(&done.stderr)) }
    }

    /// How they are reached, with a prefix of our own.
    pub fn options(&self) -> Options {
        let brokers: Vec<_> = (0..self.count as u16).map(|i| format!("127.0.0.1:{}", self.port + i)).collect();
        let (replication, min_insync) = if self.count >= 3 { (3, 2) } else { (1, 1) };
        Options { prefix: "c.".into(), replication, min_insync, ..Options::plain(&brokers.join(",")) }
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
        let file = self.folder.join(format!("n{}/pid", nth + 1));
        let pid = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status()?;
        Ok(())
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

/// The first of three hundred and some ports that nobody listens on, where the lab wants them: brokers, controllers 100 above.
fn free_ports() -> anyhow::Result<u16> {
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin = 24_000 + (std::process::id() % 40) as u16 * 100;
    let found = (0..40).map(|i| 24_000 + (begin - 24_000 + i * 100) % 4000).find(|b| (0..3).all(|i| free(b + i) && free(b + 100 + i)));
    found.context("no free ports between 24000 and 28000")
}
