//! The job, and the process that runs it.
use super::WorkerOptions;
use super::directory::Layout as Dirs;
use super::kafka::{orders_topic, totals_topic};
use super::pace::{Opened, Paced};
use super::status::{Figures, Status};
use anyhow::{Context, Result};
use keyfold::checkpoint::{DirectoryStore, Store};
use keyfold::config::Config;
use keyfold::runtime::{ExitCode, LogFactory, Phase, Progress, Runtime, StopHandle, store_log};
use keyfold::source::Source;
use keyfold::testing::Faults;
use keyfold::topology::{Job, Target};
use keyfold::types::codec::{Postcard, Utf8};
use keyfold_files::{FilesSink, FilesSource};
use keyfold_kafka::{KafkaConfig, KafkaLog, KafkaSource, kafka_target_unless};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time between barriers: several epochs lie in the part of the input in which the kill falls.
const EPOCH: Duration = Duration::from_millis(200);
/// How often the worker tells how far it is; well below an epoch, so that the supervisor sees what is not committed.
const TELL: Duration = Duration::from_millis(10);

#[derive(Clone, Deserialize)]
struct Order {
    customer: String,
    /// Cents.
    amount: i64,
}

/// The state of a customer.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Totals {
    orders: u64,
    cents: i64,
}

/// An output: the totals after one order, and where that order lies.
#[derive(Serialize)]
struct Line<'a> {
    customer: &'a str,
    orders: u64,
    cents: i64,
    partition: i32,
    offset: i64,
}

/// Runs the job until SIGTERM, or until the supervisor is gone.
pub fn work(options: &WorkerOptions) -> Result<ExitCode> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, asked.clone()).context("registering the signal handler")?;
    }
    std::thread::spawn(end_with_supervisor);
    let folded: Arc<AtomicU64> = Arc::default();
    let stop = StopHandle::from(asked);
    let (runtime, opened) = build(options, folded.clone(), stop)?;
    let teller = Teller {
        folded,
        opened,
        progress: runtime.progress(),
    };
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| teller.tell_until(&done));
        let result = runtime.run();
        done.store(true, Ordering::SeqCst);
        result
    });
    result?;
    Ok(ExitCode::Ok)
}

/// Standard input ends with the supervisor, however that ends.
fn end_with_supervisor() {
    let mut bytes = [0; 64];
    while io::stdin().read(&mut bytes).is_ok_and(|read| read > 0) {}
    std::process::exit(ExitCode::Failed as i32);
}

fn build(options: &WorkerOptions, folded: Arc<AtomicU64>, stop: StopHandle) -> Result<(Runtime, Opened)> {
    let dirs = Dirs::new(&options.dir);
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(dirs.store(), Faults::none())?);
    let (source, target, log) = match &options.kafka {
        None => files(&dirs, store.clone()),
        Some(brokers) => kafka(brokers, &options.job, &stop)?,
    };
    let source = Paced::new(source, options.pace);
    let opened = source.opened();
    let job = Job::new(&options.job);
    define(&job, source, target, folded);
    let mut config = Config::new(dirs.state());
    config.epoch_interval = EPOCH;
    Ok((
        Runtime::single(job.build()?, config, log, store).with_stop(stop),
        opened,
    ))
}

/// The job: orders by customer, folded into totals.
fn define(job: &Job, source: Paced, target: Target, folded: Arc<AtomicU64>) {
    job.source("orders", Box::new(source), |record| {
        serde_json::from_slice::<Order>(record.value.unwrap_or_default()).map_err(|e| e.to_string())
    })
    .key_by("customer", Utf8, |order| order.customer.clone())
    .fold("totals", Postcard::new(1), Totals::default, move |totals, order| {
        totals.orders += 1;
        totals.cents += order.amount;
        folded.fetch_add(1, Ordering::Relaxed);
    })
    .to_with("outputs", target, |totals, meta, out| {
        let line = Line {
            customer: std::str::from_utf8(meta.key.unwrap_or_default()).map_err(|e| e.to_string())?,
            orders: totals.orders,
            cents: totals.cents,
            partition: meta.origin.partition,
            offset: meta.origin.offset,
        };
        serde_json::to_writer(out.value.get_or_insert_default(), &line).map_err(|e| e.to_string())
    });
}

type Ends = (Box<dyn Source>, Target, LogFactory);

fn files(dirs: &Dirs, store: Arc<dyn Store>) -> Ends {
    let source = Box::new(FilesSource::new(dirs.input()).topic("orders"));
    let log = store_log(store);
    (source, FilesSink::new(dirs.output()).into(), log)
}

fn kafka(brokers: &str, job: &str, stop: &StopHandle) -> Result<Ends> {
    let config = KafkaConfig::new(brokers);
    let source = Box::new(KafkaSource::topic(&config, orders_topic(job)));
    let target = kafka_target_unless(&config, &totals_topic(job), stop, &|_, _| {})?;
    let timeout = Config::new("").transaction_timeout;
    let log = KafkaLog::factory(&config, timeout);
    Ok((source, target.into(), log))
}

/// Tells the supervisor how far the job is.
struct Teller {
    folded: Arc<AtomicU64>,
    opened: Opened,
    progress: Arc<Progress>,
}

impl Teller {
    fn tell_until(&self, done: &AtomicBool) {
        let mut has_started = false;
        loop {
            let is_last = done.load(Ordering::SeqCst);
            has_started = has_started || self.tell_start();
            if has_started {
                tell(&Status::Progress(self.figures()));
            }
            if is_last {
                return;
            }
            std::thread::sleep(TELL);
        }
    }

    fn tell_start(&self) -> bool {
        let Some(positions) = self
            .opened
            .positions()
            .filter(|_| self.progress.phase() == Phase::Processing)
        else {
            return false;
        };
        tell(&Status::Started {
            resumed: self.progress.resumed(),
            positions: positions.iter().map(|p| (p.partition, p.offset)).collect(),
        });
        true
    }

    fn figures(&self) -> Figures {
        // In this order, so that no more seems committed than folded.
        let committed = self.progress.committed();
        let epoch = self.progress.epoch();
        let folded = self.folded.load(Ordering::Relaxed);
        Figures {
            read: self.progress.read(),
            folded,
            committed,
            epoch,
        }
    }
}

fn tell(status: &Status) {
    let mut out = io::stdout().lock();
    let told = serde_json::to_writer(&mut out, status)
        .map_err(io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    if told.is_err() {
        // Nobody listens any more.
        std::process::exit(ExitCode::Failed as i32);
    }
}
