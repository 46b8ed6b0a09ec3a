//! A checkpoint store whose reads are tried again: a store that cannot be reached for a while delays a start and does not refuse it.
use super::backoff::Patience;
use crate::checkpoint::store::{Aged, ObjectPath, Part, Store, StoreError, StoreErrorKind};
use std::sync::Arc;

/// Tries reads again while they fail as retriable. Writes are passed on: the commit driver tries them again itself.
pub(super) struct PatientStore {
    store: Arc<dyn Store>,
    patience: Patience,
}

impl PatientStore {
    pub fn new(store: Arc<dyn Store>, patience: Patience) -> PatientStore {
        PatientStore { store, patience }
    }

    /// The error is returned when it does not pass by itself, when a stop would not wait any longer, or when nobody waits for it.
    fn again<T>(&self, mut read: impl FnMut(&dyn Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut backoff = self.patience.backoff("read");
        loop {
            match read(self.store.as_ref()) {
                Err(e) if e.kind() == StoreErrorKind::Retriable => {
                    if backoff.wait(&e).is_err() {
                        return Err(e);
                    }
                }
                result => return result,
            }
        }
    }
}

impl Store for PatientStore {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.store.put_new(path, parts)
    }
    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        self.again(|store| store.get(path))
    }
    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError> {
        self.again(|store| store.get_parts(path, part))
    }
    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        self.again(|store| store.get_range(path, offset, len))
    }
    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        self.again(|store| store.size(path))
    }
    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        self.again(|store| store.list(prefix))
    }
    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError> {
        self.again(|store| store.list_aged(folder, after, max))
    }
    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        self.again(|store| store.modified_ms(path))
    }
    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        self.store.delete(path)
    }
    fn id(&self) -> u64 {
        self.store.id()
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
}
