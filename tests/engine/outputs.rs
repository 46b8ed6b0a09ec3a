//! Outputs between lane and sink: what is refused at the start, how much may wait, and to whom an outbox is delivered.
use crate::support::{assert_cannot_go_on, driver, record, sums, texts};
use keyfold::checkpoint::MemoryStore;
use keyfold::config::{Config, Guarantee};
use keyfold::runtime::{ExitCode, Runtime, store_log};
use keyfold::sink::{LogErrorKind, OutboxSink, SinkError};
use keyfold::state::backend::memory::Operation;
use keyfold::testing::{Call, DriverError, Fault, MemoryBroker, Process, ProcessStore, RunEnd, TestDriver};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::{Raw, Utf8};
use keyfold::types::{OutputRef, Shard};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A job read files and wrote to a topic. It started, folded records, and ended only when the first output was to be sent.
#[test]
fn a_stage_whose_log_takes_no_outputs_is_refused_before_it_reads_a_record() {
    let broker = MemoryBroker::default();
    broker.create_topic("in", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(MemoryStore::new(1));
    let topology = sums(&broker).expect("built");
    let runtime = Runtime::single(topology, Config::new(dir.path()), store_log(store.clone()), store);
    let progress = runtime.progress();
    let error = runtime.run().expect_err("refused");
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
    assert!(error.to_string().contains("writes to topic out"), "{error}");
    assert_eq!(progress.read(), 0);
}

type Delivered = Arc<Mutex<Vec<(u32, u64, String)>>>;

/// Takes outputs as a sink does that stores the sequence with them; fails while told to.
struct Shelf {
    taken: Delivered,
    broken: Arc<AtomicBool>,
}

impl OutboxSink for Shelf {
    fn describe(&self) -> String {
        "a shelf".to_owned()
    }
    fn open(&mut self, _: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(
        &mut self,
        shard: Shard,
        sequence: u64,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError> {
        let mut taken = self.taken.lock().expect("not poisoned");
        if taken.iter().any(|(s, n, _)| *s == shard.0 && *n >= sequence) {
            return Ok(());
        }
        for out in outputs {
            if self.broken.load(Ordering::SeqCst) {
                return Err(SinkError::Fatal("broken".to_owned()));
            }
            let text = String::from_utf8_lossy(out.value.unwrap_or_default()).into_owned();
            taken.push((shard.0, sequence, text));
        }
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Shelves {
    plain: Delivered,
    loud: Delivered,
    broken: Arc<AtomicBool>,
}

impl Shelves {
    fn shelf(&self, taken: &Delivered) -> Shelf {
        Shelf {
            taken: taken.clone(),
            broken: self.broken.clone(),
        }
    }
}

fn values(taken: &Delivered) -> Vec<String> {
    let taken = taken.lock().expect("not poisoned");
    taken.iter().map(|(_, _, text)| text.clone()).collect()
}

/// Values go to `plain`, and in capitals to `loud`; which sink is built first, and which are there at all, is given.
fn shelved(
    shelves: &Shelves,
    order: &'static [&'static str],
) -> impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static {
    let shelves = shelves.clone();
    move |broker| {
        let job = Job::new("shelved");
        let texts = job.source("texts", broker.source("in"), |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        });
        for id in order {
            match *id {
                "plain" => texts.to("plain", shelves.shelf(&shelves.plain), Utf8),
                _ => texts
                    .map("capitals", |t| t.to_uppercase())
                    .to("loud", shelves.shelf(&shelves.loud), Utf8),
            }
        }
        job.build()
    }
}

/// A job was killed between a commit and its delivery, and came back with its sinks in another order: the outputs that waited went to
/// the sink that had their number now. With a sink gone they were dropped.
#[test]
fn waiting_outputs_go_to_the_sink_of_their_id_and_nowhere_else() {
    let shelves = Shelves::default();
    let mut driver = driver(shelved(&shelves, &["plain", "loud"]));
    driver.start().expect("starts");
    driver.pipe("in", record("a", "first")).expect("taken");
    driver.crash_at("post_apply").expect("armed");
    let _ = driver.barrier();
    assert!(values(&shelves.plain).is_empty() && values(&shelves.loud).is_empty());

    driver.rebuild(shelved(&shelves, &["plain"]));
    match driver.restart() {
        Err(DriverError::Ended(error)) => {
            assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
            assert!(error.to_string().contains("sink loud"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(values(&shelves.plain).is_empty());

    driver.rebuild(shelved(&shelves, &["loud", "plain"]));
    driver.restart().expect("starts");
    driver.pipe("in", record("a", "second")).expect("taken");
    driver.barrier().expect("an epoch");
    assert_eq!(values(&shelves.plain), ["first", "second"]);
    assert_eq!(values(&shelves.loud), ["FIRST", "SECOND"]);
}

/// The pointers were lost and that was accepted. Sequences began at 0 again, and a sink that had taken higher ones swallowed what came.
#[test]
fn outputs_after_an_accepted_loss_are_delivered() {
    let shelves = Shelves::default();
    let mut driver = driver(shelved(&shelves, &["plain"]));
    driver.configure(|c| c.shards = 1);
    driver.start().expect("starts");
    for value in ["a", "b", "c"] {
        driver.pipe("in", record("k", value)).expect("taken");
        driver.barrier().expect("an epoch");
    }
    driver.stop().expect("ends well");
    driver.broker().lose_offsets("shelved.texts");
    assert!(driver.start().is_err());
    driver.configure(|c| c.accept_lost_pointers = true);
    driver.restart().expect("begins again");
    driver.barrier().expect("an epoch");
    assert_eq!(values(&shelves.plain), ["a", "b", "c", "a", "b", "c"]);
}

/// While publishing was stuck the lanes spilled, spilled bytes counted nowhere, and the epoch grew to what no transaction can send.
#[test]
fn spilled_outputs_close_the_gate_as_well() {
    const RECORDS: u64 = 6000;
    let broker = MemoryBroker::default();
    broker.create_topic("in", 1);
    broker.create_topic("out", 1);
    let long = "1".repeat(4096);
    for _ in 0..RECORDS {
        broker.produce("in", record("k", &long)).expect("taken");
    }
    let job = Job::new("copy");
    let seen: Arc<AtomicU64> = Arc::default();
    let counted = seen.clone();
    job.source("texts", broker.source("in"), move |r| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(r.value.unwrap_or_default().to_vec())
    })
    .to("sink", broker.target("out"), Raw);
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = Config::new(dir.path());
    config.memory_bytes = 8 << 20;
    // A quarter of it sends 0.5 MB; the memory budget's part is 1 MiB, which is more, and the gate closes at twice that.
    config.transaction_timeout = Duration::from_millis(100);
    let process = Process::new();
    for k in 2..200 {
        process.fault(Call::Put, k, Fault::Fail(LogErrorKind::Retriable));
    }
    let store = Arc::new(ProcessStore::new(Arc::new(MemoryStore::new(1)), process.clone()));
    let topology = job.build().expect("built");
    let runtime = Runtime::single(topology, config, broker.log(process.clone()), store);
    let of_thread = process.clone();
    let running = std::thread::spawn(move || of_thread.run(runtime));
    let mut read = (0, 0);
    while read.1 < 30 && !running.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
        let now = seen.load(Ordering::SeqCst);
        read = if now == read.0 && now > 0 {
            (now, read.1 + 1)
        } else {
            (now, 0)
        };
    }
    // One epoch of at most 2 MiB that is stuck, and the next of as much, each with the batch that crossed the line.
    assert!(read.0 < 2500, "{} of {RECORDS} records were read", read.0);
    process.kill();
    assert!(matches!(running.join().expect("no panic"), RunEnd::Crashed(_)));
}

/// Removes the newest file of a folder of numbered ones; how many are left.
fn lose_newest(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a directory").flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    let mut files: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    files.sort_by_key(number);
    std::fs::remove_file(files.pop().expect("something was spilled")).expect("removed");
    files.len()
}

/// The run ended at a spill file that could not be read, with its transaction open: who reads committed records waited until the broker
/// had timed it out.
#[test]
fn a_spill_file_that_cannot_be_read_leaves_no_transaction_open() {
    let folder: Arc<OnceLock<PathBuf>> = Arc::default();
    let (shared, left) = (folder.clone(), Arc::new(AtomicU64::new(0)));
    let seen = left.clone();
    let mut driver = driver(move |broker| {
        let job = Job::new("wide");
        let (folder, left) = (shared.clone(), left.clone());
        job.source("items", broker.source("in"), |_| Ok(()))
            .flat_map("many", |(), out: &mut dyn FnMut(usize)| (0..3000).for_each(out))
            .map("text", move |i| {
                if i == 2999 && left.load(Ordering::SeqCst) == 0 {
                    let files = lose_newest(folder.get().expect("set before the start"));
                    left.store(files as u64, Ordering::SeqCst);
                }
                format!("{i:0>90}")
            })
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.configure(|c| c.memory_bytes = 1 << 20);
    folder.set(driver.dir().join("state").join("spill")).expect("once");
    driver.start().expect("starts");
    let process = driver.process().expect("runs").clone();
    driver.pipe("in", record("k", "")).expect("taken");
    assert_cannot_go_on(driver.barrier(), &["spill file"]);
    assert!(
        seen.load(Ordering::SeqCst) > 0 && process.calls(Call::Send) > 0,
        "a transaction had begun"
    );
    assert_eq!(driver.broker().open_transactions(), 0);
    assert!(driver.outputs("out").is_empty());
    driver.start().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(driver.outputs("out").len(), 3000);
}

/// One failed delivery ended the run with exit code 1, and nothing was tried again.
#[test]
fn at_least_once_sends_again_what_was_not_acknowledged() {
    let mut driver = driver(sums);
    driver.configure(|c| c.guarantee = Guarantee::AtLeastOnce);
    driver.start().expect("starts");
    let process = driver.process().expect("runs").clone();
    process.fault(Call::Eager, 2, Fault::Fail(LogErrorKind::SessionLost));
    for value in [1, 2, 3] {
        driver.pipe("in", record("a", value)).expect("taken");
    }
    driver.barrier().expect("an epoch");
    process.fault(Call::EagerDrain, 1, Fault::Fail(LogErrorKind::Abortable));
    driver.pipe("in", record("a", 4)).expect("taken");
    driver.barrier().expect("an epoch");
    let sent = texts(&driver.outputs("out"));
    for sum in ["a=1", "a=3", "a=6", "a=10"] {
        assert!(sent.iter().any(|s| s == sum), "{sum} in {sent:?}");
    }
    assert_eq!(driver.metrics().expect("runs").retries("send"), 2);

    let refusals = driver.process().expect("runs").calls(Call::Eager);
    for k in 1..50 {
        process.fault(Call::Eager, k, Fault::Fail(LogErrorKind::OutputRefused));
    }
    driver.pipe("in", record("a", 5)).expect("taken");
    match driver.barrier() {
        Err(DriverError::Ended(error)) => assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        process.calls(Call::Eager) - refusals,
        4,
        "refusal_retries_max tries and no more"
    );
}

/// The disk was full for a while. RocksDB kept the error after there was room again, and the run tried the same handle for ever; a flush
/// that failed once ended the run.
#[test]
fn a_local_copy_that_cannot_be_written_is_opened_anew_in_place() {
    let mut driver = driver(sums);
    driver.configure(|c| c.shards = 1);
    driver.start().expect("starts");
    driver.copies().fail(Operation::Apply, 7);
    driver.pipe("in", record("a", 1)).expect("taken");
    driver.barrier().expect("an epoch");
    let again = |driver: &TestDriver, step| driver.metrics().expect("runs").retries(step);
    assert_eq!((again(&driver, "apply"), again(&driver, "reopen")), (5, 2));
    driver.pipe("in", record("a", 2)).expect("taken");
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=1", "a=3"]);
    driver.copies().fail(Operation::Flush, u32::MAX);
    driver.pipe("in", record("a", 3)).expect("taken");
    driver.stop().expect("what is committed is safe without it");
    driver.copies().fail(Operation::Flush, 0);

    driver.copies().fail(Operation::Apply, u32::MAX);
    match driver.restart() {
        Err(DriverError::Ended(error)) => assert_eq!(error.exit_code(), ExitCode::Failed, "{error}"),
        other => panic!("{other:?}"),
    }
}

/// The disk was full when a session was to be opened anew, and that ended a run at once, though there may be room a moment later.
#[test]
fn a_session_that_cannot_be_remembered_is_tried_again_in_place() {
    let mut driver = driver(sums);
    driver.start().expect("starts");
    let full = driver.dir().join("state").join("sessions.tmp");
    std::os::unix::fs::symlink("/dev/full", &full).expect("link");
    let process = driver.process().expect("runs").clone();
    let sessions = process.calls(Call::Session);
    process.fault(Call::Commit, 1, Fault::Lost(LogErrorKind::SessionLost));
    driver.pipe("in", record("a", 1)).expect("taken");
    match driver.barrier() {
        Err(DriverError::Ended(error)) => assert!(error.to_string().contains("make room"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(process.calls(Call::Session) - sessions, 9, "one try, and eight more");
    std::fs::remove_file(full).expect("room again");
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=1"]);
}
