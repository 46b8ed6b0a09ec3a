//! The baseline with the least that exactly-once counts per key take, in the same one loop: a hash map, a file of what has changed before each
//! commit, RocksDB after it. No shards, lanes, recovery, bounds or checks. Arguments: STATE DIR and the baseline's; STATE is how much of it: `map`,
//! `file` (with the files) or `copy` (with RocksDB, too).
#![allow(unsafe_code, dead_code)]
use baseline::Between;
use hashbrown::HashMap;
use rocksdb::{BlockBasedOptions, DB, DBCompressionType, Options, WriteBatch, WriteOptions};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write;
use std::path::PathBuf;

mod baseline;

/// What the engine's epoch objects have as well.
const BLOCK_BYTES: usize = 64 << 10;

/// As cheap as a hash can be; all keys are numbers.
#[derive(Default)]
struct Multiplied(u64);

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

struct Count {
    count: u64,
    timestamp: i64,
    dirty: bool,
}

struct Counts {
    map: HashMap<u64, Count, BuildHasherDefault<Multiplied>>,
    dirty: Vec<u64>,
    batch: WriteBatch,
    files: Option<PathBuf>,
    epoch: u64,
    db: Option<DB>,
}

impl Counts {
    fn new(state: &str, dir: &str) -> Counts {
        let dir = PathBuf::from(dir);
        std::fs::create_dir_all(&dir).expect("a directory");
        Counts {
            map: HashMap::default(),
            dirty: Vec::new(),
            batch: WriteBatch::default(),
            db: (state == "copy").then(|| DB::open(&options(), dir.join("copy")).expect("opened")),
            files: (state != "map").then_some(dir),
            epoch: 0,
        }
    }

    fn write(&mut self, changes: &[u8]) {
        let Some(dir) = &self.files else { return };
        self.epoch += 1;
        let mut file = File::create(dir.join(self.epoch.to_string())).expect("created");
        for block in changes.chunks(BLOCK_BYTES) {
            file.write_all(&lz4_flex::block::compress(block)).expect("written");
        }
        file.sync_all().expect("synced");
    }
}

/// The engine's, as far as they matter to what is written.
fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(24 << 20);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    options.set_max_background_jobs(2);
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    options.set_block_based_table_factory(&table);
    options
}

impl Between for Counts {
    fn value(&mut self, key: &[u8], _: &[u8], timestamp: i64) -> [u8; 8] {
        let key = u64::from_be_bytes(*key.first_chunk().expect("8 bytes"));
        let entry = self.map.entry(key).or_insert(Count {
            count: 0,
            timestamp,
            dirty: false,
        });
        entry.count += 1;
        entry.timestamp = entry.timestamp.max(timestamp);
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty.push(key);
        }
        entry.count.to_be_bytes()
    }

    fn before_commit(&mut self) {
        self.dirty.sort_unstable();
        let mut changes = Vec::with_capacity(self.dirty.len() * 24);
        for key in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.map.get_mut(&key) else { continue };
            entry.dirty = false;
            let at = changes.len();
            changes.extend_from_slice(&key.to_be_bytes());
            changes.extend_from_slice(&entry.timestamp.to_be_bytes());
            changes.extend_from_slice(&entry.count.to_be_bytes());
            if self.db.is_some() {
                self.batch.put(&changes[at..at + 8], &changes[at + 8..]);
            }
        }
        self.write(&changes);
    }

    fn after_commit(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if let Some(db) = &self.db {
            let mut options = WriteOptions::default();
            options.disable_wal(true);
            db.write_opt(batch, &options).expect("applied");
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [state, dir, rest @ ..] = arguments.as_slice() else {
        panic!("usage: bench-prototype map|file|copy DIR BROKERS INPUT OUTPUT RECORDS EPOCH_MS");
    };
    assert!(["map", "file", "copy"].contains(&state.as_str()), "STATE is {state}");
    baseline::run(rest, &mut Counts::new(state, dir));
}
