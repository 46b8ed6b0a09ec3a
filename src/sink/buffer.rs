//! Outputs of one lane and shard until the epoch is published. What goes beyond the memory limit is spilled to files in the state
//! directory and published from there.
use crate::types::OutputRef;
use crate::types::output::{DamagedFrame, OutputFrames};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames in a file, removed when dropped.
#[derive(Debug)]
struct Spilled {
    path: PathBuf,
    count: u64,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // A file that stays is removed with the whole folder at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Names spill files. One per runtime.
#[derive(Debug, Clone)]
pub struct SpillDir {
    path: Arc<PathBuf>,
    next: Arc<AtomicU64>,
}

/// A spill file that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("spill file {path}: {reason}; make room in the state directory")]
pub struct SpillError {
    /// The file.
    pub path: String,
    /// What the system said.
    pub reason: String,
}

fn spill_error(path: &Path, reason: &dyn std::fmt::Display) -> SpillError {
    SpillError {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

impl SpillDir {
    /// Makes `path` anew, empty: what an earlier process left is of no use.
    ///
    /// # Errors
    /// [`SpillError`]
    pub fn create(path: &Path) -> Result<SpillDir, SpillError> {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(spill_error(path, &e)),
            _ => {}
        }
        fs::create_dir_all(path).map_err(|e| spill_error(path, &e))?;
        Ok(SpillDir {
            path: Arc::new(path.to_owned()),
            next: Arc::default(),
        })
    }

    fn write(&self, frames: &OutputFrames) -> Result<Spilled, SpillError> {
        let path = self.path.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let spilled = Spilled {
            path,
            count: frames.len(),
        };
        let mut file = fs::File::create(&spilled.path).map_err(|e| spill_error(&spilled.path, &e))?;
        file.write_all(frames.bytes())
            .map_err(|e| spill_error(&spilled.path, &e))?;
        Ok(spilled)
    }
}

/// The outputs of one lane and shard in one epoch, in order.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    spilled: Vec<Spilled>,
    tail: OutputFrames,
}

/// Why a walk over a buffer ended early.
#[derive(Debug, thiserror::Error)]
pub enum WalkError<E> {
    /// The visitor's own error.
    #[error("{0}")]
    Visitor(E),
    /// A spill file cannot be read back.
    #[error("{0}")]
    Spill(SpillError),
    /// Frames in memory or in a spill file are damaged.
    #[error("{0}")]
    Damaged(#[from] DamagedFrame),
}

impl OutputBuffer {
    /// Appends an output.
    pub fn push(&mut self, out: &OutputRef<'_>) {
        self.tail.push(out);
    }

    /// An empty one with room for what `last` has in memory: epochs are alike, and a buffer that doubles copies what it has.
    #[must_use]
    pub fn like(last: &OutputBuffer) -> OutputBuffer {
        let mut buffer = OutputBuffer::default();
        buffer.tail.reserve(last.bytes());
        buffer
    }

    /// Appends a run of outputs.
    pub fn append(&mut self, frames: &OutputFrames) {
        self.tail.append(frames);
    }

    /// Number of outputs.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tail.len() + self.spilled.iter().map(|s| s.count).sum::<u64>()
    }

    /// No outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tail.bytes().len()
    }

    /// The frames in memory; all of them when nothing was spilled.
    #[must_use]
    pub fn frames(&self) -> &OutputFrames {
        &self.tail
    }

    /// Moves what is in memory to a file.
    ///
    /// # Errors
    /// [`SpillError`]; the outputs stay in memory then.
    pub fn spill(&mut self, dir: &SpillDir) -> Result<(), SpillError> {
        if !self.tail.is_empty() {
            self.spilled.push(dir.write(&self.tail)?);
            self.tail = OutputFrames::default();
        }
        Ok(())
    }

    /// Visits all outputs in order, one spill file in memory at a time.
    ///
    /// # Errors
    /// [`WalkError`]
    pub fn walk<E>(&self, visit: &mut dyn FnMut(&OutputRef<'_>) -> Result<(), E>) -> Result<(), WalkError<E>> {
        for file in &self.spilled {
            let bytes = fs::read(&file.path).map_err(|e| WalkError::Spill(spill_error(&file.path, &e)))?;
            let frames = OutputFrames::from_parts(bytes, file.count);
            walk_frames(&frames, visit)?;
        }
        walk_frames(&self.tail, visit)
    }
}

fn walk_frames<E>(
    frames: &OutputFrames,
    visit: &mut dyn FnMut(&OutputRef<'_>) -> Result<(), E>,
) -> Result<(), WalkError<E>> {
    let mut seen = 0;
    for out in frames.iter() {
        visit(&out?).map_err(WalkError::Visitor)?;
        seen += 1;
    }
    // A file cut at a frame's border parses well: the count tells.
    if seen == frames.len() {
        Ok(())
    } else {
        Err(DamagedFrame.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(key: &[u8]) -> OutputRef<'_> {
        OutputRef {
            sink: 0,
            timestamp: 1,
            partition: -1,
            key: Some(key),
            value: None,
            headers: b"",
        }
    }

    #[test]
    fn spilled_outputs_come_back_in_order_and_a_cut_file_is_an_error() {
        let dir = tempfile::tempdir().expect("temp dir");
        let spill = SpillDir::create(&dir.path().join("spill")).expect("spill dir");
        let mut buffer = OutputBuffer::default();
        for (i, key) in [b"a", b"b", b"c"].iter().enumerate() {
            buffer.push(&out(*key));
            if i < 2 {
                buffer.spill(&spill).expect("room");
            }
        }
        assert_eq!((buffer.len(), buffer.bytes() > 0), (3, true));
        let mut seen = Vec::new();
        let mut visit = |o: &OutputRef<'_>| {
            seen.push(o.key.unwrap_or_default().to_vec());
            Ok::<(), ()>(())
        };
        buffer.walk(&mut visit).expect("whole");
        assert_eq!(seen, [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
        fs::write(&buffer.spilled[0].path, b"").expect("cut");
        assert!(matches!(
            buffer.walk(&mut |_| Ok::<(), ()>(())),
            Err(WalkError::Damaged(_))
        ));
        let path = buffer.spilled[1].path.clone();
        drop(buffer);
        assert!(!path.exists());
    }
}
