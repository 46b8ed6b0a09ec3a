//! Bases: made beside the commit path, named by a later section, and what an empty disk is restored from (design section 5 and 6).
use crate::support::{Bench, Outcome, assert_cannot_go_on};
use keyfold::checkpoint::object::ObjectReader;
use keyfold::checkpoint::pointer::Pointer;
use keyfold::checkpoint::store::{Layout, ObjectPath, Store};
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::testing::faults::BESIDE;
use keyfold::types::Shard;
use keyfold::types::hash::murmur2;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// A bench whose shards need a base after so many epochs.
fn bench(objects: u64, disk: bool) -> Bench {
    let mut bench = Bench::new("");
    bench.driver.configure(|c| c.chain_objects_max = objects);
    if disk {
        bench.driver.use_disk();
    }
    bench
}

fn committed(bench: &Bench) -> u64 {
    bench.driver.metrics().map_or(0, |m| m.bases("committed"))
}

/// Epochs until so many bases more are committed.
fn until_bases(bench: &mut Bench, more: u64) -> Outcome {
    let (wanted, begin) = (committed(bench) + more, Instant::now());
    while committed(bench) < wanted {
        bench.epoch(1)?;
        std::thread::sleep(Duration::from_millis(1));
        if begin.elapsed() > LONG {
            return Err(format!("{} bases of {wanted}", committed(bench)));
        }
    }
    Ok(())
}

fn bases(bench: &Bench) -> Vec<ObjectPath> {
    let folder = Layout::new("sums", "orders").expect("valid").bases();
    let store = bench.driver.open_store(Default::default()).expect("opens");
    let listed = store.list_aged(&folder, None, 10_000).expect("lists");
    listed.into_iter().map(|aged| aged.path).collect()
}

fn restored_from_bases(disk: bool, turns: bool) {
    let mut bench = bench(4, disk);
    if turns {
        bench.driver.configure(|c| c.at_once_bytes = 0);
    }
    bench.start().expect("starts");
    until_bases(&mut bench, 6).expect("bases");
    (0..3).for_each(|v| bench.epoch(v).expect("an epoch"));
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    let fetched = bench.driver.metrics().expect("runs").fetched_bytes();
    let replayed = bench.driver.progress().expect("runs").replayed_sections();
    assert!(fetched > 0, "nothing was fetched");
    // Four shards; each chain is at most what piles up while the other shards' bases are made.
    assert!(replayed < 4 * 4 * 4, "{replayed} sections were replayed");
    bench.epoch(7).expect("an epoch");
    bench.judge().expect("exactly once");
    // From the local copies: nothing is fetched.
    bench.restart().expect("starts");
    assert_eq!(
        bench.driver.metrics().expect("runs").fetched_bytes(),
        0,
        "local copies first"
    );
    until_bases(&mut bench, 4).expect("bases of a restored copy");
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    bench.epoch(8).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[test]
fn an_empty_disk_is_restored_from_bases_and_the_chains_behind_them_in_memory() {
    restored_from_bases(false, false);
}

/// A copy that takes its turn with every eighth epoch lies further behind than a chain may be long: it is brought up to date for its base.
#[test]
fn copies_that_take_turns_are_up_to_date_for_their_bases() {
    restored_from_bases(false, true);
}

/// Copies that take turns, and keep all that they took when their process is killed.
fn bench_of_turns(objects: u64, faults: &str) -> Bench {
    let mut bench = bench(objects, false);
    *bench.driver.copies_mut() = MemoryFactory::default();
    bench.driver.configure(|c| c.at_once_bytes = 0);
    bench.driver.with_faults(faults);
    bench
}

/// Lets the base that is being made be done, and the driver know of it, while there is no barrier.
fn finish_base(bench: &Bench, go: &std::path::Path) {
    std::fs::write(go, "").expect("written");
    let begin = Instant::now();
    while bases(bench).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < LONG, "no base is made");
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// A base is done while changes of its shard wait for its copy, which has no turn when the base is named and nothing else happens. The copy was noted to
/// hold the section that names it, so nobody would have replayed what it lacked.
#[test]
fn ep_4_a_copy_that_lacks_what_waits_does_not_take_the_section_that_names_its_base() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let mut bench = bench_of_turns(20, &format!("base_imaged=wait:{}", go.display()));
    bench.driver.configure(|c| c.shards = 2);
    bench.start().expect("starts");
    let of_shard_0 = |key: &String| (murmur2(key.as_bytes()) & 0x7fff_ffff).is_multiple_of(4);
    let key = (0..).map(|n| format!("key-{n}")).find(of_shard_0).expect("a key");
    let epoch = |bench: &mut Bench| {
        bench.add_one(&key, 1);
        bench.barrier().expect("an epoch");
    };
    (0..24).for_each(|_| epoch(&mut bench));
    // A round has eight barriers, with the turn of shard 0 at the first. What has changed in the last epoch waits, and does for three barriers more.
    let at = |bench: &Bench| bench.driver.progress().expect("runs").barriers() % 8;
    epoch(&mut bench);
    while !(4..=5).contains(&at(&bench)) {
        epoch(&mut bench);
    }
    finish_base(&bench, &go);
    let begin = Instant::now();
    while committed(&bench) == 0 {
        bench.barrier().expect("nothing but the base's name");
        assert!(begin.elapsed() < LONG, "the base is not named");
    }
    bench.driver.kill();
    bench.start().expect("starts");
    let replayed = bench.driver.progress().expect("runs").replayed_sections();
    bench.epoch(8).expect("an epoch");
    bench.judge().expect("exactly once");
    assert!(replayed > 1, "nothing waited");
}

/// How many sections of each shard lie behind its base.
fn sections_behind_bases(bench: &Bench) -> Vec<u64> {
    let layout = Layout::new("sums", "orders").expect("valid");
    let store = bench.driver.store();
    let committed = bench.driver.broker().offsets(crate::support::SUMS);
    let pointer = Pointer::parse(committed[0].metadata.as_deref().expect("a pointer")).expect("ours");
    let path = layout.epoch(pointer.epoch);
    let last = ObjectReader::open(store, &path, Some(pointer.footer)).expect("opens");
    let of_shard = |shard| {
        let link = last.link(shard).expect("a link");
        let path = layout.epoch(link.epoch);
        let object = ObjectReader::open(store, &path, Some(link.footer)).expect("opens");
        let section = object.section(shard).expect("reads").expect("there");
        section.sequence - section.base.map_or(0, |based| based.base.sequence)
    };
    (0..4).map(Shard).map(of_shard).collect()
}

/// Bases of several shards are due while most of the copies lie behind: each is made of a copy that was brought up to date for it.
#[test]
fn bases_of_several_shards_whose_copies_take_turns_leave_nothing_behind_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let mut bench = bench_of_turns(4, &format!("base_imaged=wait:{}", go.display()));
    bench.start().expect("starts");
    // The base of one shard is being made, and the other three are due.
    (0..8).for_each(|v| bench.epoch(v).expect("an epoch"));
    finish_base(&bench, &go);
    let begin = Instant::now();
    while committed(&bench) < 4 {
        bench.barrier().expect("no records");
        assert!(begin.elapsed() < LONG, "no bases");
    }
    let behind = sections_behind_bases(&bench);
    // The one that names it; the first base was made epochs ago.
    let up_to_date = behind.iter().filter(|sections| **sections == 1).count();
    assert!(up_to_date >= 3, "{behind:?}");
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    bench.epoch(8).expect("an epoch");
    bench.judge().expect("exactly once");
}

#[cfg(feature = "rocksdb")]
#[test]
fn an_empty_disk_is_restored_from_bases_and_the_chains_behind_them_on_disk() {
    restored_from_bases(true, false);
}

/// A bit flips in a table of the local disk before any base has it. The base took it as it was, with a digest of its own, and a day later that was all
/// there was: no restore could be right any more.
#[cfg(feature = "rocksdb")]
#[test]
fn a_bit_that_flips_on_the_local_disk_does_not_become_part_of_a_base() {
    let mut bench = bench(4, true);
    bench.driver.configure(|c| c.shards = 1);
    bench.start().expect("starts");
    (0..20_000).for_each(|key| bench.add_one(&format!("key-{key:06}-of-many"), key));
    bench.barrier().expect("an epoch");
    bench.driver.stop().expect("ends");
    assert_eq!(
        flip_large_tables(&bench.driver.dir().join("state")),
        1,
        "a table to flip"
    );
    bench.start().expect("starts");
    let damaged = |bench: &Bench| {
        let text = bench.driver.metrics().expect("runs").text();
        text.contains("keyfold_restarts_total{reason=\"damaged\"} 1")
    };
    let begin = Instant::now();
    while !damaged(&bench) {
        assert!(
            committed(&bench) == 0 && begin.elapsed() < LONG,
            "a base was made of it"
        );
        bench.epoch(1).expect("an epoch");
        std::thread::sleep(Duration::from_millis(1));
    }
    until_bases(&mut bench, 1).expect("a base of the copy that was restored");
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    assert!(bench.driver.metrics().expect("runs").fetched_bytes() > 0);
    bench.epoch(8).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// In the middle of a block of rows; how many tables of more than a block there were.
#[cfg(feature = "rocksdb")]
fn flip_large_tables(dir: &std::path::Path) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("lists").path();
        if path.is_dir() {
            found += flip_large_tables(&path);
        } else if path.extension().is_some_and(|e| e == "sst") {
            let mut bytes = std::fs::read(&path).expect("reads");
            if bytes.len() > 100_000 {
                let middle = bytes.len() / 3;
                bytes[middle] ^= 4;
                std::fs::write(&path, bytes).expect("writes");
                found += 1;
            }
        }
    }
    found
}

/// Tables that the base in force has already are not written again.
#[cfg(feature = "rocksdb")]
#[test]
fn only_what_the_base_in_force_does_not_have_is_written() {
    let mut bench = bench(4, true);
    bench.driver.configure(|c| c.shards = 1);
    bench.start().expect("starts");
    let keys = 20_000;
    (0..keys).for_each(|key| bench.add_one(&format!("key-{key:06}-of-many"), key));
    bench.barrier().expect("an epoch");
    until_bases(&mut bench, 1).expect("a base");
    let first = bench.driver.metrics().expect("runs").base_bytes();
    until_bases(&mut bench, 1).expect("a second one");
    let second = bench.driver.metrics().expect("runs").base_bytes() - first;
    assert!(first > 100_000 && second * 3 < first, "{first} and then {second} bytes");
    // The digests that the process had in memory are gone, the copies are the same.
    bench.restart().expect("starts");
    until_bases(&mut bench, 1).expect("a third one");
    let third = bench.driver.metrics().expect("runs").base_bytes();
    assert!(third * 3 < first, "{first} and after a restart {third} bytes");
    bench.driver.kill();
    bench.driver.lose_copies();
    bench.start().expect("starts");
    bench.epoch(8).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// Rows 27 to 29 for bases: what the committed state needs is verified, and named.
#[test]
fn a_missing_cut_or_flipped_object_of_a_base_stops_the_job_and_is_named() {
    let mut bench = bench(3, false);
    bench.start().expect("starts");
    until_bases(&mut bench, 4).expect("bases");
    bench.epoch(3).expect("an epoch");
    bench.driver.stop().expect("ends");
    let store = bench.driver.store().clone();
    let mut needed = 0;
    for path in bases(&bench) {
        let good = store.get(&path).expect("there");
        let harms: [(&str, &dyn Fn()); 3] = [
            ("missing", &|| store.delete(&path).expect("there")),
            ("cut", &|| assert!(store.truncate(&path, good.len() - 1))),
            ("flipped", &|| assert!(store.flip(&path, good.len() * 4))),
        ];
        for (what, harm) in harms {
            harm();
            bench.driver.lose_copies();
            match bench.driver.start() {
                // A base that is not in force any more.
                Ok(()) => bench.driver.kill(),
                refused => {
                    println!("{path} {what}");
                    assert_cannot_go_on(refused, &[path.as_str()]);
                    needed += 1;
                }
            }
            // Not there any more is what is wanted.
            let _ = store.delete(&path);
            store.put_new(&path, &[&good]).expect("brought back");
        }
    }
    assert!(
        needed >= 4 * 2 * 3,
        "a manifest and a piece of four shards, three ways: {needed}"
    );
    bench.driver.lose_copies();
    bench.start().expect("starts with everything back");
    bench.epoch(5).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// A damaged local copy is thrown away, and made again from the base although the chain before it is gone.
#[test]
fn a_damaged_copy_is_made_again_from_its_base() {
    let mut bench = bench(3, false);
    bench.start().expect("starts");
    until_bases(&mut bench, 4).expect("bases");
    bench.driver.stop().expect("ends");
    bench.driver.copies().damage(keyfold::types::Shard(1));
    remove_what_is_before_the_bases(&bench);
    bench.start().expect("starts");
    assert!(bench.driver.metrics().expect("runs").fetched_bytes() > 0);
    bench.epoch(5).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// What a collection would remove: epochs that no chain behind a base has.
fn remove_what_is_before_the_bases(bench: &Bench) {
    use keyfold::checkpoint::pointer::Pointer;
    use keyfold::checkpoint::reach::Reach;
    let layout = Layout::new("sums", "orders").expect("valid");
    let committed = bench.driver.broker().offsets(crate::support::SUMS);
    let pointer = Pointer::parse(committed[0].metadata.as_deref().expect("a pointer")).expect("ours");
    let mut reach = Reach::default();
    let store = bench.driver.store();
    reach.follow((store, &layout), &pointer, None).expect("reads");
    for folder in [layout.epochs(), layout.bases()] {
        for aged in store.list_aged(&folder, None, 10_000).expect("lists") {
            if !reach.reached().contains(&aged.path) {
                store.delete(&aged.path).expect("there");
            }
        }
    }
}

/// An instance comes back after another one has made bases: its copies are older than these, and the epochs in between are collected.
#[test]
fn a_copy_that_is_older_than_the_base_is_brought_up_along_the_chain_or_thrown_away() {
    for collected in [false, true] {
        let mut bench = bench(3, false);
        bench.start().expect("starts");
        // The base is larger than the chain before it.
        (0..4000).for_each(|key| bench.add_one(&format!("one-of-many-{key}"), key));
        bench.epoch(2).expect("an epoch");
        bench.driver.stop().expect("ends");
        let mine = std::mem::take(bench.driver.copies_mut());
        bench.start().expect("starts as another machine");
        until_bases(&mut bench, 4).expect("bases");
        bench.driver.stop().expect("ends");
        *bench.driver.copies_mut() = mine;
        if collected {
            remove_what_is_before_the_bases(&bench);
        }
        bench.start().expect("starts as the first one again");
        let fetched = bench.driver.metrics().expect("runs").fetched_bytes();
        assert_eq!(fetched > 0, collected, "from the base only when the way there is gone");
        bench.epoch(3).expect("an epoch");
        bench.judge().expect("exactly once");
    }
}

/// Dies at every step of making a base and of fetching one.
#[test]
fn a_crash_at_any_step_of_a_base_or_of_a_fetch_loses_nothing() {
    for point in BESIDE.iter().filter(|p| !p.starts_with("collect_")) {
        for disk in [false, cfg!(feature = "rocksdb")] {
            let scenario = || -> Outcome {
                let mut bench = bench(3, disk);
                bench.start()?;
                until_bases(&mut bench, 4)?;
                if *point == "mid_fetch" {
                    bench.driver.kill();
                    bench.driver.lose_copies();
                    bench.driver.with_faults(&format!("{point}=crash@3"));
                    if bench.start().is_ok() {
                        return Err("the start should have crashed".into());
                    }
                    bench.driver.with_faults("");
                } else {
                    bench.driver.crash_at(point).map_err(|e| e.to_string())?;
                    let begin = Instant::now();
                    while bench.epoch(1).is_ok() {
                        if begin.elapsed() > LONG {
                            return Err("the step was not reached".into());
                        }
                    }
                }
                bench.restart()?;
                bench.epoch(2)?;
                until_bases(&mut bench, 4)?;
                bench.judge()?;
                bench.driver.kill();
                bench.driver.lose_copies();
                bench.start()?;
                bench.epoch(3)?;
                bench.judge()
            };
            scenario().unwrap_or_else(|why| panic!("{point}, on disk: {disk}: {why}"));
        }
    }
}

/// Bases do not get done, the chain grows to four times what it should be, and no further; then it goes on.
#[test]
fn a_chain_that_is_far_too_long_takes_no_epoch_until_there_is_a_base() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let mut bench = bench(2, false);
    bench.driver.with_faults(&format!("base_imaged=wait:{}", go.display()));
    bench.start().expect("starts");
    let begin = Instant::now();
    let full = |bench: &Bench| bench.driver.metrics().expect("runs").retries("chain") > 0;
    while !full(&bench) {
        bench.add(1);
        bench.driver.clock().advance(Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(3));
        assert!(begin.elapsed() < LONG, "it grows on");
    }
    let epochs = bench.driver.progress().expect("runs").epochs();
    assert!(
        (8..=10).contains(&epochs),
        "two times four and genesis, and not {epochs}"
    );
    bench.add(2);
    bench.driver.clock().advance(Duration::from_secs(5));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(bench.driver.progress().expect("runs").epochs(), epochs);
    std::fs::write(&go, "").expect("written");
    bench.barrier().expect("it goes on");
    until_bases(&mut bench, 4).expect("bases");
    bench.judge().expect("exactly once");
}

/// Told to stop while no epoch is taken, it ended with 0 and without its last epoch.
#[test]
fn a_stop_while_a_chain_is_full_commits_the_last_epoch() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let mut bench = bench(2, false);
    bench.driver.with_faults(&format!("base_imaged=wait:{}", go.display()));
    bench.start().expect("starts");
    let begin = Instant::now();
    while bench.driver.metrics().expect("runs").retries("chain") == 0 {
        bench.add(1);
        bench.driver.clock().advance(Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(3));
        assert!(begin.elapsed() < LONG, "it grows on");
    }
    bench.add(2);
    let begin = Instant::now();
    let left = |bench: &Bench| {
        let progress = bench.driver.progress().expect("runs");
        progress.read() - progress.committed()
    };
    while left(&bench) == 0 {
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < LONG, "nothing was read");
    }
    let answered = bench.driver.broker().records("out").len();
    std::thread::scope(|scope| {
        // The thread that makes the base may be waited for at the end.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            std::fs::write(&go, "").expect("written");
        });
        bench.driver.stop().expect("stops in order");
    });
    assert!(
        bench.driver.broker().records("out").len() > answered,
        "the last epoch was not committed"
    );
    bench.driver.with_faults("");
    bench.start().expect("starts");
    bench.epoch(3).expect("an epoch");
    bench.judge().expect("exactly once");
}

/// A base takes longer than a third of the grace by the store's clock: what it consists of may be garbage to a collector, so it is given up.
#[test]
fn ep_9_a_base_that_takes_too_long_is_given_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let mut bench = bench(2, false);
    bench.driver.with_faults(&format!("base_imaged=wait:{}", go.display()));
    let third = Duration::from_secs(8 * 3600);
    bench.start().expect("starts");
    (0..5).for_each(|v| bench.epoch(v).expect("an epoch"));
    // The thread that makes it has begun long ago by any clock.
    std::thread::sleep(Duration::from_millis(300));
    bench.driver.store().advance(third + Duration::from_secs(1));
    std::fs::write(&go, "").expect("written");
    let given_up = |bench: &Bench| bench.driver.metrics().expect("runs").bases("given_up");
    let begin = Instant::now();
    while given_up(&bench) == 0 {
        bench.driver.clock().advance(Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < LONG && committed(&bench) == 0, "it was named");
    }
    until_bases(&mut bench, 4).expect("the next ones are");
    bench.judge().expect("exactly once");
}
