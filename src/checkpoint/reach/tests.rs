use super::*;
use crate::checkpoint::object::Section;
use crate::checkpoint::tests::{History, epoch, outbox};

fn reached(history: &History, pointer: &Pointer) -> Result<Vec<String>, ReachError> {
    let mut reach = Reach::default();
    reach.follow((&history.store, &history.layout), pointer, None)?;
    let names = reach.reached().iter().map(|path| {
        let name = path.as_str().strip_prefix("jobs/orders/count/").expect("of the stage");
        name.replace("epochs/0123456789abcdef-", "epoch ")
    });
    Ok(names.collect())
}

/// Eight epochs that change shard 0, the sixth of which names a base of the fourth; the other shards have their first section alone.
fn with_base(change: impl Fn(&mut Section)) -> (History, Pointer) {
    let mut history = History::new();
    let mut base = None;
    let mut last = None;
    for n in 1..=8 {
        if n == 5 {
            base = Some(history.base(0, 7));
        }
        let mut section = history.next(0, n, &[]);
        section.base = base.filter(|_| n >= 6);
        change(&mut section);
        last = Some(history.commit(vec![section]));
    }
    (history, last.expect("committed"))
}

#[test]
fn a_base_ends_the_chain_of_its_shard() {
    let delivered = |section: &mut Section| section.outbox_delivered = section.sequence.saturating_sub(1);
    let (history, pointer) = with_base(delivered);
    // Genesis is epoch 1 and holds the only section of the other shards; the base equals section 4, of epoch 5.
    assert_eq!(
        reached(&history, &pointer).expect("all is there"),
        [
            "bases/0000000000000007/0",
            "bases/0000000000000007/manifest",
            "epoch 1",
            "epoch 6",
            "epoch 7",
            "epoch 8",
            "epoch 9"
        ]
    );
}

#[test]
fn ep_9_an_outbox_that_is_not_delivered_is_reached_behind_the_base_too() {
    let (history, pointer) = with_base(|section| {
        section.outbox = outbox(&["x"]);
        section.outbox_delivered = section.sequence.min(2);
    });
    let found = reached(&history, &pointer).expect("all is there");
    let epochs: Vec<&str> = found.iter().filter_map(|name| name.strip_prefix("epoch ")).collect();
    // Section 2 is that of epoch 3.
    assert_eq!(epochs, ["1", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn what_cannot_be_read_is_an_error_and_what_is_gone_is_told_apart() {
    let (history, pointer) = with_base(|section| section.outbox_delivered = section.sequence - 1);
    let layout = &history.layout;
    for path in [layout.epoch(epoch(7)), layout.base_manifest(BaseId(7))] {
        let good = history.store.get(&path).expect("there");
        assert!(history.store.flip(&path, good.len() * 4));
        // The middle of an epoch's object is its section's, which only its header has to be read for.
        if path == layout.base_manifest(BaseId(7)) {
            let why = reached(&history, &pointer).expect_err("damaged").to_string();
            assert!(why.contains("is damaged") && why.contains(path.as_str()), "{why}");
        }
        history.store.delete(&path).expect("there");
        let why = reached(&history, &pointer).expect_err("gone").to_string();
        assert!(why.contains("does not exist") && why.contains(path.as_str()), "{why}");
        history.store.put_new(&path, &[&good]).expect("back");
    }
    assert!(reached(&history, &pointer).is_ok());
}

#[test]
fn a_second_round_reads_only_what_is_new() {
    let (mut history, pointer) = with_base(|section| section.outbox_delivered = section.sequence - 1);
    let mut reach = Reach::default();
    reach
        .follow((&history.store, &history.layout), &pointer, None)
        .expect("reads");
    let first = reach.reached().clone();
    let mut section = history.next(0, 9, &[]);
    section.base = Some(crate::checkpoint::object::Based {
        chain_bytes: 0,
        ..history_base(&history, &pointer)
    });
    section.outbox_delivered = section.sequence - 1;
    let pointer = history.commit(vec![section]);
    // What was read before is not asked for again.
    history.store.delete(&history.layout.epoch(epoch(7))).expect("there");
    history
        .store
        .delete(&history.layout.base_manifest(BaseId(7)))
        .expect("there");
    reach.begin();
    reach
        .follow((&history.store, &history.layout), &pointer, None)
        .expect("known");
    assert_eq!(reach.reached().len(), first.len() + 1);
}

fn history_base(history: &History, pointer: &Pointer) -> crate::checkpoint::object::Based {
    let path = history.layout.epoch(pointer.epoch);
    let object = ObjectReader::open(&history.store, &path, None).expect("opens");
    let section = object.section(Shard(0)).expect("reads").expect("there");
    section.base.expect("named")
}
