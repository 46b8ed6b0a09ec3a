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

    fn write(&self, buffer: &OutputBuffer) -> Result<Spilled, SpillError> {
        let path = self.path.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let count = buffer.blocks().map(OutputFrames::len).sum();
        let spilled = Spilled { path, count };
        let mut file = fs::File::create(&spilled.path).map_err(|e| spill_error(&spilled.path, &e))?;
        buffer
            .blocks()
            .try_for_each(|block| file.write_all(block.bytes()))
            .map_err(|e| spill_error(&spilled.path, &e))?;
        Ok(spilled)
    }
}

/// Outputs lie in blocks of at most this size, or of one output that is larger. An epoch may have a hundred megabytes of them, and memory of that
/// size comes from the system anew each time; blocks of this one the allocator keeps.
const BLOCK_BYTES: usize = 1 << 20;

/// The outputs of one lane and shard in one epoch, in order.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    spilled: Vec<Spilled>,
    /// Behind what was spilled: full blocks, then the one that is being filled.
    full: Vec<OutputFrames>,
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
        self.make_room(out.frame_bytes());
        self.tail.push(out);
    }

    /// Appends a run of outputs.
    pub fn append(&mut self, frames: &OutputFrames) {
        self.make_room(frames.bytes().len());
        self.tail.append(frames);
    }

    /// A block ends before what does not fit into it any more.
    fn make_room(&mut self, bytes: usize) {
        if !self.tail.is_empty() && self.tail.bytes().len() + bytes > BLOCK_BYTES {
            let mut next = OutputFrames::default();
            next.reserve(BLOCK_BYTES.max(bytes));
            self.full.push(std::mem::replace(&mut self.tail, next));
        }
    }

    /// Number of outputs.
    #[must_use]
    pub fn len(&self) -> u64 {
        let in_memory: u64 = self.blocks().map(OutputFrames::len).sum();
        in_memory + self.spilled.iter().map(|s| s.count).sum::<u64>()
    }

    /// No outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks().map(|block| block.bytes().len()).sum()
    }

    fn blocks(&self) -> impl Iterator<Item = &OutputFrames> {
        self.full.iter().chain([&self.tail])
    }

    /// Moves what is in memory to a file.
    ///
    /// # Errors
    /// [`SpillError`]; the outputs stay in memory then.
    pub fn spill(&mut self, dir: &SpillDir) -> Result<(), SpillError> {
        if self.bytes() > 0 {
            self.spilled.push(dir.write(self)?);
            self.full.clear();
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
        self.blocks().try_for_each(|block| walk_frames(block, visit))
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

    /// Runs that fill several blocks, some of them larger than one, before and behind what was spilled.
    #[test]
    fn outputs_of_many_blocks_come_back_in_order() {
        let dir = tempfile::tempdir().expect("temp dir");
        let spill = SpillDir::create(&dir.path().join("spill")).expect("spill dir");
        let mut buffer = OutputBuffer::default();
        let keys: Vec<Vec<u8>> = (0..40u8)
            .map(|n| vec![n; (usize::from(n) + 1) * BLOCK_BYTES / 16])
            .collect();
        for (n, key) in keys.iter().enumerate() {
            buffer.push(&out(key));
            if n == 20 {
                assert!(buffer.full.len() > 2);
                buffer.spill(&spill).expect("room");
                assert_eq!(buffer.bytes(), 0);
            }
        }
        assert!(buffer.full.len() > 2);
        assert_eq!(buffer.len(), 40);
        let mut seen = Vec::new();
        let mut visit = |o: &OutputRef<'_>| {
            seen.push(o.key.unwrap_or_default().to_vec());
            Ok::<(), ()>(())
        };
        buffer.walk(&mut visit).expect("whole");
        assert!(seen == keys);
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
