//! A crash at every fail point, and local copies that are lost, damaged, behind, ahead or somebody else's.
use crate::support::{Bench, Outcome, SUMS, assert_cannot_go_on};
use keyfold::checkpoint::pointer::Pointer;
use keyfold::checkpoint::store::{Layout, ObjectPath, Store};
use keyfold::config::Config;
use keyfold::runtime::Runtime;
use keyfold::state::{Backend, BackendFactory, ImageKind, Rebuild, StateError};
use keyfold::testing::Process;
use keyfold::testing::faults::POINTS;
use keyfold::types::Shard;
use std::sync::Arc;

/// Whether a process passes the point while it starts, and not in an epoch.
fn belongs_to_start(point: &str) -> bool {
    matches!(point, "post_init" | "mid_restore" | "pre_genesis_commit")
}

fn bench(disk: bool) -> Bench {
    let mut bench = Bench::new("");
    if disk {
        bench.driver.use_disk();
    }
    bench
}

fn crash_in_an_epoch(point: &str, disk: bool) -> Outcome {
    let mut bench = bench(disk);
    bench.start()?;
    bench.epoch(1)?;
    bench.epoch(2)?;
    bench.driver.crash_at(point).map_err(|e| e.to_string())?;
    bench.add(3);
    bench.barrier_crashes()?;
    bench.add(4);
    bench.restart()?;
    bench.epoch(5)?;
    bench.judge()?;
    // Once more, onto an empty disk.
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start()?;
    bench.epoch(6)?;
    bench.judge()
}

fn crash_in_a_start(point: &str, disk: bool) -> Outcome {
    let mut bench = bench(disk);
    if point != "pre_genesis_commit" {
        bench.start()?;
        bench.epoch(1)?;
        bench.epoch(2)?;
        bench.driver.stop().map_err(|e| e.to_string())?;
        bench.driver.lose_copies();
    }
    bench.driver.with_faults(&format!("{point}=crash"));
    if bench.start().is_ok() {
        return Err("the start should have crashed".into());
    }
    bench.driver.with_faults("");
    bench.restart()?;
    bench.epoch(3)?;
    bench.judge()
}

fn crash_everywhere(disk: bool) {
    for point in POINTS {
        // Fail points of the directory store.
        if !disk && point.starts_with("object_") && point != "object_built" {
            continue;
        }
        let outcome = match belongs_to_start(point) {
            true => crash_in_a_start(point, disk),
            false => crash_in_an_epoch(point, disk),
        };
        outcome.unwrap_or_else(|why| panic!("{point}, on disk: {disk}: {why}"));
    }
}

/// Rows 1, 2, 4 to 6, 9 and 11 of the fault matrix, inside one process.
#[test]
fn a_crash_at_any_point_loses_nothing_and_doubles_nothing_in_memory() {
    crash_everywhere(false);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_crash_at_any_point_loses_nothing_and_doubles_nothing_on_disk() {
    crash_everywhere(true);
}

/// A step that fails once is tried again, or ends the run; the next one goes on.
#[test]
fn an_error_at_any_point_loses_nothing_and_doubles_nothing() {
    for point in POINTS.into_iter().filter(|p| !belongs_to_start(p)) {
        let scenario = || -> Outcome {
            let mut bench = bench(cfg!(feature = "rocksdb"));
            bench.driver.with_faults(&format!("{point}=error@3"));
            bench.start()?;
            for value in 1..6 {
                if bench.epoch(value).is_err() {
                    bench.driver.with_faults("");
                    bench.restart()?;
                    bench.barrier()?;
                }
            }
            bench.judge()
        };
        scenario().unwrap_or_else(|why| panic!("{point}: {why}"));
    }
}

#[test]
fn a_lost_disk_is_restored_from_the_whole_chain() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    (1..20).for_each(|v| bench.epoch(v).expect("an epoch"));
    bench.driver.stop().expect("ends");
    bench.driver.lose_copies();
    bench.start().expect("starts");
    assert!(bench.driver.progress().expect("runs").replayed_sections() >= 19 * 4);
    bench.epoch(20).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[test]
fn a_clean_start_replays_nothing_and_a_crash_the_tail() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    bench.start().expect("starts");
    assert_eq!(bench.driver.progress().expect("runs").replayed_sections(), 0);
    bench.epoch(2).expect("an epoch");
    bench.restart().expect("starts");
    assert_eq!(bench.driver.progress().expect("runs").replayed_sections(), 4);
    bench.epoch(3).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[test]
fn a_damaged_local_copy_is_thrown_away() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    bench.driver.copies().damage(Shard(2));
    bench.start().expect("starts");
    bench.epoch(2).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_damaged_rocksdb_is_thrown_away() {
    let mut bench = bench(true);
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    let mut damaged = 0;
    for job in std::fs::read_dir(bench.driver.dir().join("state"))
        .expect("a directory")
        .flatten()
    {
        let current = job.path().join("shard-1").join("CURRENT");
        if current.exists() {
            std::fs::write(current, "garbage\n").expect("written");
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    bench.start().expect("starts");
    bench.epoch(2).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// The sections of an epoch share its object, so the copies of two shards named the same section: swapped (a backup that was unpacked in the
/// wrong place, directories that were renamed), they were taken for each other's, and totals that were wrong were committed without a word.
fn copies_that_lie_in_each_others_places(disk: bool) -> Outcome {
    let mut bench = bench(disk);
    bench.start()?;
    (1..4).try_for_each(|v| bench.epoch(v))?;
    bench.driver.stop().map_err(|e| e.to_string())?;
    if disk {
        let job = the_jobs_directory(&bench);
        let at = |name: &str| job.join(name);
        // Two that changed places, and one that stands for another, too.
        for (from, to) in [("shard-1", "x"), ("shard-2", "shard-1"), ("x", "shard-2")] {
            std::fs::rename(at(from), at(to)).map_err(|e| e.to_string())?;
        }
        std::fs::remove_dir_all(at("shard-3")).map_err(|e| e.to_string())?;
        std::fs::create_dir(at("shard-3")).map_err(|e| e.to_string())?;
        for file in std::fs::read_dir(at("shard-0")).map_err(|e| e.to_string())?.flatten() {
            std::fs::copy(file.path(), at("shard-3").join(file.file_name())).map_err(|e| e.to_string())?;
        }
    } else {
        bench.driver.copies().swap(Shard(1), Shard(2));
    }
    bench.start()?;
    let replayed = bench.driver.progress().map_err(|e| e.to_string())?.replayed_sections();
    bench.epoch(4)?;
    bench.judge()?;
    // Genesis and three epochs of each copy that was thrown away.
    let expected = if disk { 12 } else { 8 };
    if replayed != expected {
        return Err(format!("{replayed} sections were replayed, not {expected}"));
    }
    // What was restored is what the next start finds, and it is the right one.
    bench.driver.stop().map_err(|e| e.to_string())?;
    bench.start()?;
    bench.epoch(5)?;
    bench.judge()
}

#[test]
fn ep_4_a_local_copy_of_another_shard_is_thrown_away() {
    copies_that_lie_in_each_others_places(false).expect("restored from the store");
}

#[cfg(feature = "rocksdb")]
#[test]
fn ep_4_a_local_copy_of_another_shard_is_thrown_away_on_disk() {
    copies_that_lie_in_each_others_places(true).expect("restored from the store");
}

/// Where the only job's local copies lie.
fn the_jobs_directory(bench: &Bench) -> std::path::PathBuf {
    let state = std::fs::read_dir(bench.driver.dir().join("state")).expect("a directory");
    let mut jobs = state
        .flatten()
        .map(|job| job.path())
        .filter(|job| job.join("shard-1").exists());
    jobs.next().expect("the job's directory")
}

/// The copy holds sections that nobody committed here: of another machine's history, or of one that was taken back.
#[test]
fn a_local_copy_that_is_not_on_the_committed_chain_is_thrown_away() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    let then = bench.driver.broker().offsets(SUMS);
    bench.epoch(2).expect("an epoch");
    bench.driver.stop().expect("ends");
    for c in &then {
        let offset = c.offset.expect("committed");
        bench
            .driver
            .broker()
            .set_offset(SUMS, "in", c.partition, offset, c.metadata.as_deref());
    }
    bench.driver.start().expect("starts");
    bench.driver.outputs("out");
    bench.barrier().expect("an epoch");
    let again = bench.driver.outputs("out");
    let sums = crate::support::sorted(&again);
    assert_eq!((again.len(), sums[0].as_str()), (12, "key-0=3"), "{sums:?}");
}

fn pointed(bench: &Bench) -> (ObjectPath, Pointer) {
    let committed = bench.driver.broker().offsets(SUMS);
    let pointer = Pointer::parse(committed[0].metadata.as_deref().expect("a pointer")).expect("ours");
    let layout = Layout::new("sums", "orders").expect("valid");
    (layout.epoch(pointer.epoch), pointer)
}

/// Rows 27 to 29: what the committed state needs is verified before the first record, and named.
#[test]
fn a_missing_or_damaged_object_stops_the_job_and_is_named() {
    for lost in [false, true] {
        let mut bench = Bench::new("");
        bench.start().expect("starts");
        (1..4).for_each(|v| bench.epoch(v).expect("an epoch"));
        let (inner, _) = pointed(&bench);
        bench.epoch(4).expect("an epoch");
        bench.driver.stop().expect("ends");
        bench.driver.lose_copies();
        let (last, _) = pointed(&bench);
        for path in [&inner, &last] {
            let good = bench.driver.store().get(path).expect("there");
            if !lost {
                assert!(bench.driver.store().flip(path, good.len() * 4));
            } else {
                bench.driver.store().delete(path).expect("there");
            }
            assert_cannot_go_on(bench.driver.start(), &[path.name()]);
            if !lost {
                bench.driver.store().delete(path).expect("there");
            }
            bench.driver.store().put_new(path, &[&good]).expect("brought back");
        }
        bench.start().expect("starts with everything back");
        bench.epoch(5).expect("an epoch");
        bench.judge().expect("exactly once");
    }
}

/// Rows 28 and 29: an object is gone for good. The message says how to begin again without it, and that works: with empty state, at the start
/// positions, and above every sequence of the former life.
#[test]
fn row_29_a_job_that_has_lost_an_object_for_good_begins_again_when_it_is_told_to() {
    for lost in [false, true] {
        let mut bench = Bench::new("");
        bench.start().expect("starts");
        (1..4).for_each(|v| bench.epoch(v).expect("an epoch"));
        bench.driver.stop().expect("ends");
        bench.driver.lose_copies();
        let (last, _) = pointed(&bench);
        match lost {
            true => bench.driver.store().delete(&last).expect("there"),
            false => assert!(bench.driver.store().truncate(&last, 10)),
        }
        let way_out = ["delete the offsets of the whole group", "accept_lost_pointers"];
        assert_cannot_go_on(bench.driver.start(), &[&[last.name()], &way_out[..]].concat());
        bench.driver.configure(|c| c.accept_lost_pointers = true);
        assert_cannot_go_on(bench.driver.start(), &[last.name()]);
        bench.driver.broker().lose_offsets(SUMS);
        let written = bench.driver.broker().records("out").len();
        bench.start().expect("begins again");
        bench.barrier().expect("an epoch");
        assert_eq!(bench.driver.broker().records("out").len(), 2 * written);
        bench.driver.configure(|c| c.accept_lost_pointers = false);
        bench.restart().expect("goes on");
        bench.epoch(4).expect("an epoch");
    }
}

/// Row 32: the put went through, and its answer was lost.
#[test]
fn a_put_whose_answer_was_lost_is_recognised() {
    use keyfold::checkpoint::store::StoreErrorKind;
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.driver.store().lose_next_acknowledgements(2);
    bench.epoch(1).expect("an epoch");
    bench.driver.store().fail_next_puts(5, StoreErrorKind::Retriable);
    bench.epoch(2).expect("an epoch");
    bench.judge().expect("exactly once");
    assert!(bench.driver.metrics().expect("runs").retries("write") >= 7);
}

/// A store on a broken disk was tried again for ever, while its own error asked for exit 13.
#[test]
fn a_store_that_does_not_mend_by_itself_stops_the_job() {
    use keyfold::checkpoint::store::StoreErrorKind;
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.store().fail_next_puts(1, StoreErrorKind::Fatal);
    bench.add(2);
    assert_cannot_go_on(bench.driver.barrier(), &["told to fail"]);
    bench.restart().expect("starts");
    bench.epoch(3).expect("an epoch");
    bench.judge().expect("exactly once");
}

struct Panics;

impl BackendFactory for Panics {
    fn open(&self, _: Shard) -> Result<Arc<dyn Backend>, StateError> {
        panic!("as told")
    }
    fn is_there(&self, _: Shard) -> bool {
        true
    }
    fn wipe(&self, _: Shard) -> Result<(), StateError> {
        Ok(())
    }
    fn kind(&self) -> ImageKind {
        ImageKind::Rows
    }
    fn rebuild(&self, _: Shard) -> Result<Box<dyn Rebuild>, StateError> {
        panic!("as told")
    }
}

/// Of two restorers that panicked the first was reported, and the thread's scope panicked about the second.
#[test]
fn a_restore_that_panics_on_every_thread_ends_the_run_with_an_error() {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    let (driver, dir) = (&bench.driver, tempfile::tempdir().expect("a directory"));
    let mut config = Config::new(dir.path());
    config.take_over = true;
    let topology = crate::support::sums(driver.broker()).expect("valid");
    let log = driver.broker().log(Process::new());
    let ended = Runtime::single(topology, config, log, Arc::new(driver.store().clone()))
        .with_backends(Box::new(|_| Ok(Arc::new(Panics))))
        .with_clock(Arc::new(driver.clock().clone()))
        .run();
    let error = ended.expect_err("it cannot restore");
    assert_eq!(error.to_string(), "a restore panicked");
}

/// A local copy need not take every epoch. What it has not taken waits in the lanes, so whoever goes on without them must find it in the copy or in
/// the chain.
#[test]
fn copies_that_take_turns_lie_behind_after_a_kill_and_not_after_a_stop() {
    let mut bench = Bench::new("");
    bench.driver.configure(|c| c.at_once_bytes = 0);
    bench.start().expect("starts");
    let replayed = |bench: &Bench| bench.driver.progress().expect("runs").replayed_sections();
    (0..22).for_each(|v| bench.epoch(v).expect("an epoch"));
    bench.driver.stop().expect("stops");
    bench.start().expect("starts");
    assert_eq!(replayed(&bench), 0, "after a stop");
    (22..27).for_each(|v| bench.epoch(v).expect("an epoch"));
    bench.driver.kill();
    bench.start().expect("starts");
    assert!(replayed(&bench) > 0, "after a kill");
    bench.epoch(10).expect("an epoch");
    bench.judge().expect("exactly once");
}
