//! A store in a directory, local or on a network filesystem that honours fsync.
use super::path::TMP_MARK;
use super::{Aged, ObjectPath, Part, Store, StoreError, StoreFile, sys};
mod links;
mod walk;
use crate::testing::faults::Faults;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const STORE_FILE: &str = "store.json";
/// The directory of all objects, see [`super::Layout`].
const JOBS: &str = "jobs";
/// `jobs/<job>/<stage>/<folder>/<name>`: what lies deeper has a folder of its own.
const PARTS_OF_AN_OBJECT: usize = 5;

/// Read at a time of an object that goes by in parts: small enough to be in a processor's cache still when whoever takes a part hashes and writes it,
/// large enough that calls do not count. The allocator keeps a buffer of this size; one of megabytes would be new pages each time.
const PART_BYTES: usize = 256 << 10;

/// A directory as a checkpoint store.
///
/// An object is written as `<name>.tmp-<random>` beside its place, synced, renamed without replacing, and the directory is synced;
/// so are the directories above it when this process uses them for the first time.
pub struct DirectoryStore {
    root: PathBuf,
    id: u64,
    faults: Faults,
    /// Directories whose own entry is known to be on disk.
    durable: Mutex<HashSet<PathBuf>>,
}

pub(super) fn classify(path: &Path, action: &str, e: &io::Error) -> StoreError {
    let reason = format!("cannot {action}: {e}");
    let path = path.display().to_string();
    match e.kind() {
        ErrorKind::AlreadyExists => return StoreError::AlreadyExists { path },
        ErrorKind::NotFound => return StoreError::NotFound { path },
        ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::ResourceBusy
        | ErrorKind::Interrupted
        | ErrorKind::WouldBlock
        | ErrorKind::TimedOut
        | ErrorKind::StaleNetworkFileHandle
        // Somebody repairs a mount or a mode while the job waits with its state.
        | ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::OutOfMemory => return StoreError::Retriable { path, reason },
        _ => {}
    }
    match e.raw_os_error() {
        Some(
            libc::EIO
            | libc::EMFILE
            | libc::ENFILE
            | libc::ENOBUFS
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENETDOWN,
        ) => StoreError::Retriable { path, reason },
        _ => StoreError::Fatal { path, reason },
    }
}

fn open_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

impl DirectoryStore {
    /// Opens the store in `root`, making it when there is none: the directory, and `store.json` with a random id, created if absent,
    /// so that of several processes that start at once all get the same id.
    ///
    /// # Errors
    /// When the directory cannot be used, or its `store.json` is not one of this format.
    pub fn open(root: impl Into<PathBuf>, faults: Faults) -> Result<DirectoryStore, StoreError> {
        let root = root.into();
        let root = make_root(&root)?;
        let file = root.join(STORE_FILE);
        // The fail points and the EP-1 switch are for epochs, not for making the store.
        let mut store = DirectoryStore {
            root,
            id: 0,
            faults: Faults::none(),
            durable: Mutex::default(),
        };
        // Looked at before the file: who makes the store writes the file before the first object.
        let used = store.root.join(JOBS).exists();
        if !file.exists() {
            if used {
                return Err(StoreFile::lost(&file.display().to_string()));
            }
            let id = sys::random().map_err(|e| classify(&file, "draw an id", &e))?;
            match store.create(&file, &[StoreFile::text(id).as_bytes()]) {
                Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        store.id = read_store_file(&file)?;
        store.faults = faults;
        Ok(store)
    }

    /// What is not there, unless the whole store is away: nothing can be said of an object then.
    fn missing(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::NotFound { .. } => self.there().err().unwrap_or(error),
            error => error,
        }
    }

    /// Whether this is the store still, and not the place where it was mounted.
    fn there(&self) -> Result<(), StoreError> {
        let away = |what: String| StoreError::Retriable {
            path: self.root.display().to_string(),
            reason: format!("the store is away, {what} in the directory: mount it, or move it back"),
        };
        match read_store_file(&self.root.join(STORE_FILE)) {
            Ok(id) if id == self.id => Ok(()),
            // Somebody who was started meanwhile has made a store in its place.
            Ok(id) => Err(away(format!("{id:016x} is in place of {:016x}", self.id))),
            Err(StoreError::NotFound { .. }) => Err(away(format!("{STORE_FILE} is not"))),
            Err(e) => Err(e),
        }
    }

    /// Where an object or a folder lies.
    fn full(&self, path: &ObjectPath) -> Result<PathBuf, StoreError> {
        let full = self.root.join(path.as_str());
        links::refuse(&self.root, &full)?;
        Ok(full)
    }

    fn sync(&self, dir: &Path) -> Result<(), StoreError> {
        if self.faults.broken("EP-1") {
            return Ok(());
        }
        sync_dir(dir).map_err(|e| classify(dir, "sync the directory", &e))
    }

    fn sync_file(&self, file: &File, path: &Path) -> Result<(), StoreError> {
        if self.faults.broken("EP-1") {
            return Ok(());
        }
        file.sync_all().map_err(|e| classify(path, "sync", &e))
    }

    /// Makes `dir` and its parents up to the root, and their entries durable. One that was there may have been made by a process that
    /// did not come to sync its parent, so the first use syncs it too.
    fn ensure_dir(&self, dir: &Path) -> Result<(), StoreError> {
        if dir == self.root || self.durable.lock().contains(dir) {
            return Ok(());
        }
        let Some(parent) = dir.parent() else { return Ok(()) };
        self.ensure_dir(parent)?;
        match DirBuilder::new().create(dir) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(classify(dir, "create the directory", &e)),
        }
        self.sync(parent)?;
        self.durable.lock().insert(dir.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        let Some(dir) = path.parent() else { return Ok(()) };
        self.ensure_dir(dir)?;
        let random = sys::random().map_err(|e| classify(path, "draw a name", &e))?;
        let mut tmp = path.as_os_str().to_owned();
        tmp.push(format!("{TMP_MARK}{random:016x}"));
        let tmp = PathBuf::from(tmp);
        let renamed = self
            .stage(&tmp, parts)
            .and_then(|()| sys::rename_new(&tmp, path).map_err(|e| classify(path, "rename", &e)));
        if let Err(e) = renamed {
            // Best effort: what is left of an unfinished write is ignored by every reader.
            let _ = std::fs::remove_file(&tmp);
            self.forget_dirs(&e);
            return Err(e);
        }
        self.fault("object_renamed", path)?;
        self.sync(dir)
    }

    fn stage(&self, tmp: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(tmp).map_err(|e| classify(tmp, "create", &e))?;
        parts
            .iter()
            .try_for_each(|part| file.write_all(part))
            .map_err(|e| classify(tmp, "write", &e))?;
        self.sync_file(&file, tmp)?;
        self.fault("object_staged", tmp)
    }

    /// A directory that was removed under us is made again by the next try.
    fn forget_dirs(&self, e: &StoreError) {
        if matches!(e, StoreError::NotFound { .. }) {
            self.durable.lock().clear();
        }
    }

    fn fault(&self, point: &str, path: &Path) -> Result<(), StoreError> {
        let told = self.faults.at(point);
        told.map_err(|e| StoreError::Retriable {
            path: path.display().to_string(),
            reason: e.to_string(),
        })
    }

    /// What is there may be what an earlier try of ours left behind: the same bytes count as ours, once they are durable.
    fn adopt(&self, path: &Path, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut file = open_read(path).map_err(|e| classify(path, "open", &e))?;
        let len = file.metadata().map_err(|e| classify(path, "look at", &e))?.len();
        let same = len == parts.iter().map(|p| p.len() as u64).sum::<u64>()
            && same_bytes(&mut file, parts).map_err(|e| classify(path, "read", &e))?;
        if !same {
            return Err(StoreError::AlreadyExists {
                path: path.display().to_string(),
            });
        }
        self.sync_file(&file, path)?;
        path.parent().map_or(Ok(()), |dir| self.sync(dir))
    }
}

/// As [`classify`], where nothing has begun: what is a matter of settings ends the start.
pub(super) fn classify_start(path: &Path, action: &str, e: &io::Error) -> StoreError {
    let path_text = path.display().to_string();
    match e.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::Fatal {
            path: path_text,
            reason: format!("cannot {action}: {e}"),
        },
        _ => classify(path, action, e),
    }
}

/// Makes the root and what is missing above it. The entry of the root is synced at every start: who made it may not have come to it.
fn make_root(root: &Path) -> Result<PathBuf, StoreError> {
    let made: Vec<&Path> = root
        .ancestors()
        .skip(1)
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .collect();
    std::fs::create_dir_all(root).map_err(|e| classify_start(root, "create the directory", &e))?;
    sys::writable(root).map_err(|e| classify_start(root, "write into the directory", &e))?;
    for dir in made.iter().filter_map(|dir| dir.canonicalize().ok()) {
        dir.parent()
            .map_or(Ok(()), sync_dir)
            .map_err(|e| classify(&dir, "sync the directory above", &e))?;
    }
    let root = root
        .canonicalize()
        .map_err(|e| classify(root, "find the directory", &e))?;
    match root.parent().map_or(Ok(()), sync_dir) {
        // A directory above that may not be read cannot be synced, and the root was not made by us then.
        Err(e) if e.kind() != ErrorKind::PermissionDenied => Err(classify(&root, "sync the directory above", &e)),
        _ => Ok(root),
    }
}

fn same_bytes(file: &mut File, parts: &[&[u8]]) -> io::Result<bool> {
    let mut buffer = vec![0u8; 64 << 10];
    for part in parts {
        for chunk in part.chunks(buffer.len()) {
            let Some(read) = buffer.get_mut(..chunk.len()) else {
                return Ok(false);
            };
            file.read_exact(read)?;
            if read != chunk {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn read_store_file(file: &Path) -> Result<u64, StoreError> {
    let mut text = String::new();
    let opened = open_read(file).map_err(|e| classify(file, "open", &e))?;
    opened
        .take(4096)
        .read_to_string(&mut text)
        .map_err(|e| classify(file, "read", &e))?;
    StoreFile::parse(&file.display().to_string(), &text)
}

impl Store for DirectoryStore {
    fn put_new(&self, path: &ObjectPath, parts: &[&[u8]]) -> Result<(), StoreError> {
        let full = self.full(path)?;
        // What is written below an empty mount point, or into another store in its place, nobody finds again.
        self.there()?;
        match self.create(&full, parts) {
            Err(StoreError::AlreadyExists { .. }) => self.adopt(&full, parts),
            Err(StoreError::NotFound { path }) => {
                let reason = "the directory went away while it was written to".to_owned();
                Err(StoreError::Retriable { path, reason })
            }
            other => other,
        }
    }

    fn get(&self, path: &ObjectPath) -> Result<Vec<u8>, StoreError> {
        let full = self.full(path)?;
        let mut bytes = Vec::new();
        let mut file = open_read(&full).map_err(|e| self.missing(classify(&full, "open", &e)))?;
        file.read_to_end(&mut bytes).map_err(|e| classify(&full, "read", &e))?;
        Ok(bytes)
    }

    fn get_parts(&self, path: &ObjectPath, part: &mut Part<'_>) -> Result<(), StoreError> {
        let full = self.full(path)?;
        let mut file = open_read(&full).map_err(|e| self.missing(classify(&full, "open", &e)))?;
        let (mut buffer, mut at) = (vec![0; PART_BYTES], 0);
        loop {
            let read = match file.read(&mut buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|e| classify(&full, "read", &e))?,
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() || part(at, bytes).is_break() {
                return Ok(());
            }
            at += read as u64;
        }
    }

    fn get_range(&self, path: &ObjectPath, offset: u64, len: u64) -> Result<Vec<u8>, StoreError> {
        let full = self.full(path)?;
        let file = open_read(&full).map_err(|e| self.missing(classify(&full, "open", &e)))?;
        let size = file.metadata().map_err(|e| classify(&full, "look at", &e))?.len();
        let len = len.min(size.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, offset)
            .map_err(|e| classify(&full, "read", &e))?;
        Ok(bytes)
    }

    fn size(&self, path: &ObjectPath) -> Result<u64, StoreError> {
        let full = self.full(path)?;
        let found = std::fs::symlink_metadata(&full).map_err(|e| self.missing(classify(&full, "look at", &e)))?;
        if found.is_file() {
            return Ok(found.len());
        }
        Err(StoreError::Fatal {
            path: full.display().to_string(),
            reason: "is not a regular file".to_owned(),
        })
    }

    fn list(&self, prefix: &ObjectPath) -> Result<Vec<(ObjectPath, u64)>, StoreError> {
        let full = self.full(prefix)?;
        self.there()?;
        let entries = match std::fs::read_dir(&full) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| classify(&full, "list", &e))?,
        };
        let mut out = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| classify(&full, "list", &e))?;
            let Some(path) = entry.file_name().to_str().and_then(|name| prefix.join(name).ok()) else {
                continue;
            };
            match entry.metadata() {
                Ok(found) if found.is_file() => out.push((path, found.len())),
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(classify(&entry.path(), "look at", &e)),
                _ => {}
            }
        }
        out.sort();
        Ok(out)
    }

    fn list_aged(&self, folder: &ObjectPath, after: Option<&ObjectPath>, max: usize) -> Result<Vec<Aged>, StoreError> {
        self.there()?;
        walk::page(&self.full(folder)?, folder, after, max)
    }

    fn modified_ms(&self, path: &ObjectPath) -> Result<i64, StoreError> {
        let full = self.full(path)?;
        let found = std::fs::symlink_metadata(&full).map_err(|e| self.missing(classify(&full, "look at", &e)))?;
        walk::modified_ms(&full, &found)
    }

    fn delete(&self, path: &ObjectPath) -> Result<(), StoreError> {
        let full = self.full(path)?;
        // Another store in the place of one that is away may hold objects of the same names.
        self.there()?;
        std::fs::remove_file(&full).map_err(|e| self.missing(classify(&full, "remove", &e)))?;
        let Some(dir) = full.parent() else { return Ok(()) };
        self.sync(dir)?;
        // The folder of a base goes with its last object; nobody writes to it again. One that is not empty stays.
        if path.components().count() > PARTS_OF_AN_OBJECT && std::fs::remove_dir(dir).is_ok() {
            self.durable.lock().remove(dir);
        }
        Ok(())
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn describe(&self) -> String {
        format!("directory {}", self.root.display())
    }
}
