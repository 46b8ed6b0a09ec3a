//! The state directory: locked by one process, and which sessions it has held.
use super::error::RuntimeError;
use crate::types::Incarnation;
use crate::types::ids::parse_hex_u64;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The locked state directory of this instance.
#[derive(Debug)]
pub struct Instance {
    dir: PathBuf,
    /// Held for as long as the process lives.
    lock: File,
    incarnations: Vec<Incarnation>,
}

/// Sessions remembered; a pointer older than that is treated as another instance's.
const REMEMBERED: usize = 32;
/// Bytes of a block of most file systems; all the small files here together are less.
const PROBE: usize = 4096;

fn error(path: &Path, reason: impl ToString) -> RuntimeError {
    RuntimeError::StateDir {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

fn of_machine(path: &Path, reason: &std::io::Error) -> RuntimeError {
    error(path, format!("{reason}; make room or make it writable"))
}

impl Instance {
    /// Locks `dir`, creating it if needed, and writes to it: an instance whose disk is full or read-only must not get as far as the group,
    /// where it would hold partitions that it cannot work on.
    ///
    /// # Errors
    /// When another process holds it, or it cannot be written.
    pub fn lock(dir: &Path) -> Result<Instance, RuntimeError> {
        fs::create_dir_all(dir).map_err(|e| of_machine(dir, &e))?;
        let path = dir.join("LOCK");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| of_machine(&path, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(error(
                    dir,
                    "another process uses it; give every instance a state directory of its own to run more than one",
                ));
            }
            Err(TryLockError::Error(e)) => return Err(error(&path, e)),
        }
        probe(&dir.join("probe"))?;
        let text = fs::read_to_string(dir.join("sessions")).unwrap_or_default();
        let parse = |line: &str| parse_hex_u64(line, "session").ok().map(Incarnation);
        let incarnations = text.lines().filter_map(parse).collect();
        Ok(Instance {
            dir: dir.to_owned(),
            lock: file,
            incarnations,
        })
    }

    /// Whether the directory is the one that was locked: the lock of one that was removed keeps nobody out.
    ///
    /// # Errors
    /// When it was removed or replaced.
    pub fn check(&self) -> Result<(), RuntimeError> {
        let path = self.dir.join("LOCK");
        let (held, there) = (self.lock.metadata(), fs::metadata(&path));
        match (held, there) {
            (Ok(held), Ok(there)) if (held.dev(), held.ino()) != (there.dev(), there.ino()) => {}
            (_, Err(e)) if e.kind() == ErrorKind::NotFound => {}
            _ => return Ok(()),
        }
        Err(RuntimeError::Machine(format!(
            "{} was removed or replaced under the running process, so its lock keeps no other process out any more. What is committed lies in the \
             checkpoint store: start again, and leave the state directory alone while a process runs on it",
            self.dir.display()
        )))
    }

    /// Whether a session was held from this directory: as the directory is locked, its process is gone for certain.
    #[must_use]
    pub fn held(&self, incarnation: Incarnation) -> bool {
        self.incarnations.contains(&incarnation)
    }

    /// Whether any session was ever held from this directory.
    #[must_use]
    pub fn held_any(&self) -> bool {
        !self.incarnations.is_empty()
    }

    /// The instance's name among the members of its group: the configured one, else one that was drawn once and is kept here.
    ///
    /// # Errors
    /// When the name cannot be kept, or is none.
    pub fn name(&self, configured: Option<&str>) -> Result<String, RuntimeError> {
        let path = self.dir.join("instance");
        let kept = fs::read_to_string(&path).ok().map(|text| text.trim().to_owned());
        let name = match (configured, kept) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) if is_name(&name) => name,
            (None, _) => {
                let drawn = crate::checkpoint::store::random().map_err(|e| error(&path, e))?;
                let name = format!("{drawn:016x}");
                self.replace("instance", &format!("{name}\n"))?;
                name
            }
        };
        if is_name(&name) {
            return Ok(name);
        }
        let reason = format!("instance {name:?}: use 1 to 64 characters of A-Z, a-z, 0-9, - and _");
        Err(RuntimeError::CannotGoOn(reason))
    }

    /// Remembers a session, durably, before anything is committed in it.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn remember(&mut self, incarnation: Incarnation) -> Result<(), RuntimeError> {
        let mut incarnations = self.incarnations.clone();
        incarnations.push(incarnation);
        let from = incarnations.len().saturating_sub(REMEMBERED);
        incarnations.drain(..from);
        let text: String = incarnations.iter().map(|i| format!("{:016x}\n", i.0)).collect();
        self.replace("sessions", &text)?;
        self.incarnations = incarnations;
        Ok(())
    }

    /// Puts a small file in place, durably.
    fn replace(&self, name: &str, text: &str) -> Result<(), RuntimeError> {
        let (staged, path) = (self.dir.join(format!("{name}.tmp")), self.dir.join(name));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&staged)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&staged, &path)
        };
        write().map_err(|e| of_machine(&path, &e))
    }
}

/// Writes what the small files of the directory take, durably, and removes it again.
fn probe(path: &Path) -> Result<(), RuntimeError> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(&[0; PROBE])?;
        file.sync_all()
    };
    let written = write();
    let removed = fs::remove_file(path);
    written.and(removed).map_err(|e| of_machine(path, &e))
}

/// Part of a transactional id and of a `group.instance.id`.
fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&name.len()) && name.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_on_the_directory_is_refused_and_sessions_are_remembered() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut first = Instance::lock(dir.path()).expect("free");
        first.remember(Incarnation(7)).expect("room");
        let refused = Instance::lock(dir.path()).expect_err("held");
        assert!(refused.to_string().contains("state directory of its own"), "{refused}");
        drop(first);
        let again = Instance::lock(dir.path()).expect("free again");
        assert!(again.held(Incarnation(7)) && !again.held(Incarnation(8)));
    }

    /// A state directory was removed under a running process. Its lock went with it, and a second process on the path was let in.
    #[test]
    fn a_directory_that_was_removed_or_replaced_is_found_out() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("state");
        let first = Instance::lock(&path).expect("free");
        first.check().expect("there");
        fs::remove_dir_all(&path).expect("removed");
        let gone = first.check().expect_err("removed");
        assert_eq!(gone.exit_code() as i32, 1);
        assert!(gone.to_string().contains("was removed or replaced"), "{gone}");
        let second = Instance::lock(&path).expect("nobody holds it");
        assert!(first.check().is_err());
        second.check().expect("its own");
    }

    /// A full disk was found when the first session was to be remembered, after the group had been joined.
    #[test]
    fn a_directory_that_takes_no_bytes_is_refused_with_the_way_out_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("temp dir");
        std::os::unix::fs::symlink("/dev/full", dir.path().join("probe")).expect("link");
        let refused = Instance::lock(dir.path()).expect_err("no room").to_string();
        assert!(
            refused.contains("No space left") && refused.contains("make room or make it writable"),
            "{refused}"
        );
        drop(Instance::lock(dir.path()).expect("room again"));
        assert!(!dir.path().join("probe").exists());
    }

    #[test]
    fn a_name_is_drawn_once_and_a_configured_one_is_checked() {
        let dir = tempfile::tempdir().expect("temp dir");
        let instance = Instance::lock(dir.path()).expect("free");
        let drawn = instance.name(None).expect("drawn");
        assert_eq!(instance.name(None).expect("kept"), drawn);
        assert_eq!(instance.name(Some("a-1")).expect("given"), "a-1");
        for bad in ["", "a.b", "a b", &"x".repeat(65)] {
            assert!(instance.name(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
