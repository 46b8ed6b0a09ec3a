//! Images of copies in memory: one file of rows, `applied | (key length u32 | value length u32 | key | value)*`.
use super::{Copy, Rows, damaged, io_error};
use crate::state::StateError;
use crate::state::backend::{Applied, Image, ImageFile, Rebuild};
use crate::types::{Digest, EpochId, Incarnation, Shard};
use parking_lot::Mutex;
use std::sync::Arc;

const FILE: &str = "rows";

pub(super) struct RowsImage {
    applied: Applied,
    files: [ImageFile; 1],
    bytes: Vec<u8>,
}

impl RowsImage {
    /// None for an empty copy.
    pub fn of(rows: &Rows) -> Option<RowsImage> {
        let applied = rows.applied?;
        let mut bytes = Vec::new();
        for field in [
            applied.job,
            applied.shard.0.into(),
            applied.sequence,
            applied.epoch.incarnation.0,
            applied.epoch.n,
        ] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
        bytes.extend_from_slice(&applied.footer.0);
        for (key, value) in &rows.entries {
            for part in [key, value] {
                bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
            }
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
        }
        let files = [ImageFile {
            name: FILE.to_owned(),
            bytes: bytes.len() as u64,
            lasts: false,
        }];
        Some(RowsImage { applied, files, bytes })
    }
}

impl Image for RowsImage {
    fn applied(&self) -> Applied {
        self.applied
    }
    fn files(&self) -> &[ImageFile] {
        &self.files
    }
    fn read(&self, _: &str, offset: u64, len: usize) -> Result<Vec<u8>, StateError> {
        let from = self.bytes.get(offset as usize..).unwrap_or_default();
        Ok(from.iter().take(len).copied().collect())
    }
    fn verify(&self) -> Result<(), StateError> {
        Ok(())
    }
}

pub(super) struct RowsRebuild {
    shard: Shard,
    copy: Arc<Mutex<Copy>>,
    bytes: Mutex<Vec<u8>>,
}

impl RowsRebuild {
    pub fn new(shard: Shard, copy: Arc<Mutex<Copy>>) -> RowsRebuild {
        RowsRebuild {
            shard,
            copy,
            bytes: Mutex::default(),
        }
    }
}

impl Rebuild for RowsRebuild {
    fn write(&self, file: &str, offset: u64, part: &[u8]) -> Result<(), StateError> {
        if file != FILE {
            return Err(damaged(self.shard, format!("an image in memory has no file {file:?}")));
        }
        let mut bytes = self.bytes.lock();
        let (from, to) = (offset as usize, offset as usize + part.len());
        if bytes.len() < to {
            bytes.resize(to, 0);
        }
        bytes[from..to].copy_from_slice(part);
        Ok(())
    }

    fn sync(&self, _: &str) -> Result<(), StateError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StateError> {
        let rows = decode(&self.bytes.lock()).ok_or_else(|| damaged(self.shard, "its image is cut short"))?;
        let mut copy = self.copy.lock();
        if copy.open {
            return Err(io_error(self.shard, "cannot be replaced while it is open"));
        }
        *copy = Copy {
            flushed: rows.clone(),
            live: rows,
            ..Copy::default()
        };
        Ok(())
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(count)?;
    *bytes = tail;
    Some(head)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes, 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)
}

fn length(bytes: &mut &[u8]) -> Option<usize> {
    let length = take(bytes, 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes)?;
    usize::try_from(length).ok()
}

fn decode(mut bytes: &[u8]) -> Option<Rows> {
    let bytes = &mut bytes;
    let (job, shard) = (number(bytes)?, Shard(u32::try_from(number(bytes)?).ok()?));
    let sequence = number(bytes)?;
    let (incarnation, n) = (Incarnation(number(bytes)?), number(bytes)?);
    let mut rows = Rows {
        applied: Some(Applied {
            job,
            shard,
            sequence,
            epoch: EpochId { incarnation, n },
            footer: Digest(take(bytes, 16)?.try_into().ok()?),
        }),
        ..Rows::default()
    };
    while !bytes.is_empty() {
        let (key, value) = (length(bytes)?, length(bytes)?);
        let key = take(bytes, key)?.to_vec();
        rows.entries.insert(key, take(bytes, value)?.to_vec());
    }
    Some(rows)
}
