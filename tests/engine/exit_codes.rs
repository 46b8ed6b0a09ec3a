//! What a process exits with when store, disk or machine fail: 13 where somebody must act, 1 where starting again is right.
use crate::support::{driver, ended_with, pipe, record, sorted, sums};
use keyfold::checkpoint::MemoryStore;
use keyfold::checkpoint::store::{Aged, ObjectPath, Part, Store, StoreError, StoreErrorKind};
use keyfold::config::Config;
use keyfold::runtime::backoff::STOP_GRACE;
use keyfold::runtime::{ExitCode, Runtime, RuntimeError};
use keyfold::sink::LogErrorKind;
use keyfold::state::backend::memory::{MemoryFactory, Operation};
use keyfold::testing::{Call, Fault, ManualClock, MemoryBroker, Process};
use keyfold::topology::Job;
use keyfold::types::Clock;
use keyfold::types::codec::Utf8;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A store that cannot be read.
struct Unreadable(MemoryStore, StoreErrorKind);

impl Unreadable {
    fn fail<T>(&self, path: &ObjectPath) -> Result<T, StoreError> {
        let (path, reason) = (path.to_string(), "told to fail".to_owned());
        Err(match self.1 {
            StoreErrorKind::Retriable => StoreError::Retriable { path, reason },
            _ => StoreError::Fatal { path, reason },
        })
    }
}

impl Store for Unreadable {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.0.put_new(path, parts)
    }
    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        self.fail(path)
    }
    fn get_parts(&self, path: &ObjectPath, _: &mut Part<'_>) -> Result<(), StoreError> {
        self.fail(path)
    }
    fn get_range(&self, path: &ObjectPath, _: u64, _: u64) -> Result<Vec<u8>, StoreError> {
        self.fail(path)
    }
    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        self.fail(path)
    }
    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        self.fail(prefix)
    }
    fn list_aged(&self, folder: &ObjectPath, _: Option<&ObjectPath>, _: usize) -> Result<Vec<Aged>, StoreError> {
        self.fail(folder)
    }
    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        self.fail(path)
    }
    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        self.0.delete(path)
    }
    fn id(&self) -> u64 {
        self.0.id()
    }
    fn describe(&self) -> String {
        "unreadable".to_owned()
    }
}

/// How a first run on a store that cannot be read ends, when it is asked to stop.
fn ended_on(kind: StoreErrorKind) -> RuntimeError {
    let clock = ManualClock::new(0);
    let broker = MemoryBroker::new(Arc::new(clock.clone()));
    broker.create_topic("in", 1);
    broker.create_topic("out", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let mut config = Config::new(dir.path());
    config.take_over = true;
    let store = Arc::new(Unreadable(MemoryStore::new(1), kind));
    let topology = sums(&broker).expect("valid");
    let runtime = Runtime::single(topology, config, broker.log(Process::new()), store)
        .with_backends(Box::new(|_| Ok(Arc::new(MemoryFactory::default()))))
        .with_clock(Arc::new(clock));
    runtime.stop_handle().stop();
    runtime
        .run()
        .expect_err("it cannot find out whether the store knows the job")
}

/// A store without permission ended the run with 1: a supervisor started it again and again, and nobody was told.
#[test]
fn a_store_that_somebody_must_mend_exits_with_13_and_one_that_is_away_with_1() {
    let error = ended_on(StoreErrorKind::Fatal);
    assert!(
        matches!(error, RuntimeError::Store(StoreError::Fatal { .. })),
        "{error:?}"
    );
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
    assert!(error.to_string().contains("check the store's permissions"), "{error}");
    let error = ended_on(StoreErrorKind::Retriable);
    assert!(
        matches!(error, RuntimeError::Store(StoreError::Retriable { .. })),
        "{error:?}"
    );
    assert_eq!(error.exit_code(), ExitCode::Failed);
}

/// A lane's read from a local copy failed once, a disk that was busy: the run ended, with 13. Now the copies are opened anew in place, and
/// a disk that stays so exits with 1, since another start may find it well.
#[test]
fn a_local_copy_that_a_lane_cannot_read_is_opened_anew_and_exits_with_1_in_the_end() {
    let mut driver = driver(sums);
    driver.start().expect("starts");
    pipe(&driver, [record("a", 1)]);
    driver.barrier().expect("an epoch");
    driver.copies().fail(Operation::Read, 1);
    pipe(&driver, [record("a", 2), record("b", 1)]);
    driver.barrier().expect("an epoch");
    assert_eq!(driver.metrics().expect("runs").retries("reopen"), 1);
    driver.copies().fail(Operation::Read, u32::MAX);
    pipe(&driver, [record("a", 3), record("c", 1)]);
    let error = ended_with(driver.barrier());
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    driver.copies().fail(Operation::Read, 0);
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(sorted(&driver.outputs("out")), ["a=1", "a=3", "a=6", "b=1", "c=1"]);
}

/// A disk without room for spilled outputs is no reason to stay down: once there is room, another start goes on where it was.
#[test]
fn outputs_that_cannot_be_spilled_exit_with_1() {
    let (folder, lost): (Arc<OnceLock<PathBuf>>, Arc<AtomicBool>) = Default::default();
    let shared = folder.clone();
    let mut driver = driver(move |broker| {
        let job = Job::new("wide");
        let (folder, lost) = (shared.clone(), lost.clone());
        job.source("items", broker.source("in"), |_| Ok(()))
            .flat_map("many", move |(), out: &mut dyn FnMut(String)| {
                if !lost.swap(true, Ordering::SeqCst) {
                    std::fs::remove_dir(folder.get().expect("set before the start")).expect("empty");
                }
                (0..3000).for_each(|i| out(format!("{i:0>90}")));
            })
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.configure(|c| c.memory_bytes = 1 << 20);
    folder.set(driver.dir().join("state").join("spill")).expect("once");
    driver.start().expect("starts");
    pipe(&driver, [record("k", "")]);
    let error = ended_with(driver.barrier());
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    assert!(
        error.to_string().contains("make room in the state directory"),
        "{error}"
    );
    driver.start().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(driver.outputs("out").len(), 3000);
}

/// The broker was away when a stop came: the run ended half a minute after the time that it gives itself, and a supervisor had killed it by
/// then. It ends in time, with 1, and says how much is replayed.
#[test]
fn a_stop_while_the_broker_is_away_ends_in_time_and_says_what_is_not_committed() {
    let mut driver = driver(sums);
    driver.start().expect("starts");
    pipe(&driver, [record("a", 1)]);
    driver.barrier().expect("an epoch");
    let process = driver.process().expect("runs").clone();
    for k in 1..=100 {
        process.fault(Call::Begin, k, Fault::Fail(LogErrorKind::SessionLost));
        process.fault(Call::Committed, k, Fault::Slow(Duration::from_secs(2)));
    }
    pipe(&driver, [record("a", 2), record("b", 1)]);
    while driver.progress().expect("runs").read() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let clock = driver.clock().clone();
    let before = clock.elapsed();
    let error = ended_with(driver.stop());
    let took = clock.elapsed().saturating_sub(before);
    assert!(matches!(error, RuntimeError::StoppedEarly(_)), "{error:?}");
    assert_eq!(error.exit_code(), ExitCode::Failed);
    assert!(
        error.to_string().contains("2 records that were read are not committed"),
        "{error}"
    );
    assert!(took <= STOP_GRACE + Duration::from_secs(3), "{took:?}");
    driver.start().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(sorted(&driver.outputs("out")), ["a=1", "a=3", "b=1"]);
}
