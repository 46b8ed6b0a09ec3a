//! Counts words: lines of text in, a count after every word out, exactly once. No broker is needed.
//!
//! ```text
//! mkdir -p /tmp/words/in && echo 'to be or not to be' >>/tmp/words/in/0.jsonl
//! cargo run --release -p keyfold-files --example word_count -- /tmp/words
//! ```
//!
//! Append lines to `in/0.jsonl` while it runs and look into `out/`; stop it with Ctrl-C, or with `kill -9`, and start it again:
//! it goes on where it was, and no word is counted twice.
use keyfold::checkpoint::DirectoryStore;
use keyfold::config::Config;
use keyfold::runtime::{Runtime, store_log};
use keyfold::testing::Faults;
use keyfold::topology::Job;
use keyfold::types::codec::{Json, Utf8};
use keyfold_files::{FilesSink, FilesSource};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The job, ready to run on `<dir>/in`, `<dir>/out` and what it keeps beside them.
pub fn job(dir: &Path) -> anyhow::Result<Runtime> {
    // Operators have ids that stay the same over all versions of the job: they find the state again.
    let job = Job::new("word-count");
    job.source("lines", Box::new(FilesSource::new(dir.join("in"))), |record| {
        String::from_utf8(record.value.unwrap_or_default().to_vec()).map_err(|e| e.to_string())
    })
    .flat_map("words", |line, out| {
        line.split_whitespace().for_each(|word| out(word.to_lowercase()));
    })
    // From here on all that belongs to a word is on one thread, in order.
    .key_by("word", Utf8, |word| word.clone())
    // The count is kept in RocksDB, and what changes it is part of a checkpoint.
    .count("counts")
    .to("out", FilesSink::new(dir.join("out")), Json::new(1));

    let store = Arc::new(DirectoryStore::open(dir.join("checkpoints"), Faults::none())?);
    let mut config = Config::new(dir.join("state"));
    config.epoch_interval = Duration::from_millis(200);
    Ok(Runtime::single(job.build()?, config, store_log(store.clone()), store))
}

fn main() -> anyhow::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "words".to_owned());
    let runtime = job(Path::new(&dir))?;
    // Ctrl-C commits a last epoch and ends.
    let stop = runtime.stop_handle();
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
    std::thread::spawn(move || signals.forever().for_each(|_| stop.stop()));
    Ok(runtime.run()?)
}
