//! One input file, read line by line through a buffer.
use crate::error::{FilesError, io_error};
use keyfold::types::Position;
use std::fs::{self, File};
use std::io::{BufRead, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// First size of the buffer. Smaller means more reads, larger more memory for each partition; it grows for longer lines only.
const BUFFER_BYTES: usize = 128 << 10;

/// An open input file and how far it was read.
pub(crate) struct PartitionFile {
    partition: i32,
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// The part of the buffer that was read from the file and not handed out.
    pending: Range<usize>,
    /// No newline lies in `pending` before this index.
    scanned: usize,
    /// Offset in the file of the first pending byte; always the start of a line.
    offset: i64,
    line_bytes_max: usize,
    reported_end: Option<i64>,
}

/// A complete line.
pub(crate) struct Line<'a> {
    /// Where its newline is in the file: the engine goes on at offset + 1.
    pub offset: i64,
    /// Without the newline.
    pub bytes: &'a [u8],
}

impl PartitionFile {
    /// Opens the file of a position, which must be at the start of a line.
    pub fn open(dir: &Path, position: &Position, line_bytes_max: usize) -> Result<Self, FilesError> {
        let path = dir.join(format!("{}.jsonl", position.partition));
        let file = File::open(&path).map_err(io_error("open", &path))?;
        check_line_start(&file, &path, position.offset)?;
        Ok(PartitionFile {
            partition: position.partition,
            path,
            file,
            buffer: vec![0; BUFFER_BYTES],
            pending: 0..0,
            scanned: 0,
            offset: position.offset,
            line_bytes_max,
            reported_end: None,
        })
    }

    /// The partition's number.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The next complete line; None at the end of the complete lines. After an error the same line is tried again.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, FilesError> {
        loop {
            let found = find_newline(&self.buffer[self.scanned..self.pending.end]);
            self.scanned = found.map_or(self.pending.end, |at| self.scanned + at);
            let line = self.pending.start..self.scanned;
            if line.len() > self.line_bytes_max {
                let (path, limit) = (self.path.clone(), self.line_bytes_max);
                return Err(FilesError::LineTooLong {
                    path,
                    offset: self.offset,
                    limit,
                });
            }
            if found.is_some() {
                return Ok(Some(self.take(line)));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The end of the complete lines, when it has not been asked for since it moved. To be called when there is no next line.
    pub fn new_end(&mut self) -> Option<i64> {
        let end = Some(self.offset);
        (self.reported_end.replace(self.offset) != end).then_some(self.offset)
    }

    fn take(&mut self, line: Range<usize>) -> Line<'_> {
        let offset = self.offset + line.len() as i64;
        self.offset = offset + 1;
        self.pending.start = line.end + 1;
        self.scanned = self.pending.start;
        Line {
            offset,
            bytes: &self.buffer[line],
        }
    }

    /// Reads more; false when there is nothing more.
    fn fill(&mut self) -> Result<bool, FilesError> {
        self.make_room();
        let position = self.offset as u64 + self.pending.len() as u64;
        let free = &mut self.buffer[self.pending.end..];
        let read = match self.file.read_at(free, position) {
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(true),
            read => read.map_err(io_error("read", &self.path))?,
        };
        if read == 0 {
            self.check_unchanged(position)?;
            return Ok(false);
        }
        self.pending.end += read;
        Ok(true)
    }

    /// Moves what is pending to the front; grows the buffer when one line fills it.
    fn make_room(&mut self) {
        if self.pending.end == self.buffer.len() || self.pending.is_empty() {
            self.buffer.copy_within(self.pending.clone(), 0);
            self.scanned -= self.pending.start;
            self.pending = 0..self.pending.len();
        }
        if self.pending.len() == self.buffer.len() {
            let limit = self.line_bytes_max.saturating_add(1);
            self.buffer.resize(self.buffer.len().saturating_mul(2).min(limit), 0);
        }
    }

    /// At the end of the file: it may only have grown.
    fn check_unchanged(&self, position: u64) -> Result<(), FilesError> {
        let open = self.file.metadata().map_err(io_error("inspect", &self.path))?;
        if open.len() < position {
            return Err(FilesError::Truncated {
                path: self.path.clone(),
                position: self.offset,
                length: open.len(),
            });
        }
        match fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) == (open.dev(), open.ino()) => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(io_error("inspect", &self.path)(e)),
            _ => Err(FilesError::Replaced {
                path: self.path.clone(),
                position: self.offset,
            }),
        }
    }
}

/// Index of the first newline. (`skip_until` searches with the platform's fast search.)
fn find_newline(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let skipped = rest.skip_until(b'\n').ok()?;
    let last = skipped.checked_sub(1)?;
    (bytes.get(last) == Some(&b'\n')).then_some(last)
}

fn check_line_start(file: &File, path: &Path, position: i64) -> Result<(), FilesError> {
    let length = file.metadata().map_err(io_error("inspect", path))?.len();
    let path = path.to_path_buf();
    let Ok(start) = u64::try_from(position) else {
        return Err(FilesError::NotALineStart { path, position, length });
    };
    if start > length {
        return Err(FilesError::Truncated { path, position, length });
    }
    let mut before = [b'\n'];
    if start > 0 {
        file.read_exact_at(&mut before, start - 1)
            .map_err(io_error("read", &path))?;
    }
    if before == [b'\n'] {
        Ok(())
    } else {
        Err(FilesError::NotALineStart { path, position, length })
    }
}
