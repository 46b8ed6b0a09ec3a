//! States of hundreds of kilobytes a key, within the memory budget.
use crate::support::{driver, pipe, record};
use keyfold::topology::Job;
use keyfold::types::codec::{LongBe, Raw};

const STATE_BYTES: usize = 128 << 10;
const KEYS: usize = 600;
const MIB: u64 = 1 << 20;

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_be_bytes()
    });
    words.take(STATE_BYTES / 8).flatten().collect()
}

/// Everything that was read before the driver asked for a barrier became one epoch: thousands of records lay in the channels, a poll of the
/// source went on while the gate was closed, and a state that was made in this epoch counted with a few bytes. 75 MiB of changes came out of a
/// budget that allows 8.
#[test]
fn an_epoch_of_large_states_is_closed_in_time() {
    let mut driver = driver(|broker| {
        let job = Job::new("large");
        job.source("items", broker.source("in"), |r| {
            let number = r
                .key
                .unwrap_or_default()
                .iter()
                .fold(0, |n: u64, b| n * 31 + u64::from(*b));
            Ok(number)
        })
        .key_by_record_key("by-key")
        .try_update("states", Raw, |state: &mut Option<Vec<u8>>, number: u64| {
            *state = Some(noise(number));
            Ok::<i64, String>(1)
        })
        .to("sink", broker.target("out"), LongBe);
        job.build()
    });
    driver.use_disk();
    driver.configure(|c| {
        c.memory_bytes = 64 << 20;
        c.keyed_lanes = 1;
    });
    driver.start().expect("starts");
    pipe(&driver, (0..KEYS).map(|k| record(&format!("key-{k}"), "")));
    while driver.outputs("out").len() < KEYS {
        driver.barrier().expect("an epoch");
    }
    let largest = largest_file(&driver.dir().join("store"));
    // An eighth of the budget is dirty at most, and what lies in a channel then is of some batches of a megabyte of state.
    assert!(largest > 2 * MIB, "the states are in the epochs: {largest}");
    assert!(largest < 24 * MIB, "an epoch of {largest} bytes");
}

fn largest_file(dir: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let size = |path: std::path::PathBuf| match path.is_dir() {
        true => largest_file(&path),
        false => path.metadata().map_or(0, |m| m.len()),
    };
    entries.map(|e| size(e.path())).max().unwrap_or_default()
}
