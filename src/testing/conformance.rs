//! What every checkpoint store must do: one suite for all of them.
use crate::checkpoint::store::{ObjectPath, Store, StoreError, StoreErrorKind};
use std::ops::ControlFlow;
use std::sync::Barrier;

fn path(parts: &[&str]) -> ObjectPath {
    ObjectPath::new(parts).expect("valid")
}

/// What every store must do. Needs an empty one.
///
/// # Panics
/// With what it does otherwise.
pub fn store_conformance(store: &dyn Store) {
    let folder = path(&["jobs", "j", "s", "epochs"]);
    let object = folder.join("one").expect("valid");
    assert_eq!(store.list(&folder), Ok(Vec::new()));
    assert_eq!(
        store.get(&object).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    assert_eq!(
        store.size(&object).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    assert_eq!(
        store.get_range(&object, 0, 1).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    assert_eq!(
        store.delete(&object).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    assert_eq!(
        in_parts(store, &object, 1).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    assert!(
        store
            .get(&object)
            .expect_err("missing")
            .to_string()
            .contains("jobs/j/s/epochs/one")
    );

    store.put_new(&object, &[b"abc", b"", b"def"]).expect("put");
    assert_eq!(store.get(&object).expect("get"), b"abcdef");
    assert_eq!(store.size(&object), Ok(6));
    assert_eq!(store.get_range(&object, 1, 3).expect("range"), b"bcd");
    assert_eq!(store.get_range(&object, 4, 100).expect("range"), b"ef");
    assert_eq!(store.get_range(&object, 9, 1).expect("range"), b"");
    assert_eq!(in_parts(store, &object, u64::MAX), Ok(b"abcdef".to_vec()));
    assert_eq!(store.list(&folder), Ok(vec![(object.clone(), 6)]));

    store
        .put_new(&object, &[b"ab", b"cdef"])
        .expect("the same bytes are an earlier try of ours");
    for other in [&b"abcdeF"[..], b"abcde", b"abcdefg", b""] {
        assert_eq!(
            store.put_new(&object, &[other]).expect_err("taken").kind(),
            StoreErrorKind::AlreadyExists
        );
    }
    assert_eq!(store.get(&object).expect("get"), b"abcdef", "never overwritten");

    let big = vec![7u8; 300_000];
    let second = folder.join("two").expect("valid");
    store.put_new(&second, &[&big, &big]).expect("put");
    store.put_new(&second, &[&big, &big]).expect("again");
    assert_eq!(in_parts(store, &second, u64::MAX), Ok(big.repeat(2)));
    let some = in_parts(store, &second, 1).expect("reads");
    assert!((1..=600_000).contains(&some.len()), "it ends when it is told to");
    store
        .put_new(&path(&["jobs", "j", "s", "commit", "0"]), &[b"x"])
        .expect("put");
    let listed = store.list(&folder).expect("list");
    assert_eq!(
        listed,
        vec![(object.clone(), 6), (second, 600_000)],
        "only what lies right under it"
    );
    store.delete(&object).expect("delete");
    assert_eq!(store.get(&object).expect_err("gone").kind(), StoreErrorKind::NotFound);
    store
        .put_new(&folder.join("empty").expect("valid"), &[])
        .expect("an empty object");
    let empty = in_parts(store, &folder.join("empty").expect("valid"), 1);
    assert_eq!(empty, Ok(Vec::new()));
    exactly_one_creates(store, &folder);
}

/// What comes in parts, each behind the one before it, until there are so many bytes.
fn in_parts(store: &dyn Store, object: &ObjectPath, enough: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.get_parts(object, &mut |at, part| {
        assert_eq!(at, bytes.len() as u64, "in order");
        assert!(!part.is_empty());
        assert!(at < enough, "it was told to end");
        bytes.extend_from_slice(part);
        match bytes.len() as u64 >= enough {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(bytes)
}

fn exactly_one_creates(store: &dyn Store, folder: &ObjectPath) {
    for round in 0..20 {
        let object = folder.join(&format!("race-{round}")).expect("valid");
        let barrier = Barrier::new(8);
        let run = |i: u8| {
            barrier.wait();
            store.put_new(&object, &[&[i; 1000]]).map(|()| i)
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u8).map(|i| scope.spawn(move || run(i))).collect();
            threads.into_iter().map(|t| t.join().expect("thread")).collect()
        });
        let winners: Vec<u8> = results.iter().flatten().copied().collect();
        assert_eq!(winners.len(), 1, "round {round}");
        assert_eq!(store.get(&object).expect("get"), vec![winners[0]; 1000]);
        let kinds = results.iter().filter_map(|r| r.as_ref().err()).map(StoreError::kind);
        assert!(kinds.into_iter().all(|k| k == StoreErrorKind::AlreadyExists));
    }
}

/// What collection asks of every store: listings in pages, with ages by the store's own clock. Needs a store without objects of the job `aged`.
///
/// # Panics
/// With what it does otherwise.
pub fn store_lists_ages(store: &dyn Store) {
    let folder = path(&["jobs", "aged", "s", "bases"]);
    assert_eq!(store.list_aged(&folder, None, 10), Ok(Vec::new()));
    let missing = folder.join("none").expect("valid");
    assert_eq!(
        store.modified_ms(&missing).expect_err("missing").kind(),
        StoreErrorKind::NotFound
    );
    let names = ["b-1", "b/0", "b/1", "b/manifest", "b0", "c/10", "c/9"];
    let object = |name: &str| {
        let parts: Vec<&str> = ["jobs", "aged", "s", "bases"]
            .into_iter()
            .chain(name.split('/'))
            .collect();
        path(&parts)
    };
    for name in names.iter().rev() {
        store.put_new(&object(name), &[name.as_bytes()]).expect("put");
    }
    store
        .put_new(&path(&["jobs", "aged", "s", "basesx"]), &[b"x"])
        .expect("put");
    for size in [1, 2, 3, 7, 100] {
        let mut found = Vec::new();
        loop {
            let page = store.list_aged(&folder, found.last(), size).expect("a page");
            let end = page.len() < size;
            found.extend(page.into_iter().map(|aged| aged.path));
            if end {
                break;
            }
        }
        let wanted: Vec<ObjectPath> = names.iter().map(|name| object(name)).collect();
        assert_eq!(found, wanted, "in order of the names' bytes, in pages of {size}");
    }
    let all = store.list_aged(&folder, None, 100).expect("lists");
    for aged in &all {
        // The two may come from different headers, one of which tells seconds.
        let alone = store.modified_ms(&aged.path).expect("there");
        assert!((aged.modified_ms - alone).abs() < 1000, "{aged:?}, alone {alone}");
        assert_eq!(Ok(aged.bytes), store.size(&aged.path));
    }
    // A second try to put it does not make it younger, and a later object is not older.
    let times = |name: &str| store.modified_ms(&object(name)).expect("there");
    let before = times("b0");
    store.put_new(&object("b0"), &[b"b0"]).expect("again");
    assert_eq!(times("b0"), before);
    store.put_new(&object("later"), &[b""]).expect("put");
    assert!(times("later") >= times("b-1"));
    for name in ["b/0", "b/1", "b/manifest"] {
        store.delete(&object(name)).expect("there");
    }
    assert_eq!(store.list_aged(&object("b"), None, 10), Ok(Vec::new()));
    store
        .put_new(&object("b/2"), &[b"x"])
        .or_else(|_| store.put_new(&object("b/2"), &[b"x"]))
        .expect("a folder comes back");
}
