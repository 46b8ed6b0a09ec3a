//! A store in memory, for tests: it fails, forgets and damages on request.
use super::{Aged, ObjectPath, Part, Store, StoreError, StoreErrorKind};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Of an object that goes by in parts: no object is one part alone only because it is a test's.
const PART_BYTES: usize = 4 << 10;

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<ObjectPath, Vec<u8>>,
    /// When each was written.
    times: BTreeMap<ObjectPath, i64>,
    /// Moves only when it is told to.
    now_ms: i64,
    fail: Option<(u32, StoreErrorKind)>,
    lose: u32,
    puts: u64,
}

/// A store in memory. Clones share their objects, as processes share a directory.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    id: u64,
    inner: Arc<Mutex<Inner>>,
}

fn error(kind: StoreErrorKind, path: &ObjectPath, reason: &str) -> StoreError {
    let (path, reason) = (path.to_string(), reason.to_owned());
    match kind {
        StoreErrorKind::AlreadyExists => StoreError::AlreadyExists { path },
        StoreErrorKind::NotFound => StoreError::NotFound { path },
        StoreErrorKind::Retriable => StoreError::Retriable { path, reason },
        StoreErrorKind::Fatal => StoreError::Fatal { path, reason },
    }
}

impl MemoryStore {
    /// An empty store with this id.
    #[must_use]
    pub fn new(id: u64) -> MemoryStore {
        MemoryStore {
            id,
            inner: Arc::default(),
        }
    }
    /// The next `n` puts fail and write nothing.
    pub fn fail_next_puts(&self, n: u32, kind: StoreErrorKind) {
        self.inner.lock().fail = Some((n, kind));
    }
    /// The next `n` puts work, and say that they failed.
    pub fn lose_next_acknowledgements(&self, n: u32) {
        self.inner.lock().lose = n;
    }
    /// Cuts an object after `len` bytes. False when there is none.
    pub fn truncate(&self, path: &ObjectPath, len: usize) -> bool {
        self.inner
            .lock()
            .objects
            .get_mut(path)
            .map(|o| o.truncate(len))
            .is_some()
    }
    /// Flips a bit, counted from the object's start. False when there is none.
    pub fn flip(&self, path: &ObjectPath, bit: usize) -> bool {
        let mut inner = self.inner.lock();
        let byte = inner.objects.get_mut(path).and_then(|o| o.get_mut(bit / 8));
        byte.map(|b| *b ^= 1 << (bit % 8)).is_some()
    }
    /// The store's clock moves on, or is set back.
    pub fn advance(&self, by: Duration) {
        self.inner.lock().now_ms += i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    }
    /// The store's clock is set to this.
    pub fn set_clock(&self, now_ms: i64) {
        self.inner.lock().now_ms = now_ms;
    }
    /// Its clock.
    #[must_use]
    pub fn clock_ms(&self) -> i64 {
        self.inner.lock().now_ms
    }
    /// Objects that are there.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectPath> {
        self.inner.lock().objects.keys().cloned().collect()
    }
    /// How often [`Store::put_new`] was called.
    #[must_use]
    pub fn puts(&self) -> u64 {
        self.inner.lock().puts
    }
    fn read<T>(&self, path: &ObjectPath, read: impl FnOnce(&[u8]) -> T) -> Result<T, StoreError> {
        let inner = self.inner.lock();
        inner
            .objects
            .get(path)
            .map(|o| read(o))
            .ok_or_else(|| error(StoreErrorKind::NotFound, path, ""))
    }
}

impl Store for MemoryStore {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        inner.puts += 1;
        if let Some((n, kind)) = inner.fail.take().filter(|(n, _)| *n > 0) {
            inner.fail = Some((n - 1, kind));
            return Err(error(kind, path, "told to fail"));
        }
        let bytes = parts.concat();
        if inner.objects.get(path).is_some_and(|there| *there != bytes) {
            return Err(error(StoreErrorKind::AlreadyExists, path, ""));
        }
        inner.objects.insert(path.clone(), bytes);
        let now_ms = inner.now_ms;
        inner.times.entry(path.clone()).or_insert(now_ms);
        if inner.lose > 0 {
            inner.lose -= 1;
            return Err(error(StoreErrorKind::Retriable, path, "the acknowledgement was lost"));
        }
        Ok(())
    }

    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        self.read(path, <[u8]>::to_vec)
    }

    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError> {
        // Not under the lock: who takes a part may ask for another object.
        let bytes = self.get(path)?;
        let mut at = 0;
        for bytes in bytes.chunks(PART_BYTES) {
            if part(at, bytes).is_break() {
                break;
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }

    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        let (offset, len) = (
            usize::try_from(offset).unwrap_or(usize::MAX),
            usize::try_from(len).unwrap_or(usize::MAX),
        );
        self.read(path, |bytes| bytes.iter().skip(offset).take(len).copied().collect())
    }

    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        self.read(path, |bytes| bytes.len() as u64)
    }

    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        let inner = self.inner.lock();
        let under = |path: &ObjectPath| {
            path.as_str()
                .rsplit_once('/')
                .is_some_and(|(dir, _)| dir == prefix.as_str())
        };
        Ok(inner
            .objects
            .iter()
            .filter(|(path, _)| under(path))
            .map(|(p, o)| (p.clone(), o.len() as u64))
            .collect())
    }

    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError> {
        let inner = self.inner.lock();
        let under = |path: &ObjectPath| {
            let rest = path.as_str().strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let wanted = |(path, _): &(&ObjectPath, &Vec<u8>)| under(path) && after.is_none_or(|after| *path > after);
        let aged = |(path, object): (&ObjectPath, &Vec<u8>)| Aged {
            path: path.clone(),
            bytes: object.len() as u64,
            modified_ms: inner.times.get(path).copied().unwrap_or_default(),
        };
        Ok(inner.objects.iter().filter(wanted).take(max).map(aged).collect())
    }

    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        let time = self.inner.lock().times.get(path).copied();
        time.ok_or_else(|| error(StoreErrorKind::NotFound, path, ""))
    }

    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        inner.times.remove(path);
        let removed = inner.objects.remove(path);
        removed
            .map(|_| ())
            .ok_or_else(|| error(StoreErrorKind::NotFound, path, ""))
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
