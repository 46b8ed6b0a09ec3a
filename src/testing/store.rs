//! A checkpoint store as one process reaches it.
use super::process::{Call, Process};
use crate::checkpoint::store::{Aged, ObjectPath, Part, Store, StoreError};
use std::sync::Arc;

/// Passes every call to a store through a [`Process`].
pub struct ProcessStore {
    store: Arc<dyn Store>,
    process: Process,
}

impl ProcessStore {
    /// `store` as `process` reaches it.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, process: Process) -> ProcessStore {
        ProcessStore { store, process }
    }

    fn read<T>(&self, path: &ObjectPath, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.process.store(Call::Read, path.as_str(), act)
    }
}

impl Store for ProcessStore {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        let act = || self.store.put_new(path, parts);
        self.process.store(Call::Put, path.as_str(), act)
    }
    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        self.read(path, || self.store.get(path))
    }
    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError> {
        self.read(path, || self.store.get_parts(path, part))
    }
    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        self.read(path, || self.store.get_range(path, offset, len))
    }
    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        self.read(path, || self.store.size(path))
    }
    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        self.read(prefix, || self.store.list(prefix))
    }
    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError> {
        self.read(folder, || self.store.list_aged(folder, after, max))
    }
    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        self.read(path, || self.store.modified_ms(path))
    }
    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        self.process.store(Call::Put, path.as_str(), || self.store.delete(path))
    }
    fn id(&self) -> u64 {
        self.store.id()
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
}
