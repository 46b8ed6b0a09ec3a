//! The store's own clock, which all ages are measured by: those of the machines differ, and are set.
use super::store::{Layout, ObjectPath, Store, StoreError, random};

/// What the store's clock shows, in milliseconds: of an object that is written now, and removed again. One that stays is garbage.
///
/// # Errors
/// [`StoreError`]
pub fn now_ms(store: &dyn Store, layout: &Layout) -> Result<i64, StoreError> {
    let path = fresh(layout)?;
    store.put_new(&path, &[])?;
    let now = store.modified_ms(&path);
    // Whoever collects removes it otherwise.
    let _ = store.delete(&path);
    now
}

fn fresh(layout: &Layout) -> Result<ObjectPath, StoreError> {
    let folder = layout.clock();
    let failed = |reason: String| StoreError::Fatal {
        path: folder.to_string(),
        reason,
    };
    let drawn = random().map_err(|e| failed(format!("no random numbers from the system: {e}")))?;
    folder.join(&format!("{drawn:016x}")).map_err(|e| failed(e.to_string()))
}
