//! Local copies in RocksDB: one database per shard, one column family. The only module that names the `rocksdb` crate.
//!
//! RocksDB's own write-ahead log is off: the epoch log in the checkpoint store is the log. After a crash a copy is what had been flushed,
//! and since a section's changes and the applied row are one write batch, or one table, in one column family, that is exactly an earlier section (EP-4).
use self::batch::Batch;
use super::checks::{check_follows, check_key};
use super::{Applied, Backend, BackendFactory, Image, ImageKind, Rebuild, Swept};
use crate::state::key::RESERVED_GROUP;
use crate::state::{Change, CopySizes, StateError};
use crate::testing::faults::Faults;
use crate::types::Shard;
use parking_lot::Mutex;
use rocksdb::{DB, Error, ErrorKind, ReadOptions, WriteBatch, WriteOptions};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod batch;
mod image;
mod options;
mod row;
mod sizes;
mod table;
#[cfg(test)]
mod tests;

pub use options::RocksSettings;
use options::{COLUMN_FAMILY, Shared};
use row::APPLIED_KEY;
use table::Tables;

/// Opens `<dir>/shard-<n>`. All copies share one block cache and one write-buffer manager.
pub struct RocksFactory {
    dir: PathBuf,
    shared: Shared,
    faults: Faults,
    open: Arc<Mutex<HashSet<Shard>>>,
}

impl RocksFactory {
    /// A factory for local copies in `dir`, which the caller has locked against other processes.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, settings: RocksSettings, faults: Faults) -> Self {
        RocksFactory {
            dir: dir.into(),
            shared: Shared::new(settings),
            faults,
            open: Arc::default(),
        }
    }

    fn site(&self, shard: Shard) -> Site {
        Site {
            shard,
            path: self.dir.join(format!("shard-{shard}")),
        }
    }
}

impl RocksFactory {
    fn open_with(&self, shard: Shard, behind: bool) -> Result<RocksBackend, StateError> {
        let site = self.site(shard);
        let mark = OpenMark::set(&self.open, shard).ok_or_else(|| site.io("is open already"))?;
        std::fs::create_dir_all(&site.path).map_err(|e| site.io(e))?;
        image::remove_left_over(&site)?;
        let mut options = self.shared.options();
        options.set_disable_auto_compactions(behind);
        let families = [rocksdb::ColumnFamilyDescriptor::new(COLUMN_FAMILY, options.clone())];
        let db = DB::open_cf_descriptors(&options, &site.path, families).map_err(|e| site.error(&e))?;
        let backend = RocksBackend {
            db,
            tables: Tables::of(&options, &self.shared),
            site,
            faults: self.faults.clone(),
            compaction_waits: AtomicBool::new(behind),
            behind: AtomicBool::new(behind),
            _mark: mark,
        };
        backend.check_opened()?;
        Ok(backend)
    }
}

impl BackendFactory for RocksFactory {
    fn open(&self, shard: Shard) -> Result<Arc<dyn Backend>, StateError> {
        Ok(Arc::new(self.open_with(shard, false)?))
    }

    /// Compaction waits: with what is replayed it would write the tables of a base again, while whoever restores it needs the processor.
    fn open_behind(&self, shard: Shard) -> Result<Arc<dyn Backend>, StateError> {
        Ok(Arc::new(self.open_with(shard, true)?))
    }

    /// What cannot be looked at may be there.
    fn is_there(&self, shard: Shard) -> bool {
        self.site(shard).path.try_exists().unwrap_or(true)
    }

    fn wipe(&self, shard: Shard) -> Result<(), StateError> {
        let site = self.site(shard);
        let _mark = OpenMark::set(&self.open, shard).ok_or_else(|| site.io("cannot be wiped while it is open"))?;
        table::remove(&site.path.with_extension(table::LEFT_OVER)).map_err(|e| site.io(e))?;
        // Renamed first: a wipe that is cut short must not leave a copy that still opens.
        let gone = site.path.with_extension(image::GONE);
        remove_dir(&gone).map_err(|e| site.io(e))?;
        match std::fs::rename(&site.path, &gone) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(site.io(e)),
            Ok(()) => remove_dir(&gone).map_err(|e| site.io(e)),
        }
    }

    fn kind(&self) -> ImageKind {
        ImageKind::RocksDb
    }

    fn rebuild(&self, shard: Shard) -> Result<Box<dyn Rebuild>, StateError> {
        let site = self.site(shard);
        let mark = OpenMark::set(&self.open, shard).ok_or_else(|| site.io("cannot be rebuilt while it is open"))?;
        Ok(Box::new(image::Rebuilding::begin(site, mark)?))
    }
}

/// Tables of level 0 with which compaction begins although sections are being replayed still. Four are enough for one to be due, and writes are slowed
/// down from twenty on.
const TABLES_WHILE_COMPACTION_WAITS: u64 = 12;

/// Tables of level 0 with which changes go through the memtable again: RocksDB holds writes back from twenty on, and tables that are handed to it never.
const TABLES_BEFORE_WRITES_ARE_SLOWED: u64 = 16;

fn remove_dir(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Holds a shard as open, or as being wiped, while it lives.
struct OpenMark {
    open: Arc<Mutex<HashSet<Shard>>>,
    shard: Shard,
}

impl OpenMark {
    fn set(open: &Arc<Mutex<HashSet<Shard>>>, shard: Shard) -> Option<OpenMark> {
        open.lock().insert(shard).then(|| OpenMark {
            open: Arc::clone(open),
            shard,
        })
    }
}

impl Drop for OpenMark {
    fn drop(&mut self) {
        self.open.lock().remove(&self.shard);
    }
}

/// A copy's shard and directory, for errors.
struct Site {
    shard: Shard,
    path: PathBuf,
}

impl Site {
    fn damaged(&self, reason: impl ToString) -> StateError {
        StateError::Damaged {
            shard: self.shard.0,
            path: self.path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    fn io(&self, reason: impl ToString) -> StateError {
        StateError::Io {
            shard: self.shard.0,
            path: self.path.display().to_string(),
            reason: reason.to_string(),
        }
    }

    fn error(&self, error: &Error) -> StateError {
        let reason: &str = error.as_ref();
        if is_damage(error.kind(), reason) {
            self.damaged(reason)
        } else {
            self.io(reason)
        }
    }
}

/// True when wiping the copy helps; false for what is wrong with the machine or passes.
fn is_damage(kind: ErrorKind, message: &str) -> bool {
    match kind {
        // A file that the copy's own records name is missing.
        ErrorKind::IOError => message.contains("No such file or directory"),
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::Aborted => false,
        ErrorKind::ShutdownInProgress | ErrorKind::Incomplete => false,
        // Corruption, and what only other bytes than ours bring about: another comparator, unknown column families, a newer format.
        _ => true,
    }
}

struct RocksBackend {
    db: DB,
    tables: Tables,
    site: Site,
    faults: Faults,
    /// While sections are replayed over it: large runs of them become tables.
    behind: AtomicBool,
    /// Then too, as long as level 0 has few tables.
    compaction_waits: AtomicBool,
    /// After `db`: the shard counts as open until the database is closed.
    _mark: OpenMark,
}

impl RocksBackend {
    /// A copy is either empty or names the section that it equals.
    fn check_opened(&self) -> Result<(), StateError> {
        if self.read_applied()?.is_some() {
            return Ok(());
        }
        let mut first = self.db.raw_iterator();
        first.seek_to_first();
        first.status().map_err(|e| self.site.error(&e))?;
        if first.valid() {
            return Err(self
                .site
                .damaged("EP-4: it has entries and does not name the section that it equals"));
        }
        Ok(())
    }

    fn read_applied(&self) -> Result<Option<Applied>, StateError> {
        let row = self.db.get_pinned(APPLIED_KEY).map_err(|e| self.site.error(&e))?;
        row.map(|row| row::decode(&row).map_err(|e| self.site.damaged(e)))
            .transpose()
    }

    fn point(&self, name: &str) -> Result<(), StateError> {
        self.faults.at(name).map_err(|e| self.site.io(e))
    }

    fn write(&self, batch: WriteBatch) -> Result<(), StateError> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(|e| self.site.error(&e))
    }

    fn compact_from_now_on(&self) -> Result<(), StateError> {
        if !self.compaction_waits.load(Ordering::Relaxed) {
            return Ok(());
        }
        let set = self.db.set_options(&[("disable_auto_compactions", "false")]);
        set.map_err(|e| self.site.error(&e))?;
        self.compaction_waits.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// A long chain comes to more tables than reads and writes should meet at once.
    fn compact_before_there_are_too_many_tables(&self) -> Result<(), StateError> {
        if !self.compaction_waits.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.tables_at_level_0()? {
            Some(few) if few < TABLES_WHILE_COMPACTION_WAITS => Ok(()),
            _ => self.compact_from_now_on(),
        }
    }

    /// From how many bytes on changes become a table of their own; None where they do not.
    fn table_from(&self) -> Result<Option<usize>, StateError> {
        if !self.behind.load(Ordering::Relaxed) || self.faults.broken("EP-4") {
            return Ok(None);
        }
        let tables = self.tables_at_level_0()?;
        let room = tables.is_some_and(|few| few < TABLES_BEFORE_WRITES_ARE_SLOWED);
        Ok(room.then_some(self.tables.bytes_min))
    }

    fn tables_at_level_0(&self) -> Result<Option<u64>, StateError> {
        let tables = self.db.property_value("rocksdb.num-files-at-level0");
        let tables = tables.map_err(|e| self.site.error(&e))?;
        Ok(tables.and_then(|text| text.parse().ok()))
    }

    /// Without EP-4: applied row and changes are two writes. The flush between them stands for a memtable that happens to fill up there; a
    /// process that dies at `mid_apply` then comes back naming a section whose changes it does not have, and nobody replays them. (The
    /// other order would leave a mix too, but one that replaying the section repairs, since its changes are whole values.)
    fn write_without_ep_4(&self, changes: WriteBatch, applied: &Applied) -> Result<(), StateError> {
        let mut row = WriteBatch::default();
        row.put(APPLIED_KEY, row::encode(applied));
        self.write(row)?;
        self.flush()?;
        self.point("mid_apply")?;
        self.write(changes)
    }
}

impl Backend for RocksBackend {
    /// All keys are read at one sequence number of RocksDB, so that a batch that is being written is seen whole or not at all.
    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Option<Vec<u8>>>) -> Result<(), StateError> {
        out.clear();
        let family = self
            .db
            .cf_handle(COLUMN_FAMILY)
            .ok_or_else(|| self.site.damaged("no column family"))?;
        for value in self.db.batched_multi_get_cf(&family, keys.iter().copied(), false) {
            out.push(value.map_err(|e| self.site.error(&e))?.map(|value| value.to_vec()));
        }
        Ok(())
    }

    fn apply(&self, changes: &mut dyn Iterator<Item = Change<'_>>, applied: &Applied) -> Result<(), StateError> {
        self.point("pre_apply")?;
        self.compact_before_there_are_too_many_tables()?;
        check_follows(self.read_applied()?.as_ref(), applied).map_err(|e| self.site.damaged(e))?;
        let checked = |change: Change<'_>| check_key(change.key).map_err(|e| self.site.damaged(e));
        let (mut first, mut bytes, table_from) = (Vec::new(), 0, self.table_from()?);
        while table_from.is_some_and(|enough| bytes < enough) {
            let Some(change) = changes.next() else { break };
            checked(change)?;
            bytes += change.bytes();
            first.push(change);
        }
        let row = row::encode(applied);
        let row = Change {
            key: APPLIED_KEY,
            value: Some(&row),
        };
        let rest = changes.map(|change| checked(change).map(|()| change));
        let changes = first.into_iter().map(Ok).chain(rest);
        if table_from.is_some_and(|enough| bytes >= enough) {
            let table = self.tables.write(&self.site, changes.chain([Ok(row)]))?;
            self.point("mid_apply")?;
            table.ingest(&self.db)?;
            return self.point("post_apply");
        }
        let mut batch = Batch::new();
        for change in changes {
            batch.add(&change?);
        }
        if self.faults.broken("EP-4") {
            self.write_without_ep_4(batch.finish(), applied)?;
        } else {
            batch.add(&row);
            self.point("mid_apply")?;
            self.write(batch.finish())?;
        }
        self.point("post_apply")
    }

    /// The batch goes into the memtable behind the section, so that it reaches the disk after it or with it.
    fn sweep(&self, from: &[u8], to: &[u8], limit: usize, gone: &dyn Fn(&[u8]) -> bool) -> Result<Swept, StateError> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_iterate_upper_bound(to);
        let mut rows = self.db.raw_iterator_opt(options);
        rows.seek(from);
        let mut swept = Swept::default();
        let mut batch = WriteBatch::default();
        while let Some((key, value)) = rows.item() {
            if swept.looked_at == limit {
                swept.next = Some(key.to_vec());
                break;
            }
            swept.looked_at += 1;
            if gone(value) {
                swept.removed += 1;
                batch.delete(key);
            }
            rows.next();
        }
        rows.status().map_err(|e| self.site.error(&e))?;
        if swept.removed > 0 {
            self.write(batch)?;
        }
        Ok(swept)
    }

    fn caught_up(&self) -> Result<(), StateError> {
        self.behind.store(false, Ordering::Relaxed);
        self.compact_from_now_on()
    }

    fn applied(&self) -> Result<Option<Applied>, StateError> {
        self.read_applied()
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StateError> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_iterate_upper_bound(RESERVED_GROUP);
        let mut rows = self.db.raw_iterator_opt(options);
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            visit(key, value);
            rows.next();
        }
        // An iterator that meets an error just stops being valid.
        rows.status().map_err(|e| self.site.error(&e))
    }

    fn damaged(&self, reason: String) -> StateError {
        self.site.damaged(reason)
    }

    fn sizes(&self) -> Option<CopySizes> {
        sizes::read(&self.db)
    }

    fn image(&self) -> Result<Box<dyn Image>, StateError> {
        Ok(Box::new(image::Checkpointed::of(&self.db, &self.site)?))
    }

    fn flush(&self) -> Result<(), StateError> {
        self.db.flush().map_err(|e| self.site.error(&e))
    }
}
