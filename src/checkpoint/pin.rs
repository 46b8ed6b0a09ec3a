//! Pins: what a reader keeps from collection while it copies it. Format in docs/format/store.md.
//!
//! Who wants to keep what is committed reads the pointers, puts a pin with them, and reads the pointers once more. When they are the same,
//! everything that they lead to stays until the pin is removed: a collection reads the pins after the pointers, so that it sees the pin, or
//! has seen the pointers. When they differ it removes the pin and begins anew.
use super::pointer::Pointer;
use super::store::{Layout, ObjectPath, PathError, Store, StoreError};
use crate::types::Digest;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    pointers: Vec<String>,
    digest: String,
}

/// A pin that cannot be put or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] PathError),
    /// It does not say what it keeps, so nothing is collected as long as it is there.
    #[error(
        "pin {path}: {reason}; nothing is collected while it is there: bring it back from a copy, or remove it if nobody needs it"
    )]
    Unreadable {
        /// The object's path.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

fn encode(pointers: &[Pointer]) -> Result<Vec<u8>, serde_json::Error> {
    let mut record = Record {
        format: FORMAT,
        pointers: pointers.iter().map(ToString::to_string).collect(),
        digest: String::new(),
    };
    record.digest = Digest::of(&serde_json::to_vec(&record)?).to_string();
    let mut text = serde_json::to_vec(&record)?;
    text.push(b'\n');
    Ok(text)
}

fn decode(bytes: &[u8]) -> Result<Vec<Pointer>, String> {
    let record: Record = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if record.format != FORMAT {
        return Err(format!(
            "it has format {}, this version knows format {FORMAT}",
            record.format
        ));
    }
    let pointers = record.pointers.iter().map(|text| Pointer::parse(text.as_bytes()));
    let pointers: Vec<Pointer> = pointers.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    match encode(&pointers) {
        Ok(again) if again == bytes => Ok(pointers),
        Ok(_) => Err("its digest does not fit its text".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn unreadable(path: &ObjectPath, reason: String) -> PinError {
    PinError::Unreadable {
        path: path.to_string(),
        reason,
    }
}

/// Puts a pin under a name that nobody else uses. What it keeps is kept once the pointers have been read again and are the same.
///
/// # Errors
/// [`PinError`]
pub fn put(store: &dyn Store, layout: &Layout, name: &str, pointers: &[Pointer]) -> Result<ObjectPath, PinError> {
    let path = layout.pins().join(name)?;
    let bytes = encode(pointers).map_err(|e| unreadable(&path, e.to_string()))?;
    store.put_new(&path, &[&bytes])?;
    Ok(path)
}

/// What all pins of the stage keep.
///
/// # Errors
/// [`PinError`]
pub fn all(store: &dyn Store, layout: &Layout) -> Result<Vec<Pointer>, PinError> {
    let mut pointers = Vec::new();
    for (path, _) in store.list(&layout.pins())? {
        match store.get(&path) {
            Ok(bytes) => pointers.extend(decode(&bytes).map_err(|reason| unreadable(&path, reason))?),
            // Removed since it was listed.
            Err(StoreError::NotFound { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(pointers)
}
