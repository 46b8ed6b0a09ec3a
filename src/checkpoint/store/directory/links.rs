//! What lies in a store is no link: one leads out of the store, to where others may write.
use super::classify;
use crate::checkpoint::store::StoreError;
use std::io::ErrorKind;
use std::path::Path;

/// Refuses a path with a link below `root`. What is not there is no link.
pub(super) fn refuse(root: &Path, path: &Path) -> Result<(), StoreError> {
    let parts = path.ancestors();
    for part in parts.take_while(|part| *part != root && part.starts_with(root)) {
        match std::fs::symlink_metadata(part) {
            Ok(found) if found.is_symlink() => return Err(is_link(part)),
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(classify(part, "look at", &e));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_link(part: &Path) -> StoreError {
    StoreError::Fatal {
        path: part.display().to_string(),
        reason: "is a link in the store, and is not followed: put what it leads to in its place, and let nobody else write to the store's \
                 directory"
            .to_owned(),
    }
}
