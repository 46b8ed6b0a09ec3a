//! Listing a folder of a directory store with the ages of its objects.
use super::classify;
use crate::checkpoint::store::{Aged, ObjectPath, StoreError};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// One page of [`crate::checkpoint::Store::list_aged`]. Each page reads the whole folder anew: a directory has no order to go on in.
pub(super) fn page(
    dir: &Path,
    folder: &ObjectPath,
    after: Option<&ObjectPath>,
    max: usize,
) -> Result<Vec<Aged>, StoreError> {
    let mut found = Vec::new();
    walk(dir, folder, after, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.truncate(max);
    Ok(found)
}

fn walk(dir: &Path, folder: &ObjectPath, after: Option<&ObjectPath>, found: &mut Vec<Aged>) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| classify(dir, "list", &e))?,
    };
    for entry in entries {
        let entry = entry.map_err(|e| classify(dir, "list", &e))?;
        let Some(path) = entry.file_name().to_str().and_then(|name| folder.join(name).ok()) else {
            continue;
        };
        let full = entry.path();
        // Removed since the directory was read: it is not there.
        let metadata = match entry.metadata() {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            other => other.map_err(|e| classify(&full, "look at", &e))?,
        };
        if metadata.is_dir() {
            walk(&full, &path, after, found)?;
        } else if metadata.is_file() && after.is_none_or(|after| path > *after) {
            let modified_ms = modified_ms(&full, &metadata)?;
            let bytes = metadata.len();
            found.push(Aged {
                path,
                bytes,
                modified_ms,
            });
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
