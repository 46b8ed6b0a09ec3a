//! Collection with the whole engine around it (EP-9).
use crate::support::{Bench, Outcome, assert_protects};
use keyfold::checkpoint::store::{Layout, Store, StoreErrorKind};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(48);

fn bench(faults: &str) -> Bench {
    let mut bench = Bench::new(faults);
    bench.driver.configure(|c| {
        c.chain_objects_max = 4;
        c.grace = GRACE;
        // The clock of a test goes fast, and a pointer that is committed again is no pointer that is lost.
        c.recommit_interval = GRACE * 1_000_000;
    });
    bench
}

/// So many epochs, a second of the store's clock after each.
fn epochs(bench: &mut Bench, count: u64) -> Outcome {
    for n in 0..count {
        bench.epoch(n as i64)?;
        bench.driver.store().advance(Duration::from_secs(1));
    }
    Ok(())
}

/// Hundreds of epochs, bases and rounds: what is there is what is needed or young, and a restore from it is right.
#[test]
fn a_store_stays_bounded_and_everything_that_is_needed_stays() {
    let mut bench = bench("");
    bench.start().expect("starts");
    let mut most = 0;
    for _ in 0..30 {
        epochs(&mut bench, 10).expect("epochs");
        most = most.max(bench.driver.store().objects().len());
    }
    let metrics = bench.driver.metrics().expect("runs");
    assert!(metrics.collections("swept") > 10 && metrics.collected_objects() > 100);
    // Three hundred epochs and dozens of bases of each shard were written.
    assert!(most < 300, "{most} objects at a time");
    bench.judge().expect("exactly once");
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    assert!(bench.driver.metrics().expect("runs").fetched_bytes() > 0);
    bench.epoch(1).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// An epoch is durable, and its process stands still for longer than the grace before it is published: a collector elsewhere has removed it
/// meanwhile, rightly.
#[test]
fn ep_9_an_epoch_that_waited_for_too_long_is_written_again_before_it_is_published() {
    assert_protects("EP-9", |faults| {
        let dir = tempfile::tempdir().expect("a directory");
        let go = dir.path().join("go");
        let mut bench = bench(&format!("{faults};post_manifest=wait:{}@3", go.display()));
        bench.start()?;
        epochs(&mut bench, 2)?;
        let layout = Layout::new("sums", "orders").expect("valid");
        let listed = |bench: &Bench| bench.driver.store().list(&layout.epochs()).expect("lists");
        let before = listed(&bench);
        bench.add(7);
        let begin = Instant::now();
        let fresh = loop {
            bench.driver.clock().advance(Duration::from_secs(1));
            let fresh = listed(&bench).into_iter().find(|o| !before.contains(o));
            if let Some((path, _)) = fresh {
                break path;
            }
            if begin.elapsed() > Duration::from_secs(60) {
                std::fs::write(&go, "").expect("written");
                return Err("it is gone while it is in doubt".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        bench.driver.clock().advance(GRACE * 2);
        bench.driver.store().advance(GRACE * 2);
        // Gone already without the protection.
        let _ = bench.driver.store().delete(&fresh);
        std::fs::write(&go, "").expect("written");
        bench.barrier()?;
        if bench.driver.metrics().expect("runs").rewritten_count() != 1 {
            return Err("it was published as it was".into());
        }
        bench.judge()?;
        bench.driver.kill();
        bench.driver.lose_copies();
        bench.start()?;
        bench.epoch(8)?;
        bench.judge()
    });
}

/// A base is made and named by the next epoch, whose object cannot be written for longer than the grace: the store is away for this instance
/// alone, and another one has collected the base meanwhile, rightly.
#[test]
fn ep_9_an_epoch_that_could_not_be_written_for_long_names_no_base_from_before() {
    assert_protects("EP-9", |faults| {
        let mut bench = bench(faults);
        bench.start()?;
        let layout = Layout::new("sums", "orders").expect("valid");
        let writes = |bench: &Bench| bench.driver.metrics().map_or(0, |m| m.retries("write"));
        // Whether a base waits to be named when the store goes away is a matter of threads: until it was so.
        for _ in 0..20 {
            epochs(&mut bench, 6)?;
            std::thread::sleep(Duration::from_millis(100));
            bench.driver.store().fail_next_puts(u32::MAX, StoreErrorKind::Retriable);
            let (tried, begin) = (writes(&bench), Instant::now());
            bench.add(7);
            while writes(&bench) == tried {
                bench.driver.clock().advance(Duration::from_secs(1));
                std::thread::sleep(Duration::from_millis(1));
                if begin.elapsed() > Duration::from_secs(60) {
                    return Err("nothing is written".into());
                }
            }
            bench.driver.clock().advance(GRACE * 2);
            bench.driver.store().advance(GRACE * 2);
            bench.driver.store().fail_next_puts(0, StoreErrorKind::Retriable);
            bench.barrier()?;
            if bench.driver.metrics().expect("runs").rewritten_count() > 0 {
                bench.judge()?;
                assert!(!bench.driver.store().list(&layout.epochs()).expect("lists").is_empty());
                return Ok(());
            }
        }
        Err("an old base was named".into())
    });
}

/// Dies at every step of a round, again and again.
#[test]
fn a_crash_at_any_step_of_a_collection_loses_nothing() {
    for point in ["collect_marked", "collect_decided", "collect_removed"] {
        let scenario = || -> Outcome {
            let mut bench = bench("");
            bench.start()?;
            epochs(&mut bench, 60)?;
            for _ in 0..3 {
                bench.driver.crash_at(point).map_err(|e| e.to_string())?;
                let begin = Instant::now();
                while epochs(&mut bench, 1).is_ok() {
                    if begin.elapsed() > Duration::from_secs(120) {
                        let text = bench.driver.metrics().map(|m| m.text()).unwrap_or_default();
                        let upkeep = text.lines().filter(|l| l.contains("_bases") || l.contains("_coll"));
                        let upkeep: Vec<&str> = upkeep.collect();
                        return Err(format!("the step was not reached: {upkeep:?}"));
                    }
                }
                bench.driver.lose_copies();
                bench.restart()?;
                epochs(&mut bench, 3)?;
                bench.judge()?;
            }
            Ok(())
        };
        scenario().unwrap_or_else(|why| panic!("{point}: {why}"));
    }
}

/// The pointer of one partition is wiped while the job runs: garbage stays until it is back.
#[test]
fn ep_9_a_lost_pointer_stops_collection() {
    let mut bench = bench("");
    // No base: one that waits to be named would commit the pointer again.
    bench.driver.configure(|c| c.chain_objects_max = 1_000_000);
    bench.start().expect("starts");
    epochs(&mut bench, 3).expect("epochs");
    let layout = Layout::new("sums", "orders").expect("valid");
    let orphan = layout.epoch("00000000000000aa-1".parse().expect("an epoch id"));
    bench.driver.store().put_new(&orphan, &[b"orphan"]).expect("put");
    let broker = bench.driver.broker().clone();
    let offsets = broker.offsets(crate::support::SUMS);
    let (position, pointer) = (offsets[2].offset.expect("committed"), offsets[2].metadata.as_deref());
    broker.set_offset(crate::support::SUMS, "in", 2, position, None);
    bench.driver.store().advance(GRACE * 2);
    let rounds = |outcome: &str| bench.driver.metrics().expect("runs").collections(outcome);
    let until = |outcome: &str, more: u64| {
        let (wanted, begin) = (rounds(outcome) + more, Instant::now());
        while rounds(outcome) < wanted {
            bench.driver.clock().advance(Duration::from_secs(1));
            std::thread::sleep(Duration::from_millis(1));
            assert!(begin.elapsed() < Duration::from_secs(120), "rounds {outcome}");
        }
    };
    until("held", 4);
    assert!(bench.driver.store().get(&orphan).is_ok(), "the shard may need anything");
    broker.set_offset(crate::support::SUMS, "in", 2, position, pointer);
    until("swept", 3);
    assert!(bench.driver.store().get(&orphan).is_err(), "it is garbage");
    epochs(&mut bench, 4).expect("epochs");
    bench.judge().expect("exactly once");
}
