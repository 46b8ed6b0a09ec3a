//! The demonstration's directory.
use anyhow::{Context, Result, bail};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Marks a directory whose contents may be removed, and keeps a second demonstration out.
const LOCK_FILE: &str = "demo.lock";

/// Where things lie in the directory.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Of the directory `root`.
    pub fn new(root: &Path) -> Layout {
        Layout {
            root: root.to_path_buf(),
        }
    }
    /// The orders.
    pub fn input(&self) -> PathBuf {
        self.root.join("in")
    }
    /// What the job writes.
    pub fn output(&self) -> PathBuf {
        self.root.join("out")
    }
    /// Local state: RocksDB.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }
    /// The checkpoint store.
    pub fn store(&self) -> PathBuf {
        self.root.join("checkpoints")
    }
    /// What the workers log.
    pub fn log(&self) -> PathBuf {
        self.root.join("worker.log")
    }

    /// Removes what an earlier demonstration left and takes the lock, which is held until the file is dropped.
    ///
    /// # Errors
    /// When another demonstration runs here, or the directory holds something that no demonstration made.
    pub fn make_anew(&self) -> Result<File> {
        let own = [self.input(), self.output(), self.state(), self.store()];
        let lock_path = self.root.join(LOCK_FILE);
        let context = || format!("making {}", self.root.display());
        fs::create_dir_all(&self.root).with_context(context)?;
        if let Some(strange) = own.iter().find(|path| path.exists() && !lock_path.exists()) {
            bail!(
                "{} is there, and no demonstration has made it; choose another --dir",
                strange.display()
            );
        }
        let lock = File::create(&lock_path).with_context(context)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another demonstration runs in {}", self.root.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        for path in own.iter().filter(|path| path.exists()) {
            fs::remove_dir_all(path).with_context(|| format!("removing {}", path.display()))?;
        }
        File::create(self.log()).with_context(context)?;
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_left_is_removed_and_what_others_made_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(dir.path());
        fs::create_dir(layout.output()).expect("made");
        assert!(layout.make_anew().is_err(), "nobody knows whose it is");
        fs::remove_dir(layout.output()).expect("removed");
        let lock = layout.make_anew().expect("made");
        assert!(layout.make_anew().is_err(), "the first still runs");
        fs::create_dir(layout.output()).expect("made");
        drop(lock);
        layout.make_anew().expect("made again");
        assert!(!layout.output().exists());
    }
}
