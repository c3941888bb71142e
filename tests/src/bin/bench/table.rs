//! The table: goal, what anchors it, ours, and how the two stand to each other.

use std::fmt::Write;
use std::time::Duration;

/// What stands under the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ground {
    /// SQLite alone, in one process.
    Embedded,
    /// One Kafka broker and a PostgreSQL.
    Cluster,
    /// Three brokers that keep every record, and a PostgreSQL; with a quarter of the devices, what is written alone.
    Replicated,
}

impl Ground {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Cluster, Self::Replicated];

    pub fn brokers(self) -> usize {
        match self {
            Self::Embedded => 0,
            Self::Cluster => 1,
            Self::Replicated => 3,
        }
    }

    /// The one of two that is meant: embedded, or on Kafka and PostgreSQL.
    pub fn pick<T>(self, embedded: T, cluster: T) -> T {
        if self == Self::Embedded { embedded } else { cluster }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Embedded => "embedded (SQLite)",
            Self::Cluster => "Kafka, one broker, and PostgreSQL",
            Self::Replicated => "Kafka, three brokers, and PostgreSQL",
        }
    }
}

pub struct Table {
    rows: Vec<Row>,
    ground: Ground,
    head: String,
}

struct Row {
    what: String,
    /// Goal, ours and verdict, of each ground where it was measured.
    cells: [Option<[String; 3]>; Ground::ALL.len()],
}

/// Percentiles of a run.
pub struct Spread(Vec<Duration>);

impl Spread {
    pub fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        assert!(!samples.is_empty(), "nothing was measured");
        Self(samples)
    }
    pub fn at(&self, share: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }
    pub fn text(&self) -> String {
        format!("p50 {}, p99 {} (n {})", short(self.at(0.5)), short(self.at(0.99)), self.0.len())
    }
}

pub fn short(d: Duration) -> String {
    match d.as_secs_f64() {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

impl Table {
    pub fn new(devices: u64, decisions: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = model.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("").trim_start_matches([' ', '\t', ':']).to_owned();
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let head = format!("{cores} cores ({model}), {build} build, {devices} devices, {decisions} decisions.");
        println!("{head}");
        Self { rows: Vec::new(), ground: Ground::Embedded, head }
    }

    /// What follows is measured there.
    pub fn on(&mut self, ground: Ground) {
        println!("\n{}", ground.title());
        self.ground = ground;
    }

    /// A row; `verdict` says how ours stands to the goal.
    pub fn row(&mut self, what: &str, goal: &str, ours: String, verdict: impl Into<String>) {
        let verdict = verdict.into();
        println!("{what:<58} {goal:<28} {ours:<52} {verdict}");
        let there = self.rows.iter().position(|row| row.what == what).unwrap_or_else(|| {
            self.rows.push(Row { what: what.into(), cells: Default::default() });
            self.rows.len() - 1
        });
        self.rows[there].cells[self.ground as usize] = Some([goal.into(), ours, verdict]);
    }

    fn cell(row: &Row, ground: Ground) -> String {
        row.cells[ground as usize].as_ref().map_or("–".into(), |[goal, ours, verdict]| format!("{ours}; goal {goal}: {verdict}"))
    }

    pub fn finish(self) {
        let titles = Ground::ALL.map(Ground::title).join(" | ");
        let mut text = format!("{}\n\n| what | {titles} |\n|---|---|---|---|\n", self.head);
        for row in &self.rows {
            let cells = Ground::ALL.map(|ground| Self::cell(row, ground)).join(" | ");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} | {cells} |", row.what);
        }
        let path = fleet_tests::repository("docs/BENCHMARKS.md");
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        match (page.split_once("<!-- table -->"), page.split_once("<!-- end of table -->")) {
            (Some((before, _)), Some((_, after))) => {
                std::fs::write(&path, format!("{before}<!-- table -->\n{text}<!-- end of table -->{after}")).unwrap();
                println!("kept in docs/BENCHMARKS.md");
            }
            _ => println!("docs/BENCHMARKS.md has no place for the table"),
        }
    }
}

/// `met`, or by how much it was missed.
pub fn at_most(ours: Duration, goal: Duration) -> String {
    let ratio = ours.as_secs_f64() / goal.as_secs_f64();
    if ratio <= 1.0 { format!("met ({ratio:.2} of it)") } else { format!("missed ({ratio:.1} times)") }
}

pub fn at_least(ours: f64, goal: f64) -> String {
    let ratio = ours / goal;
    if ratio >= 1.0 { format!("met ({ratio:.1} times)") } else { format!("missed ({ratio:.2} of it)") }
}
