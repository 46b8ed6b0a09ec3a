//! `store.json`, by which a store is known.
use super::StoreError;

/// The file at the root of a store, with its format and id. Made once: a new id would lead every pointer astray.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreFile {
    format: u32,
    id: String,
}

impl StoreFile {
    /// What is written into it.
    #[must_use]
    pub fn text(id: u64) -> String {
        format!("{{\"format\":1,\"id\":\"{id:016x}\"}}\n")
    }

    /// The id in `text`, which was read at `path`.
    ///
    /// # Errors
    /// [`StoreError::Fatal`] when it is not one of this format.
    pub fn parse(path: &str, text: &str) -> Result<u64, StoreError> {
        let bad = |reason: String| StoreError::Fatal {
            path: path.to_owned(),
            reason,
        };
        let found: StoreFile = serde_json::from_str(text).map_err(|e| bad(format!("is not a store file: {e}")))?;
        if found.format != 1 {
            return Err(bad(format!(
                "is of store format {}, this version knows format 1",
                found.format
            )));
        }
        crate::types::ids::parse_hex_u64(&found.id, "store id").map_err(|e| bad(format!("holds {:?}: {e}", found.id)))
    }

    /// The refusal of a store that holds objects and has lost the file.
    #[must_use]
    pub fn lost(path: &str) -> StoreError {
        StoreError::Fatal {
            path: path.to_owned(),
            reason: "is missing, and the store holds objects: bring it back from a copy, or write {\"format\":1,\"id\":\"<id>\"} with \
                     the id at the end of the name of the job's directory in a state directory"
                .to_owned(),
        }
    }
}
