//! The rate of a pipeline in YAML beside that of the same job in Rust over serde_json structs, both with their CPU time.
//!
//! ```sh
//! cargo run --release -p keyfold-service --example totals_rate -- 2000000 3
//! ```
//!
//! Records of 200 bytes of JSON come from a generator in memory and outputs are thrown away after the commit, so that what is measured is the
//! engine with decoding, filtering, keys, state and encoding. The two jobs run by turns.
use anyhow::Context;
use keyfold::checkpoint::DirectoryStore;
use keyfold::config::Config;
use keyfold::runtime::{Phase, Runtime, store_log};
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::source::Source;
use keyfold::testing::Faults;
use keyfold::topology::{Job, Topology};
use keyfold::types::codec::Postcard;
use keyfold::types::{OutputRef, Sequence, Shard};
use keyfold_datagen::{DatagenConfig, DatagenSource, Shape};
use keyfold_kafka::KafkaConfig;
use keyfold_service::pipeline;
use keyfold_service::registry::{Connector, Environment, Keys, SinkConnector, SourceConnector};
use keyfold_service::run::{Commits, Waiting};
use keyfold_service::yaml;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CUSTOMERS: u64 = 10_000;
const PARTITIONS: u32 = 2;

const PIPELINE: &str = "
job: totals
sources:
  orders:
    connector: made
    value: { format: json, schema: { customer: string, amount: decimal(18,2), at: timestamp } }
steps:
  - { id: paid, filter: amount > 0 AND customer IS NOT NULL }
  - { id: totals, key_by: customer, aggregate: { orders: count(), total: sum(amount), largest: max(amount), last_at: last(at) } }
sinks:
  totals: { connector: nowhere, value: json }
";

/// `{"order":"0-17","customer":"c000123","amount":12.34,"at":1767225600017,"note":"..."}` in 200 bytes.
fn source(records: u64) -> DatagenSource {
    let shape = move |_: u64, partition: i32, offset: i64, _: &mut Vec<u8>, value: &mut Vec<u8>| {
        let number = (offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ partition as u64;
        let (customer, cents) = (number % CUSTOMERS, number / CUSTOMERS % 100_000 + 1);
        let at = 1_767_225_600_000 + offset;
        // Writing to memory does not fail.
        let _ = write!(
            value,
            r#"{{"order":"{partition}-{offset}","customer":"c{customer:06}","amount":{}.{:02},"at":{at},"note":""#,
            cents / 100,
            cents % 100
        );
        let note = 198usize.saturating_sub(value.len());
        value.resize(value.len() + note, b'n');
        value.extend_from_slice(b"\"}");
        at
    };
    let mut config = DatagenConfig::new("orders");
    config.partitions = PARTITIONS;
    config.records_per_partition = Some(records / u64::from(PARTITIONS));
    config.shape = Shape::Custom(Arc::new(shape));
    DatagenSource::from_config(config)
}

struct Nowhere;

impl OutboxSink for Nowhere {
    fn describe(&self) -> String {
        "nowhere".to_owned()
    }
    fn open(&mut self, _owner: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(&mut self, _: Shard, _: Sequence, _: &mut dyn Iterator<Item = OutputRef<'_>>) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Made(u64);

impl Connector for Made {
    fn source(&self, _: &mut Keys<'_>) -> Option<SourceConnector> {
        let records = self.0;
        Some(SourceConnector {
            describe: "made".to_owned(),
            topic: "orders".to_owned(),
            commits: Commits::Store,
            make: Arc::new(move || Box::new(source(records)) as Box<dyn Source>),
        })
    }
    fn sink(&self, _: &mut Keys<'_>) -> Option<SinkConnector> {
        Some(SinkConnector {
            describe: "nowhere".to_owned(),
            commits: Commits::Store,
            make: Arc::new(|_| Ok(Nowhere.into())),
        })
    }
}

fn in_yaml(records: u64) -> anyhow::Result<Topology> {
    let environment = Environment::new(KafkaConfig::new("127.0.0.1:1"))
        .with("made", Made(records))
        .with("nowhere", Made(records));
    let loaded = pipeline::of_source(&yaml::Source::new("totals.yaml", PIPELINE), Path::new(""), &environment)?;
    loaded.topology(&Waiting::default()).map_err(anyhow::Error::msg)
}

#[derive(Clone, Deserialize)]
struct Order {
    customer: Option<String>,
    amount: f64,
    at: i64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Totals {
    customer: String,
    orders: u64,
    total: f64,
    largest: f64,
    last_at: i64,
}

fn in_rust(records: u64) -> anyhow::Result<Topology> {
    let job = Job::new("totals");
    let start = || Totals {
        customer: String::new(),
        orders: 0,
        total: 0.0,
        largest: 0.0,
        last_at: 0,
    };
    let fold = |totals: &mut Totals, order: Order| {
        if totals.orders == 0 {
            totals.customer = order.customer.unwrap_or_default();
        }
        totals.orders += 1;
        totals.total += order.amount;
        totals.largest = totals.largest.max(order.amount);
        totals.last_at = order.at;
    };
    job.source("orders", Box::new(source(records)), |record| {
        serde_json::from_slice::<Order>(record.value.unwrap_or_default()).map_err(|e| e.to_string())
    })
    .filter("paid", |order: &Order| order.amount > 0.0 && order.customer.is_some())
    .key_by("totals-key", keyfold::types::codec::Utf8, |order| {
        order.customer.clone().unwrap_or_default()
    })
    .fold("totals", Postcard::<Totals>::new(1), start, fold)
    .to("totals-sink", Nowhere, keyfold::types::codec::Json::<Totals>::new(1));
    Ok(job.build()?)
}

/// CPU time of the process so far.
fn cpu() -> Duration {
    // SAFETY: getrusage fills the struct that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

struct Took {
    wall: Duration,
    cpu: Duration,
}

fn run(topology: Topology, records: u64) -> anyhow::Result<Took> {
    let dir = tempfile::tempdir()?;
    let store = Arc::new(DirectoryStore::open(dir.path().join("store"), Faults::none())?);
    let config = Config::new(dir.path().join("state"));
    let runtime = Runtime::single(topology, config, store_log(store.clone()), store);
    let (stop, progress) = (runtime.stop_handle(), runtime.progress());
    let thread = std::thread::spawn(move || runtime.run());
    let wait = |what: &dyn Fn() -> bool| {
        while !what() && !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait(&|| progress.phase() == Phase::Processing);
    let (began, cpu_before) = (Instant::now(), cpu());
    wait(&|| progress.folded() >= records);
    let took = Took {
        wall: began.elapsed(),
        cpu: cpu() - cpu_before,
    };
    stop.stop();
    thread.join().map_err(|_| anyhow::anyhow!("the job panicked"))??;
    Ok(took)
}

fn show(what: &str, records: u64, took: &Took) -> f64 {
    let rate = records as f64 / took.wall.as_secs_f64();
    let micros = took.cpu.as_secs_f64() * 1e6 / records as f64;
    println!(
        "{what}: {rate:>9.0} records/s, {micros:.2} us CPU a record ({:.2} s, CPU {:.2} s)",
        took.wall.as_secs_f64(),
        took.cpu.as_secs_f64()
    );
    micros
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let records = args
        .next()
        .transpose()
        .context("number of records")?
        .unwrap_or(2_000_000);
    let rounds = args.next().transpose().context("number of rounds")?.unwrap_or(3);
    let (mut yaml, mut rust) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let took = run(in_rust(records)?, records)?;
        rust.push((took.wall, show("rust", records, &took)));
        let took = run(in_yaml(records)?, records)?;
        yaml.push((took.wall, show("yaml", records, &took)));
    }
    let best = |all: &[(Duration, f64)]| {
        all.iter()
            .map(|(wall, _)| wall.as_secs_f64())
            .fold(f64::INFINITY, f64::min)
    };
    let least = |all: &[(Duration, f64)]| all.iter().map(|(_, cpu)| *cpu).fold(f64::INFINITY, f64::min);
    println!(
        "yaml reaches {:.0} % of the rate of rust, with {:.2} times its CPU time (the best of {rounds} runs of each)",
        best(&rust) / best(&yaml) * 100.0,
        least(&yaml) / least(&rust)
    );
    Ok(())
}
