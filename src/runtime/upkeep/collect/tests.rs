use super::*;
use crate::checkpoint::chain::Chain;
use crate::checkpoint::object::Based;
use crate::checkpoint::pointer::job_hash;
use crate::checkpoint::tests::{History, STORE, epoch, outbox};
use crate::sink::{Committed, LogErrorKind};
use crate::testing::ManualClock;
use crate::types::{Link, Sequence};

const GRACE: Duration = Duration::from_secs(90);

/// Tells what is committed.
struct Pointers(Vec<Committed>);

impl PointerReader for Pointers {
    fn committed(&mut self, _: &[(String, i32)], _: Duration) -> Result<Vec<Committed>, LogError> {
        Ok(self.0.clone())
    }
}

struct Undecided;

impl PointerReader for Undecided {
    fn committed(&mut self, _: &[(String, i32)], _: Duration) -> Result<Vec<Committed>, LogError> {
        Err(LogError {
            kind: LogErrorKind::Retriable,
            context: "committed".into(),
            reason: "undecided".into(),
        })
    }
}

fn partitions() -> Vec<(String, i32)> {
    (0..4).map(|p| ("in".to_owned(), p)).collect()
}

fn pointing(pointer: &Pointer) -> Pointers {
    let committed = |(topic, partition)| Committed {
        topic,
        partition,
        offset: Some(1),
        metadata: Some(pointer.to_string().into_bytes()),
    };
    Pointers(partitions().into_iter().map(committed).collect())
}

fn collector(history: &History, faults: &str) -> Collector {
    Collector {
        store: Arc::new(history.store.clone()),
        layout: history.layout.clone(),
        identity: Identity {
            job: job_hash("orders", "count"),
            store: STORE,
        },
        partitions: partitions(),
        by_partition: None,
        grace: GRACE,
        clock: Arc::new(ManualClock::new(0)),
        metrics: Metrics::new(),
        faults: Faults::parse(&format!("break:none;{faults}")).expect("valid"),
        cancelled: Arc::default(),
        reach: Reach::default(),
        garbage: BTreeSet::new(),
    }
}

/// One epoch more of shard 0.
fn one(history: &mut History, n: Sequence, base: Option<Based>) -> Pointer {
    let value = n.to_string();
    let mut section = history.next(0, n as i64, &[("k", Some(value.as_str()))]);
    section.base = base;
    section.outbox_delivered = section.sequence.saturating_sub(1);
    history.commit(vec![section])
}

/// Ten epochs; a base of the sixth is named from the eighth on.
fn ten() -> (History, Pointer) {
    let mut history = History::new();
    let mut base = None;
    let mut last = None;
    for n in 1..=10 {
        last = Some(one(&mut history, n, base.filter(|_| n >= 8)));
        if n == 6 {
            base = Some(history.base(0, 7));
        }
    }
    (history, last.expect("committed"))
}

/// Everything that a restore from the pointer would read is there and verifies.
fn whole(history: &History, pointer: &Pointer) -> Result<(), String> {
    let chain = Chain::new(&history.store, &history.layout, &history.expected);
    let resolved = chain.resolve(pointer).map_err(|e| e.to_string())?;
    for (shard, state) in resolved.shards {
        let base = state.base.map(|based| based.base);
        let applied = match &base {
            None => None,
            Some(base) => {
                let (store, layout) = (&history.store, &history.layout);
                let manifest = crate::checkpoint::base::manifest_of(store, layout, shard, base);
                let manifest = manifest.map_err(|e| e.to_string())?;
                for piece in &manifest.pieces {
                    let ignored = |_: u64, _: &[u8]| Ok::<(), ()>(());
                    let read = crate::checkpoint::base::read_piece(store, layout, piece, ignored);
                    read.map_err(|e| format!("{e:?}"))?;
                }
                Some(manifest.applied)
            }
        };
        let tail = chain
            .plan(shard, state.link, applied, base.as_ref())
            .map_err(|e| e.to_string())?;
        let replay = chain.replay(&tail, |_: &Link, _| Ok::<(), crate::checkpoint::RestoreError>(()));
        replay.map_err(|e| e.to_string())?;
        chain.undelivered(shard, state.link).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn old(history: &History) {
    history.store.advance(GRACE + Duration::from_secs(1));
}

fn protects(scenario: impl Fn(&str) -> Result<(), String>) {
    scenario("").expect("with the protection");
    let without = scenario("break:EP-9").expect_err("without it, the scenario must fail");
    println!("EP-9 off: {without}");
}

#[test]
fn what_nothing_leads_to_is_removed_after_the_grace_and_two_rounds() {
    let (history, pointer) = ten();
    let mut collector = collector(&history, "");
    let before = history.store.objects().len();
    old(&history);
    // Young again: what was written meanwhile.
    history
        .store
        .put_new(&history.layout.epoch(epoch(99)), &[b"young"])
        .expect("put");
    let first = collector.round(&mut pointing(&pointer)).expect("sweeps");
    assert_eq!(
        (first.removed, first.waiting),
        (0, 6),
        "epochs 2 to 7: the sections that the base is made of"
    );
    let second = collector.round(&mut pointing(&pointer)).expect("sweeps");
    assert_eq!((second.removed, second.waiting), (6, 0));
    assert_eq!(history.store.objects().len(), before - 6 + 1);
    assert_eq!(collector.metrics.collected_objects(), 6);
    whole(&history, &pointer).expect("everything that is needed is there");
    let third = collector.round(&mut pointing(&pointer)).expect("sweeps");
    assert_eq!((third.removed, third.waiting), (0, 0));
}

/// An epoch is durable, its transaction is under way, and a collection begins before it is committed.
#[test]
fn ep_9_an_epoch_in_doubt_is_not_removed() {
    protects(|faults| {
        let (mut history, before) = ten();
        let mut collector = collector(&history, faults);
        old(&history);
        let base = history_base(&history, &before);
        let in_doubt = one(&mut history, 11, Some(base));
        for _ in 0..3 {
            collector.round(&mut pointing(&before)).map_err(|e| e.to_string())?;
        }
        whole(&history, &in_doubt)
    });
}

/// The broker has lost the offset of one partition; an operator will bring it back.
#[test]
fn ep_9_a_round_that_cannot_read_every_pointer_removes_nothing() {
    protects(|faults| {
        let (history, pointer) = ten();
        old(&history);
        let missing: [fn(&mut Committed); 3] = [
            |c| (c.offset, c.metadata) = (None, None),
            |c| c.metadata = Some(b"x".to_vec()),
            |c| {
                let text = String::from_utf8_lossy(c.metadata.as_deref().unwrap_or_default()).replace("k1;", "k1;0");
                c.metadata = Some(text.into_bytes());
            },
        ];
        for lose in missing {
            let mut collector = collector(&history, faults);
            let mut pointers = pointing(&pointer);
            lose(&mut pointers.0[2]);
            for _ in 0..3 {
                // All of them lost is the worst, which the switch shows.
                if !faults.is_empty() {
                    pointers.0.iter_mut().for_each(lose);
                }
                let held = collector.round(&mut pointers);
                if faults.is_empty() {
                    assert!(matches!(held, Err(Held::Unread(_))), "{held:?}");
                    assert!(matches!(collector.round(&mut Undecided), Err(Held::Log(_))));
                    assert_eq!(collector.metrics.collected_objects(), 0);
                }
            }
        }
        whole(&history, &pointer)
    });
}

#[test]
fn ep_9_what_a_pin_keeps_stays_until_it_is_removed() {
    let (mut history, pinned) = ten();
    let pin = pin::put(&history.store, &history.layout, "copy", &[pinned]).expect("pinned");
    let base = history.base(0, 8);
    let pointer = one(&mut history, 11, Some(base));
    old(&history);
    let mut collector = collector(&history, "");
    for _ in 0..3 {
        collector.round(&mut pointing(&pointer)).expect("sweeps");
    }
    whole(&history, &pinned).expect("kept by the pin");
    whole(&history, &pointer).expect("kept by the pointer");
    history.store.delete(&pin).expect("unpinned");
    for _ in 0..2 {
        collector.round(&mut pointing(&pointer)).expect("sweeps");
    }
    assert!(whole(&history, &pinned).is_err());
    whole(&history, &pointer).expect("kept by the pointer");
    history.store.put_new(&pin, &[b"no pin"]).expect("put");
    assert!(matches!(collector.round(&mut pointing(&pointer)), Err(Held::Pin(_))));
}

#[test]
fn ep_9_an_outbox_that_is_not_delivered_stays() {
    let mut history = History::new();
    let mut pointer = one(&mut history, 1, None);
    for n in 2..=6 {
        let mut section = history.next(0, n, &[]);
        section.outbox = outbox(&["x"]);
        section.outbox_delivered = 1;
        section.base = (n >= 6).then(|| history.base(0, 7));
        pointer = history.commit(vec![section]);
    }
    old(&history);
    let mut collector = collector(&history, "");
    for _ in 0..3 {
        collector.round(&mut pointing(&pointer)).expect("sweeps");
    }
    let chain = Chain::new(&history.store, &history.layout, &history.expected);
    let undelivered = chain.undelivered(Shard(0), history.last[&Shard(0)]).expect("there");
    assert_eq!(undelivered.len(), 5);
    whole(&history, &pointer).expect("there");
}

/// Between mark and sweep the collector was stopped, and the world went on.
#[test]
fn ep_9_a_mark_that_is_older_than_a_third_of_the_grace_is_thrown_away() {
    let (history, pointer) = ten();
    let mut collector = collector(&history, "");
    old(&history);
    collector.round(&mut pointing(&pointer)).expect("sweeps");
    let mark = |back: Duration| Mark {
        store_ms: history.store.clock_ms(),
        elapsed: collector.clock.elapsed().saturating_sub(back),
    };
    let aged = |path: ObjectPath| Aged {
        path,
        bytes: 1,
        modified_ms: 0,
    };
    let garbage = [aged(history.layout.epoch(epoch(2)))];
    let by_store = mark(Duration::ZERO);
    history.store.advance(GRACE / 3 + Duration::from_millis(1));
    let held = collector.remove(&by_store, &garbage, Done::default());
    assert!(matches!(held, Err(Held::Stale)), "{held:?}");
    history.store.set_clock(0);
    let held = collector.remove(&by_store, &garbage, Done::default());
    assert!(matches!(held, Err(Held::Stale)), "set back: {held:?}");
    let clock = ManualClock::new(0);
    clock.advance(GRACE);
    collector.clock = Arc::new(clock);
    let by_own = Mark {
        store_ms: history.store.clock_ms(),
        elapsed: GRACE - GRACE / 3 - Duration::from_millis(1),
    };
    let held = collector.remove(&by_own, &garbage, Done::default());
    assert!(matches!(held, Err(Held::Stale)), "{held:?}");
    assert_eq!(collector.metrics.collected_objects(), 0);
    let fresh = Mark {
        elapsed: GRACE,
        ..by_own
    };
    collector.remove(&fresh, &garbage, Done::default()).expect("holds");
    assert_eq!(collector.metrics.collected_objects(), 1);
}

/// The store's clock is set forward by a day, and everything is old at once: an epoch of a moment ago, which is about to be committed, too.
#[test]
fn ep_9_a_clock_that_is_set_forward_makes_no_garbage_of_what_is_being_committed() {
    let (mut history, before) = ten();
    let mut collector = collector(&history, "");
    collector.round(&mut pointing(&before)).expect("sweeps");
    let base = history_base(&history, &before);
    let pointer = one(&mut history, 11, Some(base));
    old(&history);
    collector.round(&mut pointing(&before)).expect("sweeps");
    whole(&history, &pointer).expect("committed by the next round");
    collector.round(&mut pointing(&pointer)).expect("sweeps");
    whole(&history, &pointer).expect("reached");
}

#[test]
fn a_collector_that_dies_at_any_step_loses_nothing_and_the_next_one_goes_on() {
    let steps = [("collect_marked", 1), ("collect_decided", 1)];
    let removals = (1..=6).map(|k| ("collect_removed", k));
    for (point, k) in steps.into_iter().chain(removals) {
        for action in ["error", "crash"] {
            let (history, pointer) = ten();
            old(&history);
            let mut first = collector(&history, "");
            first.round(&mut pointing(&pointer)).expect("remembers");
            first.faults = Faults::parse(&format!("{point}={action}@{k}")).expect("valid");
            let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| first.round(&mut pointing(&pointer))));
            assert!(!matches!(died, Ok(Ok(_))), "{point}@{k} {action}");
            whole(&history, &pointer).unwrap_or_else(|why| panic!("{point}@{k} {action}: {why}"));
            let mut next = collector(&history, "");
            let left: u64 = (0..2)
                .map(|_| next.round(&mut pointing(&pointer)).expect("sweeps").removed)
                .sum();
            let removed = if point == "collect_removed" { k } else { 0 };
            assert_eq!(left, 6 - removed, "{point}@{k} {action}");
            whole(&history, &pointer).unwrap_or_else(|why| panic!("{point}@{k} {action}, after: {why}"));
        }
    }
}

/// A chain of a hundred epochs behind each base, of ten thousand; everything is a second apart, the grace ninety.
#[test]
fn a_store_of_ten_thousand_committed_epochs_stays_bounded() {
    let mut history = History::new();
    let mut collector = collector(&history, "");
    let (mut base, mut most) = (None, 0);
    let mut pointer = None;
    for n in 1..=10_000u64 {
        history.store.advance(Duration::from_secs(1));
        if n % 100 == 0 {
            base = Some(history.base(0, n));
        }
        let last = one(&mut history, n, base);
        if n % 20 == 0 {
            collector.round(&mut pointing(&last)).expect("sweeps");
        }
        most = most.max(history.store.objects().len());
        pointer = Some(last);
    }
    // Genesis, the chain, and what is garbage for less than the grace and two rounds.
    assert!(most <= 1 + 100 + 90 + 60, "{most} objects");
    whole(&history, &pointer.expect("committed")).expect("restores");
    println!("at most {most} objects");
}

#[test]
fn commit_records_but_the_highest_are_removed() {
    let (history, pointer) = ten();
    for n in 0..5 {
        history
            .store
            .put_new(&history.layout.commit(n), &[b"record"])
            .expect("put");
    }
    old(&history);
    let mut collector = collector(&history, "");
    let removed: u64 = (0..2)
        .map(|_| collector.round(&mut pointing(&pointer)).expect("sweeps").removed)
        .sum();
    assert_eq!(removed, 6 + 4);
    let left = history.store.list(&history.layout.commits()).expect("lists");
    assert_eq!(left.len(), 1);
    assert_eq!(history.layout.commit_of(&left[0].0), Some(4));
}

fn history_base(history: &History, pointer: &Pointer) -> Based {
    let chain = Chain::new(&history.store, &history.layout, &history.expected);
    let state = chain.resolve_shard(pointer, Shard(0)).expect("there");
    state.base.expect("named")
}
