//! Images by RocksDB's hard-link checkpoint, beside the shard's own directory, and copies that are made from one again.
use super::row::{self, APPLIED_KEY};
use super::{DB, OpenMark, Site, remove_dir, table};
use crate::state::StateError;
use crate::state::backend::{Applied, Image, ImageFile, Rebuild};
use parking_lot::Mutex;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{AsRawPtr, Options};
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CURRENT: &str = "CURRENT";
const MANIFEST: &str = "MANIFEST-";
const TABLE: &str = ".sst";

/// Part of the name of an image's directory, and of a copy that is being made.
const IMAGE: &str = "image-";
const NEW: &str = "new";
/// Of a copy that is being removed.
pub(super) const GONE: &str = "gone";

/// Tables that are open while an image is looked into.
const OPEN_FILES: i32 = 16;

/// Images of one process have names of their own.
static IMAGES: AtomicU64 = AtomicU64::new(0);

/// Files that a database is: its tables, and what says which they are. Options are the program's, and there is no log. The name may come from a
/// manifest in the store, so nothing else is ever a name here.
fn is_file_of_image(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
    name == CURRENT || name.strip_suffix(TABLE).is_some_and(digits) || name.strip_prefix(MANIFEST).is_some_and(digits)
}

/// Removes what images, rebuilds and tables of a process that died have left.
pub(super) fn remove_left_over(site: &Site) -> Result<(), StateError> {
    let (Some(dir), Some(stem)) = (site.path.parent(), site.path.file_name().and_then(|n| n.to_str())) else {
        return Ok(());
    };
    for entry in std::fs::read_dir(dir).map_err(|e| site.io(e))? {
        let path = entry.map_err(|e| site.io(e))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.'));
        if rest.is_some_and(|rest| rest.starts_with(IMAGE) || rest == NEW || rest == GONE) {
            remove_dir(&path).map_err(|e| site.io(e))?;
        }
        if rest == Some(table::LEFT_OVER) {
            table::remove(&path).map_err(|e| site.io(e))?;
        }
    }
    Ok(())
}

/// A directory that goes when it is dropped. What stays is removed when the copy is opened next.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = remove_dir(&self.0);
    }
}

/// A checkpoint: hard links to the tables, which neither compaction nor a wipe takes away.
pub(super) struct Checkpointed {
    site: Site,
    dir: Gone,
    applied: Applied,
    files: Vec<ImageFile>,
}

impl Checkpointed {
    /// Flushes, and links. What the copy gets meanwhile is in it as whole sections or not at all: a section is one write batch
    /// or one table, and a memtable is flushed as a whole.
    pub fn of(db: &DB, site: &Site) -> Result<Checkpointed, StateError> {
        let number = IMAGES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{IMAGE}{}-{number}", std::process::id());
        let dir = Gone(site.path.with_extension(name));
        remove_dir(&dir.0).map_err(|e| site.io(e))?;
        let checkpoint = Checkpoint::new(db).map_err(|e| site.error(&e))?;
        checkpoint.create_checkpoint(&dir.0).map_err(|e| site.error(&e))?;
        Ok(Checkpointed {
            applied: read_applied(site, &dir.0)?,
            files: list(site, &dir.0)?,
            site: Site {
                shard: site.shard,
                path: site.path.clone(),
            },
            dir,
        })
    }
}

/// Few files: an open table takes memory for its index and filter.
fn open(site: &Site, dir: &Path) -> Result<DB, StateError> {
    let mut options = Options::default();
    options.set_max_open_files(OPEN_FILES);
    options.set_skip_stats_update_on_db_open(true);
    DB::open_for_read_only(&options, dir, false).map_err(|e| site.error(&e))
}

/// Of every block of every table.
#[allow(unsafe_code)]
fn verify_checksums(db: &DB) -> Result<(), String> {
    let mut failed = std::ptr::null_mut();
    // SAFETY: the database is open for as long as the call lasts, and a message that comes back is the caller's to free.
    unsafe {
        librocksdb_sys::rocksdb_verify_checksum(db.as_raw_ptr(), &raw mut failed);
        if failed.is_null() {
            return Ok(());
        }
        let text = CStr::from_ptr(failed).to_string_lossy().into_owned();
        librocksdb_sys::rocksdb_free(failed.cast());
        Err(text)
    }
}

/// As the checkpoint has it: the copy may have gone on.
fn read_applied(site: &Site, dir: &Path) -> Result<Applied, StateError> {
    let db = open(site, dir)?;
    let row = db.get_pinned(APPLIED_KEY).map_err(|e| site.error(&e))?;
    let row = row.ok_or_else(|| site.io("is empty"))?;
    row::decode(&row).map_err(|e| site.damaged(e))
}

fn list(site: &Site, dir: &Path) -> Result<Vec<ImageFile>, StateError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| site.io(e))? {
        let entry = entry.map_err(|e| site.io(e))?;
        let Some(name) = entry
            .file_name()
            .to_str()
            .map(str::to_owned)
            .filter(|n| is_file_of_image(n))
        else {
            continue;
        };
        let bytes = entry.metadata().map_err(|e| site.io(e))?.len();
        let lasts = name.ends_with(TABLE);
        files.push(ImageFile { name, bytes, lasts });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

impl Image for Checkpointed {
    fn applied(&self) -> Applied {
        self.applied
    }

    fn files(&self) -> &[ImageFile] {
        &self.files
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, StateError> {
        let path = self.dir.0.join(file);
        let opened = File::open(&path).map_err(|e| self.site.io(e))?;
        let size = opened.metadata().map_err(|e| self.site.io(e))?.len();
        let len = (len as u64).min(size.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        opened.read_exact_at(&mut bytes, offset).map_err(|e| self.site.io(e))?;
        Ok(bytes)
    }

    fn verify(&self) -> Result<(), StateError> {
        let db = open(&self.site, &self.dir.0)?;
        verify_checksums(&db).map_err(|why| match why.starts_with("Corruption") {
            true => self.site.damaged(why),
            false => self.site.io(why),
        })
    }
}

/// A copy that is being made beside the place of the shard's own.
pub(super) struct Rebuilding {
    site: Site,
    dir: PathBuf,
    files: Mutex<HashMap<String, Arc<Written>>>,
    _mark: OpenMark,
}

/// A file of a copy that is being made.
struct Written {
    file: File,
    synced: AtomicBool,
}

/// Whenever so much of a file lies behind a part that was written, the disk begins with it: when the file is whole, little is left to wait for. Larger steps
/// leave the disk idle at first, smaller ones make many small writes.
const WRITE_BACK_BYTES: u64 = 2 << 20;

/// Tells the system to write these bytes of a file, and does not wait for it. A hint: what it cannot do, the sync does.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn begin_write_back(file: &File, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return;
    };
    // SAFETY: the descriptor is open for as long as the call lasts; the rest are plain numbers.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
fn begin_write_back(_: &File, _: u64, _: u64) {}

impl Rebuilding {
    pub fn begin(site: Site, mark: OpenMark) -> Result<Rebuilding, StateError> {
        let dir = site.path.with_extension(NEW);
        remove_dir(&dir).map_err(|e| site.io(e))?;
        std::fs::create_dir_all(&dir).map_err(|e| site.io(e))?;
        Ok(Rebuilding {
            site,
            dir,
            files: Mutex::default(),
            _mark: mark,
        })
    }

    fn file(&self, name: &str) -> Result<Arc<Written>, StateError> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(name) {
            return Ok(file.clone());
        }
        if !is_file_of_image(name) {
            return Err(self.site.io(format!("{name:?} is no file of a database")));
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW);
        let file = Arc::new(Written {
            file: options.open(self.dir.join(name)).map_err(|e| self.site.io(e))?,
            synced: AtomicBool::new(false),
        });
        files.insert(name.to_owned(), file.clone());
        Ok(file)
    }
}

impl Rebuild for Rebuilding {
    fn write(&self, file: &str, offset: u64, bytes: &[u8]) -> Result<(), StateError> {
        let opened = self.file(file)?;
        opened.file.write_all_at(bytes, offset).map_err(|e| self.site.io(e))?;
        let end = offset + bytes.len() as u64;
        let behind = end - end % WRITE_BACK_BYTES;
        if behind > offset {
            let from = offset - offset % WRITE_BACK_BYTES;
            begin_write_back(&opened.file, from, behind - from);
        }
        Ok(())
    }

    fn sync(&self, file: &str) -> Result<(), StateError> {
        let opened = self.file(file)?;
        opened.file.sync_all().map_err(|e| self.site.io(e))?;
        opened.synced.store(true, Ordering::Release);
        Ok(())
    }

    /// The former copy goes first, by a rename: a crash in between leaves no copy, or the new one.
    fn finish(self: Box<Self>) -> Result<(), StateError> {
        for opened in self.files.lock().values() {
            if !opened.synced.load(Ordering::Acquire) {
                opened.file.sync_all().map_err(|e| self.site.io(e))?;
            }
        }
        sync_dir(&self.dir).map_err(|e| self.site.io(e))?;
        let gone = self.site.path.with_extension(GONE);
        remove_dir(&gone).map_err(|e| self.site.io(e))?;
        match std::fs::rename(&self.site.path, &gone) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => other.map_err(|e| self.site.io(e))?,
        }
        std::fs::rename(&self.dir, &self.site.path).map_err(|e| self.site.io(e))?;
        self.site
            .path
            .parent()
            .map_or(Ok(()), sync_dir)
            .map_err(|e| self.site.io(e))?;
        remove_dir(&gone).map_err(|e| self.site.io(e))
    }
}

fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}
