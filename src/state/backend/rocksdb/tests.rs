use super::super::tests::{self as conformance, rows, section};
use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Small write buffers, so that memtables fill up and are flushed in the middle of what a test does.
fn factory(dir: &Path, faults: Faults) -> RocksFactory {
    let settings = RocksSettings {
        block_cache_bytes: 1 << 20,
        write_buffer_bytes: 128 << 10,
        open_files_max: -1,
        shards: 1,
    };
    RocksFactory::new(dir, settings, faults)
}

#[test]
fn the_rocksdb_backend_conforms() {
    let dir = tempfile::tempdir().expect("dir");
    conformance::run(&factory(dir.path(), Faults::none()));
    let dirs = [tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir")];
    let next = std::cell::Cell::new(0);
    conformance::a_failed_apply_applied_nothing(&|faults| {
        let dir = &dirs[next.replace(next.get() + 1)];
        factory(dir.path(), faults).open(Shard(0)).expect("open")
    });
}

/// Section `n` writes its number under a key that every section changes and under some that only it and a few others change, and deletes
/// what an earlier one wrote: any mix of two sections differs from each of them.
fn section_changes(n: u64) -> Vec<(String, Option<String>)> {
    let filler = "x".repeat(2000);
    let mut changes = vec![("every".to_owned(), Some(n.to_string()))];
    changes.extend((0..20).map(|i| {
        (
            format!("k{:03}", (n * 7 + i * 13) % 200),
            Some(format!("{n} {filler} {i}")),
        )
    }));
    changes.push((format!("own{n}"), Some(n.to_string())));
    if n > 2 {
        changes.push((format!("own{}", n - 2), None));
    }
    changes.sort();
    changes.dedup_by(|a, b| a.0 == b.0);
    changes
}

fn model(upto: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    model_of(upto, section_changes)
}

fn model_of(upto: u64, changes: fn(u64) -> Vec<(String, Option<String>)>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for (key, value) in (1..=upto).flat_map(changes) {
        match value {
            Some(value) => rows.insert(key.into_bytes(), value.into_bytes()),
            None => rows.remove(key.as_bytes()),
        };
    }
    rows
}

fn apply_section(backend: &dyn Backend, n: u64) -> Result<(), StateError> {
    apply_changes(backend, &section_changes(n), n)
}

fn apply_changes(backend: &dyn Backend, changes: &[(String, Option<String>)], n: u64) -> Result<(), StateError> {
    let mut changes = changes.iter().map(|(key, value)| Change {
        key: key.as_bytes(),
        value: value.as_deref().map(str::as_bytes),
    });
    backend.apply(&mut changes, &section(n))
}

const SECTIONS: u64 = 60;
const CHILD_DIR: &str = "KEYFOLD_TEST_EP_4_DIR";

/// The process that dies: does nothing unless the tests below run it as their child.
#[test]
fn ep_4_child() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let faults = Faults::from_env().expect("valid");
    let backend = factory(Path::new(&dir), faults).open(Shard(0)).expect("open");
    let first = backend
        .applied()
        .expect("applied")
        .map_or(1, |applied| applied.sequence + 1);
    for n in first..=SECTIONS {
        apply_section(&*backend, n).expect("apply");
    }
}

fn die_at(dir: &Path, faults: &str) {
    die_in("ep_4_child", dir, faults);
}

fn die_in(test: &str, dir: &Path, faults: &str) {
    let program = std::env::current_exe().expect("the test binary");
    let test = format!("{}::{test}", module_path!().split_once("::").expect("in a crate").1);
    let done = Command::new(program)
        .args([test.as_str(), "--exact", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env("KEYFOLD_FAULTS", faults)
        .output()
        .expect("runs");
    let killed = std::os::unix::process::ExitStatusExt::signal(&done.status) == Some(libc::SIGKILL);
    assert!(
        killed,
        "{faults}: {:?} {}",
        done.status,
        String::from_utf8_lossy(&done.stdout)
    );
}

#[test]
fn ep_4_after_a_kill_a_copy_equals_exactly_the_section_that_it_names() {
    let mut seen = Vec::new();
    for kill in [
        "pre_apply=kill@9",
        "mid_apply=kill@33",
        "post_apply=kill@34",
        "mid_apply=kill@60",
    ] {
        let dir = tempfile::tempdir().expect("dir");
        die_at(dir.path(), kill);
        let backend = factory(dir.path(), Faults::none())
            .open(Shard(0))
            .expect("opens after a kill");
        let applied = backend.applied().expect("applied");
        let sequence = applied.map_or(0, |applied| applied.sequence);
        assert!(applied.is_none_or(|applied| applied == section(sequence)));
        assert!(
            rows(&*backend).expect("scan") == model(sequence),
            "{kill}: not section {sequence}"
        );
        seen.push(sequence);
        for n in sequence + 1..=SECTIONS {
            apply_section(&*backend, n).expect("the tail is replayed");
        }
        assert!(
            rows(&*backend).expect("scan") == model(SECTIONS),
            "{kill}: after the replay"
        );
    }
    assert!(
        seen.iter().any(|n| *n > 0),
        "memtables were flushed before a kill: {seen:?}"
    );
    assert!(seen[3] < 59, "and some sections were lost: {seen:?}");
}

/// Why EP-4 exists: with the row in a write of its own a kill between the two leaves a copy that names a section whose changes it does not
/// have. The replay starts behind it, so they are lost for good.
#[test]
fn ep_4_broken_on_purpose_a_kill_between_the_two_writes_loses_a_section() {
    let dir = tempfile::tempdir().expect("dir");
    die_at(dir.path(), "break:EP-4;mid_apply=kill@20");
    let backend = factory(dir.path(), Faults::none()).open(Shard(0)).expect("open");
    assert_eq!(backend.applied().expect("applied"), Some(section(20)));
    assert!(
        rows(&*backend).expect("scan") != model(20),
        "the copy is not what it says"
    );
    (21..=SECTIONS).for_each(|n| apply_section(&*backend, n).expect("the tail is replayed"));
    assert!(
        rows(&*backend).expect("scan") != model(SECTIONS),
        "and a replay does not repair it"
    );
}

#[test]
fn ep_4_entries_without_an_applied_row_are_damage() {
    let dir = tempfile::tempdir().expect("dir");
    let shard_dir = dir.path().join("shard-0");
    let db = DB::open(&Shared::new(RocksSettings::of_budget(1 << 20, 1)).options(), &shard_dir).expect("open");
    db.put(b"\0\0\0\x01a\0\x01", b"v").expect("put");
    drop(db);
    let opened = factory(dir.path(), Faults::none()).open(Shard(0));
    assert!(
        matches!(&opened, Err(StateError::Damaged { reason, .. }) if reason.contains("EP-4")),
        "{:?}",
        opened.err()
    );
}

fn files(dir: &Path, ends: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("shard-0")).expect("the shard's directory");
    let mut files: Vec<_> = entries.map(|e| e.expect("entry").path()).collect();
    files.retain(|path| path.to_string_lossy().contains(ends));
    files
}

/// Opens, and reads everything when it opens.
fn read_all(factory: &RocksFactory) -> Result<(), StateError> {
    let backend = factory.open(Shard(0))?;
    rows(&*backend).map(|_| ())
}

fn filled(dir: &Path) -> RocksFactory {
    let factory = factory(dir, Faults::none());
    let backend = factory.open(Shard(0)).expect("open");
    (1..=10).for_each(|n| apply_section(&*backend, n).expect("apply"));
    backend.flush().expect("flush");
    factory
}

/// A restore puts compaction off: until it is told that it is done, and not for ever where a chain is long.
#[test]
fn compaction_waits_until_a_copy_has_caught_up_or_has_too_many_tables() {
    let dir = tempfile::tempdir().expect("dir");
    let factory = factory(dir.path(), Faults::none());
    let backend = factory.open_behind(Shard(0)).expect("open");
    let tables = || files(dir.path(), ".sst").len() as u64;
    let add = |backend: &dyn Backend, sections: std::ops::RangeInclusive<u64>| {
        for n in sections {
            apply_section(backend, n).expect("apply");
            backend.flush().expect("flush");
        }
    };
    let soon_fewer_than = |many: u64| {
        let begin = std::time::Instant::now();
        while tables() >= many {
            assert!(begin.elapsed().as_secs() < 60, "{} tables", tables());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    add(&*backend, 1..=8);
    assert!(tables() >= 8, "twice as many as compaction begins with");
    backend.caught_up().expect("goes on");
    soon_fewer_than(8);
    drop(backend);
    let backend = factory.open_behind(Shard(0)).expect("open");
    let last = 8 + 4 * TABLES_WHILE_COMPACTION_WAITS;
    add(&*backend, 9..=last);
    soon_fewer_than(TABLES_WHILE_COMPACTION_WAITS);
    assert_eq!(rows(&*backend).expect("scan"), model(last));
}

#[test]
fn damaged_and_missing_files_are_damage_and_a_wipe_helps() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 4] = [
        ("a flipped bit in a table", |dir| {
            for table in files(dir, ".sst") {
                let mut bytes = std::fs::read(&table).expect("read");
                bytes[100] ^= 1;
                std::fs::write(&table, bytes).expect("write");
            }
        }),
        ("a missing table", |dir| {
            files(dir, ".sst")
                .iter()
                .for_each(|f| std::fs::remove_file(f).expect("remove"))
        }),
        ("a missing manifest", |dir| {
            files(dir, "MANIFEST")
                .iter()
                .for_each(|f| std::fs::remove_file(f).expect("remove"))
        }),
        ("a manifest cut short", |dir| {
            files(dir, "MANIFEST")
                .iter()
                .for_each(|f| std::fs::write(f, b"").expect("write"))
        }),
    ];
    for (name, harm) in harms {
        let dir = tempfile::tempdir().expect("dir");
        let factory = filled(dir.path());
        read_all(&factory).expect("whole");
        harm(dir.path());
        let read = read_all(&factory);
        assert!(
            matches!(read, Err(StateError::Damaged { shard: 0, .. })),
            "{name}: {read:?}"
        );
        factory.wipe(Shard(0)).expect("wipe");
        read_all(&factory).expect("empty");
    }
}

#[test]
fn damage_is_told_from_what_is_wrong_with_the_machine() {
    assert!(is_damage(ErrorKind::Corruption, "Corruption: block checksum mismatch"));
    assert!(is_damage(
        ErrorKind::IOError,
        "IO error: No such file or directory: While open a file: 000009.sst"
    ));
    assert!(is_damage(
        ErrorKind::InvalidArgument,
        "Invalid argument: does not match existing comparator"
    ));
    assert!(!is_damage(
        ErrorKind::IOError,
        "IO error: No space left on device: While appending to file"
    ));
    assert!(!is_damage(ErrorKind::IOError, "IO error: Permission denied"));
    assert!(!is_damage(ErrorKind::IOError, "IO error: lock hold by current process"));
    assert!(!is_damage(ErrorKind::Busy, "Resource busy"));
}

#[test]
fn a_section_that_is_being_applied_is_read_whole_or_not_at_all() {
    // A batch each, and a table each.
    for value_bytes in [8, 1_000] {
        let dir = tempfile::tempdir().expect("dir");
        let backend = behind(dir.path(), "");
        let keys: Vec<String> = (100..200).map(|i| format!("k{i}")).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..=300u64 {
                    let value = n.to_be_bytes().repeat(value_bytes / 8);
                    let mut changes = keys.iter().map(|key| Change {
                        key,
                        value: Some(&value),
                    });
                    backend.apply(&mut changes, &section(n)).expect("apply");
                    assert!(n > 1 || (in_memtable(&backend) == 0) == (value_bytes > 8), "a table");
                }
            });
            let mut out = Vec::new();
            while !writer.is_finished() {
                backend.get_many(&keys, &mut out).expect("get");
                assert!(out.iter().all(|value| *value == out[0]), "half a section");
            }
        });
    }
}

/// Each memtable took a block of a megabyte for its first entry: 256 shards in one process took a quarter of a gigabyte before they held
/// anything.
#[test]
fn many_copies_with_little_in_each_keep_to_the_budget() {
    const SHARDS: u32 = 64;
    let dir = tempfile::tempdir().expect("dir");
    let settings = RocksSettings::of_budget(32 << 20, SHARDS as usize);
    let factory = RocksFactory::new(dir.path(), settings, Faults::none());
    let copies: Vec<_> = (0..SHARDS).map(|s| factory.open(Shard(s)).expect("open")).collect();
    for copy in &copies {
        conformance::apply(&**copy, &["a=1"], 1).expect("apply");
    }
    let memtables: u64 = copies.iter().filter_map(|c| c.sizes()).map(|s| s.memtables_bytes).sum();
    assert!(memtables < settings.write_buffer_bytes as u64, "{memtables}");
}

/// The filter of a table with a few hundred thousand keys was larger than a shard of the cache, so it never stayed there: each look-up read hundreds
/// of kilobytes.
#[test]
fn a_look_up_in_a_large_table_reads_a_few_blocks() {
    const KEYS: u32 = 600_000;
    let dir = tempfile::tempdir().expect("dir");
    let db = DB::open(&Shared::new(RocksSettings::of_budget(1 << 20, 1)).options(), dir.path()).expect("open");
    let key = |n: u32| n.wrapping_mul(0x9E37_79B1).to_be_bytes();
    for n in 0..KEYS {
        db.put(key(n), n.to_be_bytes()).expect("put");
    }
    db.flush().expect("flush");
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    rocksdb::perf::set_perf_stats(rocksdb::perf::PerfStatsLevel::EnableCount);
    let mut context = rocksdb::perf::PerfContext::default();
    context.reset();
    const LOOKUPS: u32 = 1_000;
    for n in 0..LOOKUPS {
        assert!(db.get(key(n * 599)).expect("get").is_some());
        assert!(db.get(key(KEYS + n)).expect("get").is_none());
    }
    let read = context.metric(rocksdb::perf::PerfMetric::BlockReadByte) / u64::from(2 * LOOKUPS);
    rocksdb::perf::set_perf_stats(rocksdb::perf::PerfStatsLevel::Disable);
    assert!(read < 32 << 10, "{read} bytes for a look-up");
}

/// Several memtables of the tests; every third key is deleted by each other section.
fn large_changes(n: u64) -> Vec<(String, Option<String>)> {
    let filler = "y".repeat(100);
    let value = |i: u64| (n % 2 == 1 || !i.is_multiple_of(3)).then(|| format!("{n} {i} {filler}"));
    (0..3_000).map(|i| (format!("l{i:05}"), value(i))).collect()
}

/// Every third section is a small one.
fn mixed_changes(n: u64) -> Vec<(String, Option<String>)> {
    match n % 3 {
        0 => section_changes(n),
        _ => large_changes(n),
    }
}

/// As in a restore.
fn behind(dir: &Path, faults: &str) -> RocksBackend {
    let faults = Faults::parse(faults).expect("valid");
    factory(dir, faults).open_with(Shard(0), true).expect("open")
}

fn in_memtable(backend: &RocksBackend) -> u64 {
    let entries = backend.db.property_int_value("rocksdb.num-entries-active-mem-table");
    entries.expect("known").expect("a number")
}

/// The process that dies while tables are written.
#[test]
fn ep_4_child_with_tables() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let faults = Faults::from_env().expect("valid");
    let backend = factory(Path::new(&dir), faults).open_behind(Shard(0)).expect("open");
    for n in 1..=9 {
        apply_changes(&*backend, &mixed_changes(n), n).expect("apply");
    }
}

#[test]
fn ep_4_a_section_that_is_a_table_outlives_a_kill_once_it_is_part_of_the_copy() {
    for (kill, survives) in [
        ("mid_apply=kill@1", 0),
        ("post_apply=kill@1", 1),
        ("mid_apply=kill@2", 1),
        // Section 3 was in the memtable, and a table flushes it.
        ("post_apply=kill@3", 2),
        ("mid_apply=kill@4", 2),
        ("post_apply=kill@4", 4),
        ("post_apply=kill@5", 5),
    ] {
        let dir = tempfile::tempdir().expect("dir");
        die_in("ep_4_child_with_tables", dir.path(), kill);
        let left_over = dir.path().join("shard-0.table");
        let written = kill.starts_with("mid");
        assert_eq!(left_over.exists(), written, "{kill}");
        let backend = behind(dir.path(), "");
        assert!(!left_over.exists(), "{kill}: and is removed");
        let applied = backend.applied().expect("applied");
        assert_eq!(applied, (survives > 0).then(|| section(survives)), "{kill}");
        assert!(
            rows(&backend).expect("scan") == model_of(survives, mixed_changes),
            "{kill}"
        );
        for n in survives + 1..=9 {
            apply_changes(&backend, &mixed_changes(n), n).expect("the tail is replayed");
        }
        assert!(rows(&backend).expect("scan") == model_of(9, mixed_changes), "{kill}");
    }
}

#[test]
fn in_a_restore_large_sections_are_tables_while_level_0_has_room() {
    let dir = tempfile::tempdir().expect("dir");
    let backend = behind(dir.path(), "");
    // So that no compaction makes room.
    backend.compaction_waits.store(false, Ordering::Relaxed);
    let full = TABLES_BEFORE_WRITES_ARE_SLOWED + 1;
    for n in 1..=full {
        apply_changes(&backend, &large_changes(n), n).expect("apply");
        assert_eq!(in_memtable(&backend), 0);
        let tables = backend.tables_at_level_0().expect("known");
        assert_eq!(tables, Some(n - 1), "the first lies at the last level");
    }
    apply_changes(&backend, &large_changes(full + 1), full + 1).expect("apply");
    assert_eq!(in_memtable(&backend), 3_001, "level 0 has many");
    backend.db.compact_range(None::<&[u8]>, None::<&[u8]>);
    apply_changes(&backend, &large_changes(full + 2), full + 2).expect("apply");
    assert_eq!(in_memtable(&backend), 0);
    backend.caught_up().expect("goes on");
    apply_changes(&backend, &large_changes(full + 3), full + 3).expect("apply");
    assert_eq!(in_memtable(&backend), 3_001, "nothing is restored any more");
    assert!(rows(&backend).expect("scan") == model_of(full + 3, large_changes));
}

/// Without EP-4 there are two writes, as with a batch.
#[test]
fn ep_4_broken_on_purpose_there_are_no_tables() {
    let dir = tempfile::tempdir().expect("dir");
    let backend = behind(dir.path(), "break:EP-4");
    apply_changes(&backend, &large_changes(1), 1).expect("apply");
    assert_eq!(in_memtable(&backend), 3_000);
}

#[test]
fn a_table_that_fails_leaves_nothing_and_the_next_try_works() {
    let dir = tempfile::tempdir().expect("dir");
    let backend = behind(dir.path(), "mid_apply=error@2");
    let file = dir.path().join("shard-0.table");
    apply_changes(&backend, &large_changes(1), 1).expect("apply");
    let failed = |changes: &[(String, Option<String>)]| {
        let failed = apply_changes(&backend, changes, 2).expect_err("fails");
        assert!(matches!(failed, StateError::Io { .. }), "{failed}");
        assert_eq!(backend.applied().expect("applied"), Some(section(1)));
        assert!(rows(&backend).expect("scan") == model_of(1, large_changes));
        assert!(!file.is_file());
        failed.to_string()
    };
    failed(&large_changes(2));
    let mut shuffled = large_changes(2);
    shuffled.swap(2_998, 2_999);
    let bug = failed(&shuffled);
    assert!(bug.contains("report this, it is a bug"), "{bug}");
    std::fs::create_dir(&file).expect("in its place");
    let blocked = failed(&large_changes(2));
    assert!(blocked.contains("shard-0"), "{blocked}");
    std::fs::remove_dir(&file).expect("and gone");
    apply_changes(&backend, &large_changes(2), 2).expect("again");
    assert!(rows(&backend).expect("scan") == model_of(2, large_changes));
}

/// It was taken for damage of the copy, which was then thrown away and fetched again.
#[test]
fn a_table_that_is_gone_before_it_is_taken_is_no_damage_of_the_copy() {
    let dir = tempfile::tempdir().expect("dir");
    let backend = behind(dir.path(), "");
    apply_changes(&backend, &large_changes(1), 1).expect("apply");
    let damages: [fn(&Path) -> std::io::Result<()>; 2] = [
        |file: &Path| std::fs::remove_file(file),
        |file: &Path| std::fs::write(file, "no table"),
    ];
    for damage in damages {
        let key = Change {
            key: b"own",
            value: Some(b"1"),
        };
        let table = backend
            .tables
            .write(&backend.site, [Ok(key)].into_iter())
            .expect("written");
        damage(&dir.path().join("shard-0.table")).expect("damaged");
        let error = table.ingest(&backend.db).expect_err("not taken");
        assert!(matches!(error, StateError::Io { .. }), "{error}");
    }
    apply_changes(&backend, &large_changes(2), 2).expect("apply");
    assert!(rows(&backend).expect("scan") == model_of(2, large_changes));
}

/// A table is not written to again when RocksDB takes it, since a base may have it by its content, and level 0 is not compressed.
#[test]
fn a_table_becomes_part_of_the_copy_as_it_was_written() {
    let dir = tempfile::tempdir().expect("dir");
    let backend = behind(dir.path(), "");
    apply_changes(&backend, &large_changes(1), 1).expect("apply");
    let changes = large_changes(2);
    let row = row::encode(&section(2));
    let changes = changes.iter().map(|(key, value)| Change {
        key: key.as_bytes(),
        value: value.as_deref().map(str::as_bytes),
    });
    let applied = Change {
        key: APPLIED_KEY,
        value: Some(&row),
    };
    let table = backend.tables.write(&backend.site, changes.chain([applied]).map(Ok));
    let written = std::fs::read(dir.path().join("shard-0.table")).expect("written");
    table.expect("written").ingest(&backend.db).expect("taken");
    let is_it = |file: &PathBuf| std::fs::read(file).expect("a table") == written;
    assert!(files(dir.path(), ".sst").iter().any(is_it));
    assert!(written.len() > 200_000, "{} bytes", written.len());
    assert_eq!(backend.applied().expect("applied"), Some(section(2)));
    assert!(rows(&backend).expect("scan") == model_of(2, large_changes));
}
