use super::*;
use crate::testing::{store_conformance, store_lists_ages};
use std::fs;
use std::path::Path;

fn path(parts: &[&str]) -> ObjectPath {
    ObjectPath::new(parts).expect("valid")
}

#[test]
fn a_memory_store_conforms() {
    store_conformance(&MemoryStore::new(1));
    store_lists_ages(&MemoryStore::new(1));
}

#[test]
fn a_directory_store_lists_ages_and_leaves_no_empty_folder_of_a_base() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    store_lists_ages(&store);
    let gone = path(&["jobs", "aged", "s", "bases", "b", "2"]);
    store.delete(&gone).expect("there");
    assert!(!dir.path().join("jobs/aged/s/bases/b").exists());
    assert!(dir.path().join("jobs/aged/s/bases").exists());
}

#[test]
fn a_directory_store_conforms_and_leaves_no_unfinished_writes() {
    let dir = tempfile::tempdir().expect("dir");
    store_conformance(&directory(dir.path(), ""));
    let names = walk(dir.path());
    assert!(names.iter().all(|n| !n.contains(".tmp-")), "{names:?}");
}

fn directory(root: &Path, faults: &str) -> DirectoryStore {
    DirectoryStore::open(root, crate::testing::Faults::parse(faults).expect("faults")).expect("open")
}

fn walk(dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).expect("list") {
        let entry = entry.expect("entry");
        if entry.file_type().expect("type").is_dir() {
            out.extend(walk(&entry.path()));
        } else {
            out.push(entry.path().display().to_string());
        }
    }
    out
}

#[test]
fn a_directory_keeps_its_id_and_processes_that_start_at_once_agree_on_it() {
    let dir = tempfile::tempdir().expect("dir");
    let root = dir.path().join("new").join("store");
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| directory(&root, "").id())).collect();
        threads.into_iter().map(|t| t.join().expect("thread")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let text = fs::read_to_string(root.join("store.json")).expect("read");
    assert_eq!(text, format!("{{\"format\":1,\"id\":\"{:016x}\"}}\n", ids[0]));
    let other = tempfile::tempdir().expect("dir");
    assert_ne!(directory(other.path(), "").id(), ids[0]);
}

#[test]
fn a_store_that_has_lost_its_file_gets_no_new_id() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = DirectoryStore::open(dir.path(), crate::testing::Faults::none()).expect("open");
    let object = path(&["jobs", "j", "s", "epochs", "one"]);
    store.put_new(&object, &[b"x"]).expect("put");
    let file = dir.path().join("store.json");
    let text = fs::read(&file).expect("read");
    fs::remove_file(&file).expect("remove");
    let refused = DirectoryStore::open(dir.path(), crate::testing::Faults::none())
        .err()
        .expect("refused");
    assert_eq!(refused.kind(), StoreErrorKind::Fatal);
    assert!(refused.to_string().contains("bring it back"), "{refused}");
    assert!(!file.exists(), "a new id would hide that the old one is lost");
    fs::write(&file, text).expect("write");
    let again = DirectoryStore::open(dir.path(), crate::testing::Faults::none()).expect("open");
    assert_eq!((again.id(), again.get(&object)), (store.id(), Ok(b"x".to_vec())));
}

#[test]
fn a_store_file_of_another_format_or_damaged_is_refused() {
    let dir = tempfile::tempdir().expect("dir");
    for (text, why) in [
        ("{\"format\":2,\"id\":\"0000000000000001\"}", "store format 2"),
        ("{\"format\":1,\"id\":\"1\"}", "store id"),
        ("", "not a store file"),
        ("{\"format\":1}", "not a store file"),
    ] {
        fs::write(dir.path().join("store.json"), text).expect("write");
        let refused = DirectoryStore::open(dir.path(), crate::testing::Faults::none())
            .err()
            .expect("refused");
        assert!(refused.to_string().contains(why), "{refused}");
        assert_eq!(refused.kind(), StoreErrorKind::Fatal);
    }
}

#[test]
fn ep_1_a_put_that_failed_between_its_steps_is_done_by_the_next_try() {
    for point in ["object_staged", "object_renamed"] {
        let dir = tempfile::tempdir().expect("dir");
        let store = directory(dir.path(), &format!("{point}=error"));
        let object = path(&["jobs", "j", "s", "epochs", "one"]);
        let failed = store.put_new(&object, &[b"abc"]).expect_err("told to fail");
        assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
        store.put_new(&object, &[b"abc"]).expect("again");
        assert_eq!(store.get(&object).expect("get"), b"abc");
    }
}

/// B44: writes that failed left their files behind, so that a store grew by each. A hundred of each kind leave nothing but what was asked for.
#[test]
fn a_hundred_writes_that_fail_leave_nothing_behind() {
    let dir = tempfile::tempdir().expect("dir");
    for n in 0..100 {
        for point in ["object_staged", "object_renamed"] {
            let store = directory(dir.path(), &format!("{point}=error"));
            let object = path(&["jobs", "j", "s", "epochs", &format!("{n}")]);
            assert!(store.put_new(&object, &[&[7; 1000]]).is_err());
        }
    }
    let names = walk(dir.path());
    assert_eq!(
        names.len(),
        101,
        "one object each, which the second failure had made, and store.json: {names:?}"
    );
}

#[test]
fn unfinished_writes_foreign_names_and_folders_are_not_listed() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    let folder = path(&["jobs", "j", "s", "epochs"]);
    store
        .put_new(&folder.join("one").expect("valid"), &[b"abc"])
        .expect("put");
    let real = dir.path().join(folder.as_str());
    fs::write(real.join("two.tmp-0123"), b"half").expect("write");
    fs::write(real.join("Upper"), b"x").expect("write");
    fs::create_dir(real.join("folder")).expect("create");
    assert_eq!(store.list(&folder).expect("list").len(), 1);
}

#[test]
fn a_link_in_the_place_of_an_object_is_not_followed() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    let folder = path(&["jobs", "j"]);
    store
        .put_new(&folder.join("one").expect("valid"), &[b"abc"])
        .expect("put");
    let real = dir.path().join(folder.as_str());
    std::os::unix::fs::symlink(real.join("one"), real.join("two")).expect("link");
    let two = folder.join("two").expect("valid");
    assert_eq!(store.get(&two).expect_err("a link").kind(), StoreErrorKind::Fatal);
    assert_eq!(store.size(&two).expect_err("a link").kind(), StoreErrorKind::Fatal);
    assert!(
        store.put_new(&two, &[b"abc"]).is_err(),
        "a link with our bytes behind it is not ours"
    );
    assert_eq!(store.list(&folder).expect("list").len(), 1);
}

/// Row 60: a link was planted in the place of a folder, here of every folder between the root and an object in turn. Objects were written to
/// where it led, and a collection would have removed what lay there.
#[test]
fn row_60_a_link_in_the_place_of_a_folder_is_not_followed() {
    let parts = ["jobs", "j", "s", "epochs"];
    for depth in 1..=parts.len() {
        let dir = tempfile::tempdir().expect("dir");
        let (root, elsewhere) = (dir.path().join("store"), dir.path().join("elsewhere"));
        let store = directory(&root, "");
        let folder = path(&parts);
        let one = folder.join("one").expect("valid");
        store.put_new(&one, &[b"abc"]).expect("put");
        let place = parts[..depth].iter().fold(root.clone(), |at, part| at.join(part));
        fs::rename(&place, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &place).expect("link");
        let two = folder.join("two").expect("valid");
        let told = [
            store.get(&one).map(drop),
            store.get_range(&one, 0, 1).map(drop),
            store.size(&one).map(drop),
            store.put_new(&two, &[b"abc"]),
            directory(&root, "").put_new(&two, &[b"abc"]),
            store.delete(&one),
            store.list(&folder).map(drop),
            store.list_aged(&folder, None, 10).map(drop),
        ];
        for (n, told) in told.into_iter().enumerate() {
            let error = told.expect_err("a link");
            assert_eq!(
                error.kind(),
                StoreErrorKind::Fatal,
                "call {n} at depth {depth}: {error}"
            );
            assert!(error.to_string().contains("is a link"), "{error}");
        }
        assert_eq!(walk(&elsewhere).len(), 1, "nothing was written or removed there");
    }
}

/// B44, of processes that were killed: what they had staged stayed for ever. A listing of a collection removes what is a day older than the newest
/// object beside it, and nothing else.
#[test]
fn what_a_killed_process_has_staged_is_removed_after_a_day() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    let folder = path(&["jobs", "j", "s", "epochs"]);
    let one = folder.join("one").expect("valid");
    store.put_new(&one, &[b"abc"]).expect("put");
    let real = dir.path().join(folder.as_str());
    let staged = |name: &str, hours: u64| {
        let file = fs::File::create(real.join(name)).expect("made");
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(hours * 3600);
        file.set_modified(then).expect("set");
    };
    staged("two.tmp-0000000000000001", 30);
    staged("two.tmp-0000000000000002", 20);
    staged("Foreign", 30);
    let listed = store.list_aged(&folder, None, 10).expect("lists");
    assert_eq!(listed.iter().map(|aged| aged.path.clone()).collect::<Vec<_>>(), [one]);
    let mut left: Vec<_> = fs::read_dir(&real)
        .expect("lists")
        .map(|e| e.expect("entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["Foreign", "one", "two.tmp-0000000000000002"]);
}

#[test]
fn a_folder_that_was_removed_is_made_again_by_the_next_try() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    let folder = path(&["jobs", "j"]);
    store
        .put_new(&folder.join("one").expect("valid"), &[b"abc"])
        .expect("put");
    fs::remove_dir_all(dir.path().join("jobs")).expect("remove");
    let two = folder.join("two").expect("valid");
    assert_eq!(
        store.put_new(&two, &[b"abc"]).expect_err("gone").kind(),
        StoreErrorKind::Retriable
    );
    store.put_new(&two, &[b"abc"]).expect("again");
}

/// The store was unmounted under a running job. A restore ended with exit 13 and the advice to bring a single object back, a start took the
/// empty place for a store without objects, and epochs were written below the mount point, where nobody finds them again.
#[test]
fn a_store_that_is_away_as_a_whole_is_waited_for_and_nothing_is_written_in_its_place() {
    let dir = tempfile::tempdir().expect("dir");
    let (root, away) = (dir.path().join("store"), dir.path().join("away"));
    let store = directory(&root, "");
    let one = path(&["jobs", "j"]).join("one").expect("valid");
    let two = path(&["jobs", "j"]).join("two").expect("valid");
    store.put_new(&one, &[b"abc"]).expect("put");
    fs::rename(&root, &away).expect("moved away");
    for mount_point in [false, true] {
        if mount_point {
            fs::create_dir(&root).expect("an empty directory");
        }
        let told = [
            store.get(&one).map(drop),
            store.get_range(&one, 0, 1).map(drop),
            store.size(&one).map(drop),
            store.list(&path(&["jobs", "j"])).map(drop),
            store.put_new(&two, &[b"abc"]),
            // The one before has forgotten which directories there are.
            store.put_new(&two, &[b"abc"]),
        ];
        for result in told {
            let error = result.expect_err("away");
            assert_eq!(error.kind(), StoreErrorKind::Retriable, "{error}");
        }
        let told = store.get(&one).expect_err("away").to_string();
        assert!(
            told.starts_with(&format!("{}: the store is away", root.display())),
            "{told}"
        );
    }
    assert_eq!(
        fs::read_dir(&root).expect("the mount point").count(),
        0,
        "nothing is left there"
    );
    fs::remove_dir(&root).expect("empty");
    fs::rename(&away, &root).expect("mounted again");
    store.put_new(&two, &[b"abc"]).expect("again");
    assert_eq!(store.get(&one).expect("there"), b"abc");
    let lost = store.get(&path(&["jobs", "j"]).join("three").expect("valid"));
    assert_eq!(lost.expect_err("never there").kind(), StoreErrorKind::NotFound);
}

#[test]
fn the_way_around_a_filesystem_without_exclusive_rename_does_not_replace_either() {
    let dir = tempfile::tempdir().expect("dir");
    let file = |name: &str| dir.path().join(name);
    fs::write(file("a"), b"a").expect("write");
    fs::write(file("b"), b"b").expect("write");
    for rename in [sys::rename_new, sys::link_new] {
        let refused = rename(&file("a"), &file("b")).expect_err("taken");
        assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    }
    assert_eq!(fs::read(file("b")).expect("read"), b"b");
    sys::link_new(&file("a"), &file("c")).expect("link");
    assert!(!file("a").exists() && file("c").exists());
}

#[test]
fn names_that_could_leave_their_place_are_refused() {
    for name in [
        "",
        ".",
        "..",
        ".a",
        "a/b",
        "a\\b",
        "A",
        "a b",
        "a\0",
        "%2e",
        "a.tmp-1",
        &"x".repeat(65),
        "\u{e9}",
    ] {
        assert!(ObjectPath::new(&["jobs", name]).is_err(), "{name:?}");
        assert!(
            Layout::new(name, "s").is_err() && Layout::new("j", name).is_err(),
            "{name:?}"
        );
        assert!(path(&["jobs"]).join(name).is_err(), "{name:?}");
    }
    assert!(ObjectPath::new(&[]).is_err());
    let layout = Layout::new("a-b_c.d", "0").expect("valid");
    assert_eq!(layout.commit(7).as_str(), "jobs/a-b_c.d/0/commit/00000000000000000007");
    assert_eq!(layout.commit_of(&layout.commit(u64::MAX)), Some(u64::MAX));
    assert_eq!(layout.commit_of(&layout.commits().join("7").expect("valid")), None);
}

#[test]
fn a_memory_store_fails_forgets_and_damages_when_told_to() {
    let store = MemoryStore::new(1);
    let object = path(&["a", "b"]);
    store.fail_next_puts(2, StoreErrorKind::Retriable);
    for _ in 0..2 {
        assert_eq!(
            store.put_new(&object, &[b"x"]).expect_err("told").kind(),
            StoreErrorKind::Retriable
        );
        assert!(store.get(&object).is_err());
    }
    store.lose_next_acknowledgements(1);
    assert!(store.put_new(&object, &[b"xyz"]).is_err());
    assert_eq!(store.get(&object).expect("there"), b"xyz");
    store.put_new(&object, &[b"xyz"]).expect("ours");
    assert!(store.flip(&object, 0) && store.truncate(&object, 1));
    assert_eq!(store.get(&object).expect("there"), b"y");
    assert_eq!(store.puts(), 4);
}

/// Row 25, of several processes: one that was started while the mount was away made a store in its place, and the others took it for theirs.
#[test]
fn row_25_another_store_in_the_place_of_one_that_is_away_is_not_it() {
    let dir = tempfile::tempdir().expect("dir");
    let (root, aside) = (dir.path().join("store"), dir.path().join("aside"));
    let store = directory(&root, "");
    let object = path(&["jobs", "j", "s", "epochs", "one"]);
    store.put_new(&object, &[b"abc"]).expect("put");
    fs::rename(&root, &aside).expect("away");
    let other = directory(&root, "");
    assert_ne!(other.id(), store.id());
    // With the same folders in it, so that a write would go through.
    other
        .put_new(&path(&["jobs", "j", "s", "epochs", "its"]), &[b"x"])
        .expect("put");
    let folder = path(&["jobs", "j", "s", "epochs"]);
    let waits = |e: Option<StoreError>| e.is_some_and(|e| e.kind() == StoreErrorKind::Retriable);
    assert!(waits(store.get(&object).err()));
    assert!(waits(store.list(&folder).err()));
    let second = folder.join("two").expect("valid");
    assert!(waits(store.put_new(&second, &[b"x"]).err()));
    fs::remove_dir_all(&root).expect("removed");
    fs::rename(&aside, &root).expect("back");
    assert_eq!(store.get(&object).expect("get"), b"abc");
}

/// A directory that somebody made read-only under a running job ended it with exit code 13, though nothing was lost by waiting.
#[test]
fn row_26_a_directory_that_may_not_be_written_for_now_may_be_later() {
    let dir = tempfile::tempdir().expect("dir");
    let store = directory(dir.path(), "");
    let object = path(&["jobs", "j", "s", "epochs", "one"]);
    // Root may write everywhere, but not below a file.
    fs::write(dir.path().join("jobs"), "in the way").expect("write");
    assert_eq!(
        store.put_new(&object, &[b"x"]).expect_err("no directory").kind(),
        StoreErrorKind::Fatal
    );
    fs::remove_file(dir.path().join("jobs")).expect("remove");
    for errno in [libc::EACCES, libc::EROFS, libc::EIO, libc::ENOSPC, libc::EDQUOT] {
        let e = std::io::Error::from_raw_os_error(errno);
        let running = super::directory::classify(dir.path(), "write", &e);
        assert_eq!(running.kind(), StoreErrorKind::Retriable, "{running}");
        let starting = super::directory::classify_start(dir.path(), "write", &e).kind();
        let settings = matches!(errno, libc::EACCES | libc::EROFS);
        assert_eq!(starting == StoreErrorKind::Fatal, settings, "{e}");
    }
}
