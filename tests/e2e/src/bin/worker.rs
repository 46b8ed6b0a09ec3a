//! The program that tests kill: one output with (count, sum, source partition and offset) for every input record, exactly once.
//!
//! Tells about itself on standard error in lines `keyfold-event <JSON>`, see `keyfold_e2e::worker`.
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use keyfold::checkpoint::store::DirectoryStore;
use keyfold::config::{Config, Guarantee};
use keyfold::operator::process::ProcessError;
use keyfold::operator::{KeyedProcess, ProcessContext, StateScope, ValueState};
use keyfold::runtime::{Phase, Progress, Runtime, RuntimeError, StopHandle};
use keyfold::telemetry::Metrics;
use keyfold::testing::Faults;
use keyfold::topology::{BadRecords, Job, SourceOptions, Topology};
use keyfold::types::codec::Postcard;
use keyfold_kafka::{GroupTimeouts, KafkaConfig, KafkaLog, KafkaMembership, KafkaSource, kafka_target_unless};

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    input: String,
    #[arg(long)]
    output: String,
    #[arg(long)]
    job: String,
    #[arg(long)]
    state_dir: PathBuf,
    #[arg(long)]
    store_dir: PathBuf,
    #[arg(long, default_value_t = 500)]
    epoch_ms: u64,
    /// Do not wait while another instance is alive.
    #[arg(long)]
    take_over: bool,
    #[arg(long)]
    at_least_once: bool,
    /// Bad records are skipped.
    #[arg(long, conflicts_with = "dead_letters")]
    skip: bool,
    /// Bad records go to this topic.
    #[arg(long)]
    dead_letters: Option<String>,
    /// Go on without state when the pointers are gone.
    #[arg(long)]
    accept_lost_pointers: bool,
    #[arg(long, default_value_t = 15_000)]
    transaction_timeout_ms: u64,
    /// How often an idle stage commits its pointer again.
    #[arg(long, default_value_t = 600_000)]
    recommit_ms: u64,
    /// Group mode: instances share the partitions.
    #[arg(long)]
    group: bool,
    /// This instance's name in the group.
    #[arg(long)]
    instance: Option<String>,
    /// A stop leaves the group.
    #[arg(long)]
    leave: bool,
    #[arg(long, default_value_t = 10_000)]
    session_timeout_ms: u64,
    #[arg(long, default_value_t = 60_000)]
    max_poll_interval_ms: u64,
    #[arg(long, default_value_t = 1_000)]
    revoke_budget_ms: u64,
    /// Without a sign of life for so long the group is not polled any more.
    #[arg(long, default_value_t = 10_000)]
    stall_after_ms: u64,
    /// A shard gets a base after so many epochs.
    #[arg(long, default_value_t = 256)]
    chain_objects: u64,
    /// Garbage stays in the checkpoint store for so long.
    #[arg(long, default_value_t = 24 * 3_600_000)]
    grace_ms: u64,
    /// murmur2, crc32 or unknown.
    #[arg(long, default_value = "murmur2")]
    partitioner: String,
    /// Keyed lanes.
    #[arg(long, default_value_t = 2)]
    lanes: u32,
    /// Id of the operator that sets the key: another one is another topology.
    #[arg(long, default_value = "key")]
    key_id: String,
    /// Pads every output's JSON to this many bytes.
    #[arg(long, default_value_t = 0)]
    output_bytes: usize,
    /// Pads only the outputs of values from this on.
    #[arg(long, default_value_t = i64::MIN, allow_hyphen_values = true)]
    pad_from: i64,
    /// The fold of this value never ends, as of a user's function that hangs.
    #[arg(long, hide = true)]
    hang_at_value: Option<i64>,
    /// The memory budget.
    #[arg(long)]
    memory_mib: Option<usize>,
    /// `name=value` for librdkafka's producer.
    #[arg(long)]
    producer_property: Vec<String>,
}

/// The steps whose retries are told together.
const RETRIED: [&str; 4] = ["publish", "session", "pointers", "group"];

struct Fold {
    state: ValueState<(u64, i64)>,
    output_bytes: usize,
    pad_from: i64,
    hang_at_value: Option<i64>,
}

impl KeyedProcess<i64, String> for Fold {
    fn process(&mut self, amount: i64, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        while self.hang_at_value == Some(amount) {
            std::thread::park();
        }
        let origin = context.origin();
        let (seq, sum) = self.state.update(|value| {
            let (seq, sum) = value.get_or_insert((0, 0));
            *seq += 1;
            *sum = sum.wrapping_add(amount);
            (*seq, *sum)
        })?;
        let mut text = format!(
            r#"{{"seq":{seq},"sum":{sum},"p":{},"o":{}"#,
            origin.partition, origin.offset
        );
        if amount >= self.pad_from && self.output_bytes > text.len() + 10 {
            let pad = "x".repeat(self.output_bytes - text.len() - 10);
            text.push_str(&format!(r#","pad":"{pad}""#));
        }
        text.push('}');
        context.emit(text);
        Ok(())
    }
}

fn kafka(arguments: &Arguments, faults: &Faults) -> Result<KafkaConfig> {
    let mut kafka = KafkaConfig::new(&arguments.brokers).faults(faults.clone());
    for property in &arguments.producer_property {
        let (name, value) = property.split_once('=').context("a property is name=value")?;
        kafka = kafka.producer_property(name, value)?;
    }
    Ok(kafka)
}

fn topology(arguments: &Arguments, kafka: &KafkaConfig, stop: &StopHandle) -> Result<Topology> {
    let job = Job::new(&arguments.job);
    let bad_records = match &arguments.dead_letters {
        Some(topic) => {
            let target = kafka_target_unless(kafka, topic, stop, &|_, _| {})?;
            BadRecords::DeadLetter(job.dead_letters("input-dead-letters", target))
        }
        None if arguments.skip => BadRecords::Skip,
        None => BadRecords::Fail,
    };
    let options = SourceOptions::bad_records(bad_records);
    let source = Box::new(KafkaSource::topic(kafka, &arguments.input));
    let (output_bytes, pad_from, hang_at_value) = (arguments.output_bytes, arguments.pad_from, arguments.hang_at_value);
    job.source_with("input", source, options, |record| {
        let text = std::str::from_utf8(record.value.ok_or("a null value")?).map_err(|e| e.to_string())?;
        text.parse::<i64>().map_err(|e| e.to_string())
    })
    .key_by_record_key(&arguments.key_id)
    .process("fold", move |states: &mut StateScope| Fold {
        state: states.value("total", Postcard::new(1)),
        output_bytes,
        pad_from,
        hang_at_value,
    })
    .to_with(
        "output",
        kafka_target_unless(kafka, &arguments.output, stop, &|_, _| {})?,
        |text: &String, _, out| {
            out.value = Some(text.as_bytes().to_vec());
            Ok(())
        },
    );
    Ok(job.build()?)
}

fn config(arguments: &Arguments) -> Config {
    let mut config = Config::new(&arguments.state_dir);
    config.epoch_interval = Duration::from_millis(arguments.epoch_ms);
    config.take_over = arguments.take_over;
    config.keyed_lanes = arguments.lanes;
    config.accept_lost_pointers = arguments.accept_lost_pointers;
    config.transaction_timeout = Duration::from_millis(arguments.transaction_timeout_ms);
    config.recommit_interval = Duration::from_millis(arguments.recommit_ms);
    config.instance.clone_from(&arguments.instance);
    config.leave_group = arguments.leave;
    config.revoke_budget = Duration::from_millis(arguments.revoke_budget_ms);
    config.stall_after = Duration::from_millis(arguments.stall_after_ms);
    config.chain_objects_max = arguments.chain_objects;
    config.grace = Duration::from_millis(arguments.grace_ms);
    if let Some(mib) = arguments.memory_mib {
        config.memory_bytes = mib << 20;
    }
    if arguments.at_least_once {
        config.guarantee = Guarantee::AtLeastOnce;
    }
    config
}

fn timeouts(arguments: &Arguments) -> GroupTimeouts {
    let session = Duration::from_millis(arguments.session_timeout_ms);
    let usual = GroupTimeouts::default();
    GroupTimeouts {
        session,
        heartbeat: usual.heartbeat.min(session / 6),
        max_poll: Duration::from_millis(arguments.max_poll_interval_ms),
    }
}

/// Tells what the run is doing, every 50 ms, until `done`.
fn tell(progress: &Progress, metrics: &Metrics, done: &AtomicBool) {
    let mut started = false;
    let mut spare = false;
    while !done.load(Ordering::SeqCst) {
        match progress.phase() {
            Phase::Spare if !spare => {
                spare = true;
                eprintln!("keyfold-event {{\"event\":\"spare\"}}");
            }
            Phase::Processing if !started => {
                started = true;
                let epoch = progress.resumed().unwrap_or_default();
                let restored = progress.replayed_sections();
                eprintln!("keyfold-event {{\"event\":\"started\",\"epoch\":\"{epoch}\",\"restored\":{restored}}}");
            }
            _ => {}
        }
        let (folded, committed, epochs) = (progress.folded(), progress.committed(), progress.epochs());
        let (rebuilds, in_doubt) = (metrics.session_rebuilds(), metrics.in_doubt_count());
        let (bases, fetched) = (metrics.bases("committed"), metrics.fetched_bytes());
        let (collected, rewritten) = (metrics.collected_objects(), metrics.rewritten_count());
        eprintln!(
            "keyfold-event {{\"event\":\"progress\",\"folded\":{folded},\"committed\":{committed},\"epochs\":{epochs},\
             \"rebuilds\":{rebuilds},\"in_doubt\":{in_doubt},\"bases\":{bases},\"fetched\":{fetched},\
             \"collected\":{collected},\"rewritten\":{rewritten}}}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn run(arguments: &Arguments) -> Result<Result<(), RuntimeError>> {
    let faults = Faults::from_env().map_err(|e| anyhow!(e))?;
    let kafka = kafka(arguments, &faults)?;
    let stop = StopHandle::default();
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    let on_signal = stop.clone();
    std::thread::spawn(move || signals.forever().for_each(|_| on_signal.stop()));
    let topology = topology(arguments, &kafka, &stop)?;
    let store = Arc::new(DirectoryStore::open(&arguments.store_dir, faults.clone())?);
    let config = config(arguments);
    let log = KafkaLog::factory(&kafka, config.transaction_timeout);
    let runtime = if arguments.group {
        let membership = KafkaMembership::factory(&kafka, timeouts(arguments));
        Runtime::group(topology, config, log, membership, store)
    } else {
        Runtime::single(topology, config, log, store)
    };
    let runtime = runtime.with_faults(faults).with_stop(stop);
    let (progress, metrics) = (runtime.progress(), runtime.metrics());
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| tell(&progress, &metrics, &done));
        let result = runtime.run();
        done.store(true, Ordering::SeqCst);
        result
    });
    let bad: Vec<String> = [
        "decode",
        "null_key",
        "timestamp",
        "user",
        "encode",
        "too_large",
        "misplaced",
    ]
    .iter()
    .map(|reason| format!("\"{reason}\":{}", metrics.bad_records(reason)))
    .collect();
    let retries: u64 = RETRIED.iter().map(|step| metrics.retries(step)).sum();
    eprintln!(
        "keyfold-event {{\"event\":\"ended\",\"folded\":{},\"committed\":{},\"rebuilds\":{},\"in_doubt\":{},\"retries\":{retries},{}}}",
        progress.folded(),
        progress.committed(),
        metrics.session_rebuilds(),
        metrics.in_doubt_count(),
        bad.join(",")
    );
    Ok(result)
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match run(&Arguments::parse()) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("keyfold: {error}");
            ExitCode::from(error.exit_code() as u8)
        }
        Err(error) => {
            eprintln!("keyfold: {error:#}");
            ExitCode::FAILURE
        }
    }
}
