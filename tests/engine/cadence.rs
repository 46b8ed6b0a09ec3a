//! When barriers come.
use crate::support::{driver, pipe, record, sums};
use keyfold::testing::{Call, Fault, TestDriver};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
/// In real time: what is to come comes within it.
const PATIENCE: Duration = Duration::from_secs(10);
/// In real time: what is not to come would have come by then, most of the time.
const CALM: Duration = Duration::from_millis(50);

fn running() -> TestDriver {
    let mut driver = driver(sums);
    driver.configure(|c| c.epoch_interval = INTERVAL);
    driver.start().expect("starts");
    driver.barrier().expect("a first epoch");
    driver
}

fn barriers(driver: &TestDriver) -> u64 {
    driver.progress().expect("it runs").barriers()
}

/// Waits until the run has cut so many barriers since `before`; whether it has.
fn come(driver: &TestDriver, before: u64, count: u64, within: Duration) -> bool {
    let end = Instant::now() + within;
    while barriers(driver) < before + count {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Cuts an epoch with a record in it, whose commit takes this long by the clock.
fn epoch_that_takes(driver: &TestDriver, long: Duration) {
    let progress = driver.progress().expect("it runs");
    let (read, end) = (progress.read(), Instant::now() + PATIENCE);
    pipe(driver, [record("a", 1)]);
    while progress.read() == read {
        assert!(Instant::now() < end, "the record is not read");
        std::thread::sleep(Duration::from_millis(1));
    }
    let process = driver.process().expect("it runs");
    process.fault(Call::Commit, 1, Fault::Slow(long));
    let before = barriers(driver);
    driver.clock().advance(INTERVAL);
    assert!(come(driver, before, 1, PATIENCE), "no barrier after an interval");
}

/// It was an interval after the commit: an output waited for the interval and a commit before its own was begun.
#[test]
fn a_barrier_is_due_an_interval_after_the_one_before_it_was_ordered() {
    let driver = running();
    epoch_that_takes(&driver, Duration::from_millis(700));
    let before = barriers(&driver);
    driver.clock().advance(Duration::from_millis(299));
    assert!(!come(&driver, before, 1, CALM), "before the interval was over");
    driver.clock().advance(Duration::from_millis(1));
    assert!(come(&driver, before, 1, PATIENCE), "the interval is over");
}

#[test]
fn after_a_commit_that_takes_longer_there_is_room_and_missed_barriers_are_not_made_up_for() {
    let driver = running();
    epoch_that_takes(&driver, INTERVAL * 5);
    let before = barriers(&driver);
    driver.clock().advance(INTERVAL / 4 - Duration::from_millis(1));
    assert!(!come(&driver, before, 1, CALM), "no room after a long commit");
    driver.clock().advance(Duration::from_millis(1));
    assert!(come(&driver, before, 1, PATIENCE), "the room is used up");
    driver.clock().advance(INTERVAL - Duration::from_millis(1));
    assert!(!come(&driver, before, 2, CALM), "missed barriers were made up for");
    driver.clock().advance(Duration::from_millis(1));
    assert!(come(&driver, before, 2, PATIENCE), "the cadence goes on");
}
