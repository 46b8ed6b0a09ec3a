//! A job whose keys have large states, to measure its memory: no Kafka, so that it is the engine's and RocksDB's alone.
use anyhow::Result;
use clap::Parser;
use keyfold::checkpoint::DirectoryStore;
use keyfold::config::Config;
use keyfold::runtime::{Runtime, allocator, store_log};
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::testing::Faults;
use keyfold::topology::Job;
use keyfold::types::codec::{LongBe, Raw};
use keyfold::types::{OutputRef, Sequence, Shard};
use keyfold_benches::{At, Meter, log_to_stderr, quantile};
use keyfold_datagen::{DatagenConfig, DatagenSource, Shape, SplitMix64};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PARTITIONS: u32 = 4;

/// Each record changes the state of a key, which is large.
#[derive(Parser)]
struct Args {
    /// Where state and checkpoints lie; must not be there.
    #[arg(long)]
    dir: PathBuf,
    #[arg(long, default_value_t = 4_000)]
    records: u64,
    #[arg(long, default_value_t = 1_000)]
    keys: u64,
    /// Bytes of a key's state.
    #[arg(long, default_value_t = 1 << 20)]
    state_bytes: usize,
    #[arg(long, default_value_t = 1_000)]
    epoch_ms: u64,
    #[arg(long, default_value_t = 512)]
    memory_mib: usize,
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

fn source(args: &Args) -> DatagenSource {
    let keys = args.keys;
    let shape = move |seed: u64, partition: i32, offset: i64, key: &mut Vec<u8>, value: &mut Vec<u8>| {
        let mut random = SplitMix64::new(seed ^ offset.unsigned_abs() << 8 ^ u64::from(partition.unsigned_abs()));
        key.extend_from_slice(&(random.next() % keys).to_be_bytes());
        value.extend_from_slice(&random.next().to_be_bytes());
        keyfold_datagen::BASE_TIMESTAMP + offset
    };
    let mut config = DatagenConfig::new("changes");
    config.partitions = PARTITIONS;
    config.records_per_partition = Some(args.records / u64::from(PARTITIONS));
    config.shape = Shape::Custom(Arc::new(shape));
    DatagenSource::from_config(config)
}

/// Bytes that do not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let words = std::iter::repeat_with(|| random.next().to_be_bytes());
    words.take(bytes / 8).flatten().collect()
}

fn main() -> Result<()> {
    log_to_stderr();
    let args = Args::parse();
    allocator::give_large_blocks_back();
    std::fs::create_dir(&args.dir)?;
    let job = Job::new("large");
    let bytes = args.state_bytes;
    job.source("changes", Box::new(source(&args)), |record| {
        let value = record.value.and_then(|v| <[u8; 8]>::try_from(v).ok());
        value.map(u64::from_be_bytes).ok_or_else(|| "not a number".to_owned())
    })
    .key_by_record_key("by-key")
    .try_update("states", Raw, move |state: &mut Option<Vec<u8>>, number: u64| {
        let state = state.get_or_insert_with(|| noise(number, bytes));
        state.push(number as u8);
        Ok::<i64, String>(state.len() as i64)
    })
    .to("nowhere", Nowhere, LongBe);
    let mut config = Config::new(args.dir.join("state"));
    config.epoch_interval = Duration::from_millis(args.epoch_ms);
    config.memory_bytes = args.memory_mib << 20;
    let store = Arc::new(DirectoryStore::open(args.dir.join("store"), Faults::none())?);
    let runtime = Runtime::single(job.build()?, config, store_log(store.clone()), store);
    let (progress, metrics, stop) = (runtime.progress(), runtime.metrics(), runtime.stop_handle());
    let thread = std::thread::spawn(move || runtime.run());
    let mut meter = Meter::default();
    let all = args.records / u64::from(PARTITIONS) * u64::from(PARTITIONS);
    while !thread.is_finished() && progress.committed() < all {
        meter.tell(progress.committed(), At::Processing);
        std::thread::sleep(Duration::from_millis(10));
    }
    stop.stop();
    thread.join().map_err(|_| anyhow::anyhow!("the job panicked"))??;
    let write_ms = quantile(&metrics.text(), r#"keyfold_epoch_seconds_bucket{phase="write""#, 0.999).map(|s| s * 1e3);
    meter.end(progress.committed(), write_ms);
    Ok(())
}
