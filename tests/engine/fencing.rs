//! EP-7 in single mode: a spare waits, a take-over ends the old instance, a time-out is mended once, nobody fights.
use crate::support::{Bench, Outcome, SUMS, assert_protects, ended_with, sums};
use keyfold::config::Guarantee;
use keyfold::runtime::{ExitCode, Phase};
use keyfold::sink::LogErrorKind;
use keyfold::testing::{Call, DriverError, Fault};
use std::time::Duration;

/// A second more than a transaction may take, by the engine's clock and the broker's.
const BEYOND_THE_TIME_OUT: Duration = Duration::from_secs(16);

fn take_over(faults: &str, guarantee: Guarantee) -> Outcome {
    let text = |e: DriverError| e.to_string();
    let mut bench = Bench::new(faults);
    bench.driver.configure(|c| c.guarantee = guarantee);
    bench.start()?;
    bench.epoch(1)?;
    let mut second = bench.driver.another(sums);
    second.configure(|c| c.take_over = true);
    second.start().map_err(text)?;
    bench.add(2);
    // The first one notices when it commits next, and goes; it never takes the name back.
    match bench.driver.barrier() {
        Err(DriverError::Ended(e)) if e.exit_code() == ExitCode::Fenced => {}
        other => return Err(format!("the first one should have gone with exit 12: {other:?}")),
    }
    second.barrier().map_err(text)?;
    second.stop().map_err(text)?;
    match guarantee {
        Guarantee::ExactlyOnce => bench.judge(),
        // The first one may have sent what it could not commit.
        Guarantee::AtLeastOnce => bench.judge_at_least_once(),
    }
}

#[test]
fn ep_7_a_take_over_ends_the_old_instance_with_exit_12() {
    assert_protects("EP-7", |faults| take_over(faults, Guarantee::ExactlyOnce));
}

#[test]
fn ep_7_a_take_over_ends_the_old_instance_under_at_least_once_too() {
    assert_protects("EP-7", |faults| take_over(faults, Guarantee::AtLeastOnce));
}

/// The newcomer committed only after it had restored: until then its predecessor, fenced, found its own last pointer, took the name back,
/// and the newcomer ended with exit 12 although it had been told to take over.
#[test]
fn ep_7_a_take_over_holds_while_the_newcomer_restores() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let mut second = bench.driver.another(sums);
    second.configure(|c| c.take_over = true);
    // Each section that is replayed takes a while.
    second.with_faults("mid_restore=sleep:500");
    second.launch().expect("starts");
    while second.progress().expect("runs").phase() == Phase::Starting {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    bench.add(2);
    let error = ended_with(bench.driver.barrier());
    assert_eq!(error.exit_code(), ExitCode::Fenced, "{error}");
    second.barrier().expect("the newcomer goes on");
    second.stop().expect("ends");
    bench.judge().expect("exactly once");
}

/// The broker's time-out fences a producer although nobody else has its name.
#[test]
fn ep_7_a_time_out_of_the_broker_is_mended_once() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    for value in 1..4 {
        bench.driver.broker().time_out(SUMS);
        bench.epoch(value).expect("an epoch");
    }
    let rebuilds = bench.driver.metrics().expect("runs").session_rebuilds();
    assert_eq!(rebuilds, 3);
    bench.judge().expect("exactly once");
}

/// A broker that was slow timed the same epoch's transaction out twice. The second fence counted as somebody else's: exit 12, and a
/// supervisor that does not start again after that.
#[test]
fn ep_7_time_outs_in_a_row_are_nobodys_take_over() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let process = bench.driver.process().expect("runs").clone();
    (1..=2).for_each(|k| process.fault(Call::Offsets, k, Fault::Slow(BEYOND_THE_TIME_OUT)));
    bench.epoch(2).expect("an epoch");
    assert_eq!(bench.driver.metrics().expect("runs").session_rebuilds(), 2);
    bench.judge().expect("exactly once");
}

/// A time-out was taken for the first of two fences: the first one that was somebody's ended the run, although the pointer was its own.
#[test]
fn ep_7_a_fence_after_a_time_out_is_the_first_one() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let process = bench.driver.process().expect("runs").clone();
    process.fault(Call::Offsets, 1, Fault::Slow(BEYOND_THE_TIME_OUT));
    process.fault(Call::Commit, 1, Fault::Fail(LogErrorKind::Fenced));
    bench.epoch(2).expect("an epoch");
    assert_eq!(bench.driver.metrics().expect("runs").session_rebuilds(), 2);
    process.fault(Call::Offsets, 1, Fault::Slow(BEYOND_THE_TIME_OUT));
    (1..=2).for_each(|k| process.fault(Call::Commit, k, Fault::Fail(LogErrorKind::Fenced)));
    bench.add(3);
    let error = ended_with(bench.driver.barrier());
    assert_eq!(error.exit_code(), ExitCode::Fenced, "two in a row: {error}");
    bench.restart().expect("starts");
    bench.epoch(4).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[test]
fn ep_7_who_is_fenced_twice_without_a_commit_in_between_goes() {
    assert_protects("EP-7", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        let process = bench.driver.process().map_err(|e| e.to_string())?;
        process.fault(Call::Send, 1, Fault::Fail(LogErrorKind::Fenced));
        process.fault(Call::Send, 2, Fault::Fail(LogErrorKind::Fenced));
        bench.add(2);
        match bench.driver.barrier() {
            Err(DriverError::Ended(e)) if e.exit_code() == ExitCode::Fenced => {}
            other => return Err(format!("it should have gone with exit 12: {other:?}")),
        }
        bench.restart()?;
        bench.epoch(3)?;
        bench.judge()
    });
}

/// Row 19: a second process on the same partitions waits until the first one is gone.
#[test]
fn ep_7_a_spare_waits_while_the_pointer_moves_and_starts_when_it_stands_still() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let mut spare = bench.driver.another(sums);
    spare.use_system_clock();
    spare.launch().expect("starts");
    for value in 2..40 {
        bench.epoch(value).expect("the first one goes on");
        assert_ne!(spare.progress().expect("runs").phase(), Phase::Processing);
    }
    bench.driver.kill();
    bench.add(50);
    spare.barrier().expect("the spare goes on");
    assert_eq!(spare.progress().expect("runs").phase(), Phase::Processing);
    spare.stop().expect("ends");
    bench.judge().expect("exactly once");
}

/// Row 54: the same state directory.
#[test]
fn a_second_process_on_a_state_directory_is_refused() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    let held = bench.driver.dir().join("state");
    let error = keyfold::runtime::instance::Instance::lock(&held).expect_err("held");
    assert!(error.to_string().contains("state directory of its own"), "{error}");
}
