//! The job that is measured: counts per key, an 8-byte count for every record, exactly once.
use anyhow::Result;
use clap::Parser;
use keyfold::checkpoint::DirectoryStore;
use keyfold::config::Config;
use keyfold::runtime::{Phase, Runtime, allocator};
use keyfold::testing::Faults;
use keyfold::topology::Job;
use keyfold::types::codec::LongBe;
use keyfold_benches::{At, Meter, log_to_stderr, quantile};
use keyfold_kafka::{GroupTimeouts, KafkaConfig, KafkaLog, KafkaMembership, KafkaSource, kafka_target};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Counts per key.
#[derive(Parser)]
struct Args {
    /// The job's id. A run with a store of its own needs one of its own.
    #[arg(long)]
    job: String,
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    input: String,
    #[arg(long)]
    output: String,
    /// Where state and checkpoints lie.
    #[arg(long)]
    dir: PathBuf,
    /// Ends after so many records; runs until SIGTERM without.
    #[arg(long, default_value_t = u64::MAX)]
    records: u64,
    #[arg(long, default_value_t = 1_000)]
    epoch_ms: u64,
    #[arg(long, default_value_t = 512)]
    memory_mib: usize,
    /// In group mode.
    #[arg(long)]
    group: bool,
}

fn main() -> Result<()> {
    log_to_stderr();
    let args = Args::parse();
    allocator::give_large_blocks_back();
    let kafka = KafkaConfig::new(&args.brokers);
    let job = Job::new(&args.job);
    job.source("input", Box::new(KafkaSource::topic(&kafka, &args.input)), |_| Ok(()))
        .key_by_record_key("by-key")
        .count("counts")
        .to("output", kafka_target(&kafka, &args.output)?, LongBe);
    let mut config = Config::new(args.dir.join("state"));
    config.epoch_interval = Duration::from_millis(args.epoch_ms);
    config.memory_bytes = args.memory_mib << 20;
    config.instance = Some("bench".to_owned());
    let store = Arc::new(DirectoryStore::open(args.dir.join("store"), Faults::none())?);
    let log = KafkaLog::factory(&kafka, config.transaction_timeout);
    let runtime = match args.group {
        true => {
            let membership = KafkaMembership::factory(&kafka, GroupTimeouts::default());
            Runtime::group(job.build()?, config, log, membership, store)
        }
        false => Runtime::single(job.build()?, config, log, store),
    };
    let (progress, metrics, stop) = (runtime.progress(), runtime.metrics(), runtime.stop_handle());
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM])?;
    let on_signal = stop.clone();
    std::thread::spawn(move || signals.forever().for_each(|_| on_signal.stop()));
    let (done, mut meter) = (AtomicBool::new(false), Meter::default());
    std::thread::scope(|scope| {
        let told = &mut meter;
        let (progress, done) = (&progress, &done);
        scope.spawn(move || {
            let meter = told;
            while !done.load(Ordering::SeqCst) {
                let committed = progress.committed();
                let at = match progress.phase() {
                    Phase::Restoring => At::Restoring,
                    Phase::Processing | Phase::Stopped => At::Processing,
                    Phase::Starting | Phase::Spare => At::Starting,
                };
                meter.restored(progress.restored_in());
                meter.tell(committed, at);
                // A stop cuts the last epoch at once; the baseline does not wait for its second, either.
                if progress.read() >= args.records {
                    stop.stop();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let result = runtime.run();
        done.store(true, Ordering::SeqCst);
        result
    })?;
    let write_ms = quantile(&metrics.text(), r#"keyfold_epoch_seconds_bucket{phase="write""#, 0.999).map(|s| s * 1e3);
    meter.end(progress.committed(), write_ms);
    Ok(())
}
