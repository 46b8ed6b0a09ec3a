//! Listing a folder of a directory store with the ages of its objects.
use super::classify;
use crate::checkpoint::store::path::TMP_MARK;
use crate::checkpoint::store::{Aged, ObjectPath, StoreError};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What a killed process has left of a write is removed when it is so much older than the newest object beside it. Shorter might meet a write that
/// lasts, which would be tried again; longer only costs room.
const UNFINISHED_MS: i64 = 24 * 3_600_000;

/// What is found on the way.
#[derive(Default)]
struct Found {
    objects: Vec<Aged>,
    /// Names of unfinished writes, with their times.
    unfinished: Vec<(PathBuf, i64)>,
    newest_ms: i64,
}

/// One page of [`crate::checkpoint::Store::list_aged`]. Each page reads the whole folder anew: a directory has no order to go on in.
pub(super) fn page(
    dir: &Path,
    folder: &ObjectPath,
    after: Option<&ObjectPath>,
    max: usize,
) -> Result<Vec<Aged>, StoreError> {
    let mut all = Found::default();
    walk(dir, folder, after, &mut all)?;
    remove_unfinished(&all);
    let mut found = all.objects;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.truncate(max);
    Ok(found)
}

fn is_unfinished(full: &Path) -> bool {
    full.file_name()
        .is_some_and(|name| name.to_string_lossy().contains(TMP_MARK))
}

impl Found {
    fn add(&mut self, full: PathBuf, path: Option<ObjectPath>, metadata: &Metadata) -> Result<(), StoreError> {
        let modified_ms = modified_ms(&full, metadata)?;
        if is_unfinished(&full) {
            self.unfinished.push((full, modified_ms));
            return Ok(());
        }
        self.newest_ms = self.newest_ms.max(modified_ms);
        let bytes = metadata.len();
        self.objects.extend(path.map(|path| Aged {
            path,
            bytes,
            modified_ms,
        }));
        Ok(())
    }
}

fn remove_unfinished(all: &Found) {
    let is_old = |(_, at): &&(PathBuf, i64)| at.saturating_add(UNFINISHED_MS) < all.newest_ms;
    for (path, _) in all.unfinished.iter().filter(is_old) {
        // Best effort: the next listing finds it again.
        let _ = std::fs::remove_file(path);
    }
}

fn walk(dir: &Path, folder: &ObjectPath, after: Option<&ObjectPath>, found: &mut Found) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| classify(dir, "list", &e))?,
    };
    for entry in entries {
        let entry = entry.map_err(|e| classify(dir, "list", &e))?;
        let full = entry.path();
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let path = folder.join(name).ok();
        if path.is_none() && !name.contains(TMP_MARK) {
            continue;
        }
        // A page before has had it. What the directory says of its kind costs no question.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_dir
            && path
                .as_ref()
                .is_some_and(|path| after.is_some_and(|after| path <= after))
        {
            continue;
        }
        // Removed since the directory was read: it is not there.
        let metadata = match entry.metadata() {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            other => other.map_err(|e| classify(&full, "look at", &e))?,
        };
        match path {
            Some(path) if metadata.is_dir() => walk(&full, &path, after, found)?,
            path if metadata.is_file() => found.add(full, path.filter(|p| after.is_none_or(|a| p > a)), &metadata)?,
            _ => {}
        }
    }
    Ok(())
}

/// The time that the filesystem gave the file, which on a network filesystem is its server's.
pub(super) fn modified_ms(path: &Path, metadata: &Metadata) -> Result<i64, StoreError> {
    let modified = metadata
        .modified()
        .map_err(|e| classify(path, "read the time of", &e))?;
    Ok(match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    })
}
