//! Garbage at full speed: pipelines of the program `keyfold` over JSON and Avro that is mutated, cut, nested, huge or empty. Every record must come
//! out as a row, as a dead letter with its bytes, or as a count; the process must stay within its memory and end well.
//!
//! Two services run at the same time, one for each pipeline of `tests/e2e/soak/`, each with one source that skips what it refuses and one that makes
//! dead letters of it. What a record must become is known of most of them ([`record::Fate`]), and each can be made anew from its place.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::broker::{Broker, BrokerOptions, free_port};
use feed::Feed;
use judge::Account;
use record::{Format, Source};
use service::{Metrics, Service};

pub mod avro;
pub mod feed;
pub mod json;
pub mod judge;
pub mod ledger;
pub mod mutate;
pub mod record;
pub mod service;

/// Of every topic.
pub const PARTITIONS: u32 = 2;
/// Far beyond what anything takes in which something moves.
const PATIENCE: Duration = Duration::from_secs(120);
const FORMATS: [Format; 2] = [Format::Json, Format::Avro];
/// What the process may take beside the budget: the program itself, its threads, what the allocator keeps. With the default budget it is 563 MiB in all.
const BASE_MIB: u64 = 51;

/// A topic of a pipeline.
#[must_use]
pub fn topic(format: Format, name: &str) -> String {
    format!("soak-{}-{name}", format.name())
}

/// How to soak.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program `keyfold`.
    pub program: PathBuf,
    /// For how long garbage is produced.
    pub time: Duration,
    /// Of the generator.
    pub seed: u64,
    /// The memory budget of each service.
    pub memory_mib: u64,
    /// Where broker, state and logs live; it must be empty.
    pub dir: PathBuf,
    /// Skipped records of this reason are not counted, to see the judgement fail.
    pub forget: Option<String>,
}

/// What was found.
#[derive(Debug)]
pub struct Verdict {
    /// From the first record to the last commit.
    pub took: Duration,
    /// Both pipelines together.
    pub account: Account,
    /// The larger of the two services', in bytes.
    pub peak_rss: u64,
}

impl Verdict {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.account.faults == 0
    }

    /// The last line.
    #[must_use]
    pub fn line(&self) -> String {
        let (account, seconds) = (&self.account, self.took.as_secs_f64());
        format!(
            "seconds={seconds:.0} in={} out={} skipped={} dead_letters={} peak_rss_mb={} rate={:.0}/s verdict={}",
            account.read,
            account.outputs,
            account.skipped,
            account.letters,
            self.peak_rss / 1_000_000,
            account.read as f64 / seconds,
            if self.ok() { "OK" } else { "FAILED" }
        )
    }
}

struct Running {
    format: Format,
    service: Service,
    feed: Option<Feed>,
    committed: u64,
}

/// Soaks.
///
/// # Errors
/// When something cannot be started, a service ends by itself or stands still.
pub fn run(options: &Options) -> Result<Verdict> {
    let broker = broker(options)?;
    let brokers = broker.bootstrap();
    let mut all = Vec::new();
    for format in FORMATS {
        let service = Service::start(&options.program, &brokers, format, options.memory_mib, &options.dir)?;
        all.push(Running {
            format,
            service,
            feed: None,
            committed: 0,
        });
    }
    wait(&mut all, |metrics, _| {
        metrics.total("keyfold_phase") > 0 && processing(metrics)
    })?;
    let begin = Instant::now();
    for running in &mut all {
        running.feed = Some(Feed::start(&brokers, running.format, options.seed)?);
    }
    wait(&mut all, |_, _| begin.elapsed() >= options.time)?;
    let mut numbers = Vec::new();
    for running in &mut all {
        let feed = running.feed.take();
        numbers.push(feed.map_or(Ok(0), Feed::finish)?);
    }
    let goal = |number: u64| number * Source::ALL.len() as u64 * u64::from(PARTITIONS);
    let metrics = wait(&mut all, |_, running| {
        let at = FORMATS.iter().position(|f| *f == running.format).unwrap_or(0);
        running.committed >= goal(numbers[at])
    })?;
    let took = begin.elapsed();
    for running in &mut all {
        running.service.stop()?;
    }
    let mut verdict = Verdict {
        took,
        account: Account::default(),
        peak_rss: all.iter().map(|r| r.service.peak_rss()).max().unwrap_or(0),
    };
    for ((format, metrics), numbers) in FORMATS.into_iter().zip(&metrics).zip(numbers) {
        let account = judge::judge(
            &brokers,
            format,
            options.seed,
            numbers,
            metrics,
            options.forget.as_deref(),
        )?;
        verdict.account.add(account);
    }
    let limit = (options.memory_mib + BASE_MIB) << 20;
    if verdict.peak_rss > limit {
        verdict.account.faults += 1;
        let what = format!("{} bytes of memory, and {limit} are the limit", verdict.peak_rss);
        verdict.account.told.push(what);
    }
    Ok(verdict)
}

fn processing(metrics: &Metrics) -> bool {
    let mut phases = metrics.series("keyfold_phase");
    phases.any(|(labels, value)| labels == "phase=\"processing\"" && value == 1)
}

fn broker(options: &Options) -> Result<Broker> {
    let broker_options = BrokerOptions {
        remove: true,
        ..BrokerOptions::default()
    };
    let broker = Broker::start_with(&options.dir.join("broker"), free_port()?, broker_options)?;
    let max = i64::MAX.to_string();
    // Any timestamp, and old ones are not deleted.
    let any = [
        ("retention.ms", "-1"),
        ("message.timestamp.before.max.ms", max.as_str()),
        ("message.timestamp.after.max.ms", max.as_str()),
    ];
    for format in FORMATS {
        for name in ["letters", "skips", "totals", "rest", "dead"] {
            broker.create_topic(&topic(format, name), PARTITIONS as i32, &any)?;
        }
    }
    Ok(broker)
}

/// Looks at the services until it fits for each of them; their metrics then.
fn wait(all: &mut [Running], fits: impl Fn(&Metrics, &Running) -> bool) -> Result<Vec<Metrics>> {
    let mut moved = Instant::now();
    loop {
        let mut found = Vec::new();
        for running in all.iter_mut() {
            running.service.look()?;
            let Some(metrics) = running.service.metrics() else {
                continue;
            };
            let committed = metrics.total("keyfold_records_committed_total");
            if committed > running.committed {
                moved = Instant::now();
                running.committed = committed;
            }
            if let Some(feed) = &running.feed {
                feed.committed(committed);
            }
            if fits(&metrics, running) {
                found.push(metrics);
            }
        }
        if found.len() == all.len() {
            return Ok(found);
        }
        ensure!(moved.elapsed() < PATIENCE, "no record was committed in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
