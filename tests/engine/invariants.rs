//! EP-1 to EP-6, EP-8 and EP-10: each scenario holds, and does not when the switch takes just this protection away.
use crate::support::{Bench, Outcome, SUMS, assert_protects};
use keyfold::checkpoint::pointer::Pointer;
use keyfold::sink::LogErrorKind;
use keyfold::testing::{Call, Fault, Process};
use std::time::Duration;

#[test]
fn ep_1_a_commit_never_names_an_object_that_is_not_there() {
    assert_protects("EP-1", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        // The commit went through, and the process died at once.
        bench.driver.crash_at("post_commit").map_err(|e| e.to_string())?;
        bench.add(2);
        bench.barrier_crashes()?;
        bench.restart()?;
        bench.epoch(3)?;
        bench.judge()
    });
}

#[test]
fn ep_2_an_epoch_that_was_never_committed_does_not_take_a_later_ones_name() {
    assert_protects("EP-2", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        // An object lies in the store, and no commit names it.
        bench.driver.crash_at("post_manifest").map_err(|e| e.to_string())?;
        bench.add(2);
        bench.barrier_crashes()?;
        bench.add(3);
        bench.restart()?;
        bench.epoch(4)?;
        let commits = bench.driver.broker().commits(SUMS);
        let mut pointers: Vec<_> = commits.iter().map(|c| c.entries[0].pointer.clone()).collect();
        let all = pointers.len();
        pointers.dedup();
        if pointers.len() != all {
            return Err(format!("a pointer was committed twice: {commits:?}"));
        }
        bench.judge()
    });
}

#[test]
fn ep_3_every_epoch_is_built_on_the_committed_one_and_a_restore_misses_none() {
    assert_protects("EP-3", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        bench.add_one("alone", 5);
        bench.barrier()?;
        bench.driver.stop().map_err(|e| e.to_string())?;
        bench.driver.lose_copies();
        bench.start()?;
        bench.epoch(2)?;
        bench.judge()
    });
}

/// Without EP-4 the local copy names a section whose changes it has not got: nobody replays them.
#[cfg(feature = "rocksdb")]
#[test]
fn ep_4_a_local_copy_equals_the_section_that_it_names_whenever_the_process_dies() {
    assert_protects("EP-4", |faults| {
        let mut bench = Bench::new(faults);
        bench.driver.use_disk();
        bench.start()?;
        bench.epoch(1)?;
        bench.driver.crash_at("mid_apply").map_err(|e| e.to_string())?;
        bench.add(2);
        bench.barrier_crashes()?;
        bench.restart()?;
        bench.epoch(3)?;
        bench.judge()
    });
}

fn lost_commit(faults: &str, fault: Fault) -> Outcome {
    let mut bench = Bench::new(faults);
    bench.start()?;
    bench.epoch(1)?;
    let process = bench.driver.process().map_err(|e| e.to_string())?;
    process.fault(Call::Commit, 1, fault);
    bench.epoch(2)?;
    let asked = bench.driver.metrics().map_err(|e| e.to_string())?.in_doubt_count();
    bench.epoch(3)?;
    bench.judge()?;
    if asked == 0 && faults.is_empty() {
        return Err("the outcome was not read back".into());
    }
    Ok(())
}

#[test]
fn ep_5_a_commit_whose_acknowledgement_was_lost_is_adopted_and_not_sent_again() {
    assert_protects("EP-5", |faults| {
        lost_commit(faults, Fault::Lost(LogErrorKind::SessionLost))
    });
}

#[test]
fn ep_5_a_commit_that_failed_without_a_trace_is_published_again() {
    lost_commit("", Fault::Fail(LogErrorKind::SessionLost)).expect("published again");
    lost_commit("", Fault::Lost(LogErrorKind::Retriable)).expect("adopted");
    lost_commit("", Fault::Fail(LogErrorKind::Abortable)).expect("published again");
}

/// The client repeats an EndTxn that was slow, and does not tell. The second one arrives when the next transaction is open and commits
/// its outputs without their offsets: after a crash they are sent once more.
#[test]
fn ep_5_after_a_slow_commit_a_repeated_one_finds_a_newer_session() {
    assert_protects("EP-5", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        let process = bench.driver.process().map_err(|e| e.to_string())?.clone();
        process.fault(Call::Commit, 1, Fault::Slow(Duration::from_millis(500)));
        bench.epoch(2)?;
        let sessions = process.calls(Call::Session);
        bench.driver.broker().repeat_end_late(SUMS);
        bench.driver.crash_at("post_send_offsets").map_err(|e| e.to_string())?;
        bench.add(3);
        bench.barrier_crashes()?;
        if process.calls(Call::Session) != sessions + 1 && faults.is_empty() {
            return Err("no new session before the next transaction".into());
        }
        bench.restart()?;
        bench.epoch(4)?;
        bench.judge()
    });
}

#[test]
fn ep_5_a_session_whose_error_callback_fired_is_opened_anew_before_the_next_transaction() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let process = bench.driver.process().expect("runs").clone();
    let before = process.calls(Call::Session);
    process.make_suspect();
    bench.epoch(2).expect("an epoch");
    bench.epoch(3).expect("an epoch");
    assert_eq!(process.calls(Call::Session), before + 1);
    process.fault(Call::Offsets, 1, Fault::Fail(LogErrorKind::Abortable));
    bench.epoch(4).expect("an epoch");
    assert_eq!(process.calls(Call::Session), before + 2);
    bench.judge().expect("exactly once");
}

#[test]
fn ep_6_lost_offsets_are_no_fresh_start() {
    assert_protects("EP-6", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        bench.driver.stop().map_err(|e| e.to_string())?;
        bench.driver.broker().lose_offsets(SUMS);
        match bench.start() {
            Err(why) if why.contains("in-0, in-1, in-2, in-3") => bench_outputs_once(&bench, 12),
            Err(why) => Err(why),
            Ok(()) => {
                bench.barrier()?;
                bench_outputs_once(&bench, 12)
            }
        }
    });
}

fn bench_outputs_once(bench: &Bench, expected: usize) -> Outcome {
    match bench.driver.broker().records("out").len() {
        n if n == expected => Ok(()),
        n => Err(format!("{n} outputs, expected {expected}")),
    }
}

#[test]
fn ep_6_the_loss_of_offsets_can_be_accepted() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    bench.driver.broker().lose_offsets(SUMS);
    bench.driver.configure(|c| c.accept_lost_pointers = true);
    bench.start().expect("accepted");
    bench.barrier().expect("an epoch");
    bench_outputs_once(&bench, 24).expect("state began anew, and every output came again");
}

#[test]
fn ep_8_an_epoch_never_commits_without_one_of_its_outputs() {
    assert_protects("EP-8", |faults| {
        let mut bench = Bench::new(faults);
        // The sink knows of a larger limit than the topic has: the broker's refusal is the last line.
        bench.driver.broker().set_max_bytes("out", 10);
        bench.driver.rebuild(|broker| {
            broker.set_max_bytes("out", 1000);
            let topology = crate::support::sums(broker);
            broker.set_max_bytes("out", 10);
            topology
        });
        bench.start()?;
        bench.add_one("a", 1);
        bench.barrier()?;
        let before = bench.driver.broker().offsets(SUMS);
        bench
            .driver
            .pipe("in", crate::support::record("a", 123_456_789_012i64))
            .map_err(|e| e.to_string())?;
        match bench.barrier() {
            Err(why) if why.contains("refused") => {}
            other => return Err(format!("it should have been refused: {other:?}")),
        }
        if bench.driver.broker().offsets(SUMS) != before {
            return Err("offsets moved past a record whose output is missing".into());
        }
        bench.judge()
    });
}

#[test]
fn ep_10_shards_in_which_nothing_changed_keep_their_section() {
    assert_protects("EP-10", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        bench.add_one("key-3", 5);
        bench.barrier()?;
        bench.driver.kill();
        bench.driver.lose_copies();
        bench.start()?;
        bench.epoch(2)?;
        bench.judge()
    });
}

#[test]
fn ep_10_an_idle_stage_commits_its_pointer_again_on_a_timer_without_a_new_object() {
    assert_protects("EP-10", |faults| {
        let mut bench = Bench::new(faults);
        bench.start()?;
        bench.epoch(1)?;
        bench.barrier()?;
        let (commits, puts) = (bench.driver.broker().commits(SUMS), bench.driver.store().puts());
        bench.driver.clock().advance(Duration::from_secs(601));
        bench.barrier()?;
        let now = bench.driver.broker().commits(SUMS);
        if now.len() != commits.len() + 1 || now.last() != commits.last() {
            return Err(format!("{} commits, then {}", commits.len(), now.len()));
        }
        if bench.driver.store().puts() != puts {
            return Err("a new object was written".into());
        }
        bench.judge()
    });
}

/// A pointer that is committed again as it is reads as committed whatever became of the commit. With a session that had to be opened anew
/// the recommit was taken for done before it was sent, and after an answer that was lost as well: the offsets grew older.
#[test]
fn ep_10_a_recommit_is_sent_until_it_is_acknowledged() {
    let suspect: fn(&Process) = Process::make_suspect;
    let unanswered: fn(&Process) = |p| p.fault(Call::Commit, 1, Fault::Fail(LogErrorKind::SessionLost));
    for spoil in [suspect, unanswered] {
        let mut bench = Bench::new("");
        bench.start().expect("starts");
        bench.epoch(1).expect("an epoch");
        bench.barrier().expect("nothing to commit");
        let commits = bench.driver.broker().commits(SUMS);
        spoil(bench.driver.process().expect("runs"));
        bench.driver.clock().advance(Duration::from_secs(601));
        bench.barrier().expect("a recommit");
        let now = bench.driver.broker().commits(SUMS);
        assert_eq!((now.len(), now.last()), (commits.len() + 1, commits.last()));
        bench.epoch(2).expect("an epoch");
        bench.judge().expect("exactly once");
    }
}

/// Row 59 of the fault matrix: anybody can write metadata.
#[test]
fn ep_2_crafted_metadata_is_never_used_as_a_name() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    let good = bench.driver.broker().offsets(SUMS);
    let pointer = good[0].metadata.clone().expect("a pointer");
    assert!(Pointer::parse(&pointer).is_ok());
    let mut longer = pointer.clone();
    longer.extend_from_slice(b"/../../x");
    for crafted in [
        &b"../../etc/passwd"[..],
        b"%2e%2e",
        b"\0",
        &[b'a'; 10_000],
        &[0xff, 0xfe],
        &longer,
    ] {
        let offset = good[0].offset.expect("committed");
        bench.driver.broker().set_offset(SUMS, "in", 0, offset, Some(crafted));
        crate::support::assert_cannot_go_on(bench.driver.start(), &["in", "0"]);
    }
}
