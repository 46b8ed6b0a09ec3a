//! Tables that are made of a section's changes and handed to the database as they are: without write batch, memtable and flush.
//!
//! RocksDB takes a table with one edit of its manifest, so a section's changes and the applied row, which is the last of its entries, are there together or not
//! at all (EP-4). What the memtable holds between the first key and the last is flushed before. The file is not written to again: the sequence number that all of
//! its entries have stands in the manifest.
use super::options::Shared;
use super::{COLUMN_FAMILY, Site};
use crate::state::{Change, StateError};
use rocksdb::{DB, DBCompressionType, Error, ErrorKind, IngestExternalFileOptions, Options, SstFileWriter};
use std::path::{Path, PathBuf};

/// Part of the name of a table that is no part of the database yet: beside the shard's directory, where only RocksDB has files.
pub(super) const LEFT_OVER: &str = "table";

/// A table costs five writes that are waited for, and with fewer bytes than this more than it saves.
const BYTES_MIN: usize = 1 << 20;

/// How tables of a database are made.
pub(super) struct Tables {
    options: Options,
    /// Fewer bytes of changes become none.
    pub bytes_min: usize,
}

impl Tables {
    /// By the options of the database that they are for. They become part of level 0; the writer would compress them as those of the last level.
    pub fn of(database: &Options, shared: &Shared) -> Tables {
        let mut options = database.clone();
        options.set_compression_per_level(&[]);
        options.set_compression_type(DBCompressionType::None);
        Tables {
            options,
            bytes_min: BYTES_MIN.min(shared.memtable_bytes()),
        }
    }

    /// Writes and syncs one, of changes in order of key, each key once. What is wrong with its file is not wrong with the copy. One that an earlier try has left
    /// is removed and not written over: it may be part of the copy under another name.
    pub fn write<'a, 'c>(
        &self,
        site: &'a Site,
        changes: impl Iterator<Item = Result<Change<'c>, StateError>>,
    ) -> Result<Table<'a>, StateError> {
        let path = site.path.with_extension(LEFT_OVER);
        remove(&path).map_err(|e| site.io(e))?;
        let table = Table { site, path };
        let mut writer = SstFileWriter::create(&self.options);
        writer.open(&table.path).map_err(|e| table.failed(&e))?;
        for change in changes {
            let change = change?;
            let added = match change.value {
                Some(value) => writer.put(change.key, value),
                None => writer.delete(change.key),
            };
            added.map_err(|e| table.failed(&e))?;
        }
        writer.finish().map_err(|e| table.failed(&e))?;
        Ok(table)
    }
}

/// Removes a table that was left over.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A table that is no part of the database yet.
pub(super) struct Table<'a> {
    site: &'a Site,
    path: PathBuf,
}

impl Table<'_> {
    /// Makes it part of the database.
    pub fn ingest(self, db: &DB) -> Result<(), StateError> {
        let family = db.cf_handle(COLUMN_FAMILY);
        let family = family.ok_or_else(|| self.site.damaged("no column family"))?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let taken = db.ingest_external_file_cf_opts(&family, &options, vec![&self.path]);
        taken.map_err(|e| self.not_taken(&e))
    }

    /// What names the table, or refuses it, says nothing of the copy.
    fn not_taken(&self, error: &Error) -> StateError {
        let names_it = error.as_ref().contains(&*self.path.to_string_lossy());
        match error.kind() {
            ErrorKind::InvalidArgument => self.failed(error),
            _ if names_it => self.failed(error),
            _ => self.site.error(error),
        }
    }

    fn failed(&self, error: &Error) -> StateError {
        let path = self.path.display();
        match error.kind() {
            ErrorKind::InvalidArgument => self.site.io(format!("{path}: {error}; report this, it is a bug")),
            _ => self.site.io(format!("{path}: {error}")),
        }
    }
}

/// What is left of one that failed would take room.
impl Drop for Table<'_> {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}
