//! What was measured, as a table and as a file.
use crate::Args;
use crate::run::Run;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// A figure, and what it must reach.
#[derive(Debug, Serialize)]
struct Figure {
    name: String,
    value: f64,
    /// The limit, and whether the value must be at least (or at most) that.
    must: Option<(f64, bool)>,
}

/// Everything of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: String,
    settings: String,
    /// What ran beside Keyfold, and how it was set.
    peers: BTreeMap<String, String>,
    /// For the table, before the figures.
    #[serde(skip)]
    rows: Vec<String>,
    figures: Vec<Figure>,
    runs: BTreeMap<String, Vec<Run>>,
}

impl Report {
    pub fn new(args: &Args) -> Report {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        Report {
            machine: format!(
                "{processors} processors, {}",
                model.trim_start_matches([' ', '\t', ':'])
            ),
            settings: format!(
                "{} records, the first {} not counted, memory {} MiB",
                args.records, args.skip, args.memory_mib
            ),
            peers: BTreeMap::new(),
            rows: Vec::new(),
            figures: Vec::new(),
            runs: BTreeMap::new(),
        }
    }

    pub fn ratio(&mut self, name: &str, value: f64, must: Option<(f64, bool)>) {
        self.figures.push(Figure {
            name: name.to_owned(),
            value,
            must,
        });
    }

    /// A line of the table, before the figures.
    pub fn row(&mut self, row: String) {
        self.rows.push(row);
    }

    /// What a row's program is, and how it was set.
    pub fn peer(&mut self, name: &str, settings: String) {
        self.peers.insert(name.to_owned(), settings);
    }

    pub fn runs(&mut self, name: &str, runs: Vec<Run>) {
        self.runs.insert(name.to_owned(), runs);
    }

    /// Under the name of the command; what another one has written there stays.
    pub fn write(&self, command: &str, path: &Path) -> Result<()> {
        let before = std::fs::read_to_string(path).unwrap_or_default();
        let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(&before).unwrap_or_default();
        all.insert(command.to_owned(), serde_json::to_value(self)?);
        let text = serde_json::to_string_pretty(&all)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    pub fn table(&self) -> String {
        let mut text = format!("{}; {}\n", self.machine, self.settings);
        // Writing to memory does not fail.
        for (name, settings) in &self.peers {
            let _ = writeln!(text, "{name}: {settings}");
        }
        for row in &self.rows {
            let _ = writeln!(text, "{row}");
        }
        for figure in &self.figures {
            let verdict = match figure.must {
                None => "reported".to_owned(),
                Some((limit, true)) => {
                    format!("at least {limit}: {}", if figure.value >= limit { "yes" } else { "NO" })
                }
                Some((limit, false)) => {
                    format!("at most {limit}: {}", if figure.value <= limit { "yes" } else { "NO" })
                }
            };
            let _ = writeln!(text, "{:<44} {:>10.2}  {verdict}", figure.name, figure.value);
        }
        text
    }
}

/// The middle one, or the mean of the middle two.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => f64::NAN,
        Some(value) if values.len() % 2 == 1 => *value,
        Some(value) => (value + values.get(middle.wrapping_sub(1)).unwrap_or(value)) / 2.0,
    }
}
