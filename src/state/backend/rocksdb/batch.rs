//! Write batches in RocksDB's own encoding, which its log keeps on disk and so does not change (`db/write_batch.cc`): `sequence u64 | count u32`,
//! little-endian, then for each change `1 | key | value` or `0 | key`, keys and values behind their lengths as varints.
//!
//! An epoch has hundreds of thousands of changes, and a call into the library for each of them takes about as long as all that is written here.
use crate::state::Change;
use rocksdb::WriteBatch;

const HEADER_BYTES: usize = 12;
const COUNT_AT: usize = 8;
const PUT: u8 = 1;
const DELETE: u8 = 0;

/// A batch while it is being put together.
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            bytes: vec![0; HEADER_BYTES],
            count: 0,
        }
    }

    pub fn add(&mut self, change: &Change<'_>) {
        match change.value {
            Some(value) => {
                self.bytes.push(PUT);
                self.put(change.key);
                self.put(value);
            }
            None => {
                self.bytes.push(DELETE);
                self.put(change.key);
            }
        }
        self.count += 1;
    }

    fn put(&mut self, bytes: &[u8]) {
        let mut len = bytes.len();
        while len >= 0x80 {
            self.bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        self.bytes.push(len as u8);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn finish(mut self) -> WriteBatch {
        self.bytes[COUNT_AT..HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        WriteBatch::from_data(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library's own batch is the reference: lengths around the borders of a varint, values that are empty, deletions.
    #[test]
    fn a_batch_is_byte_for_byte_what_the_library_makes() {
        let mut ours = Batch::new();
        let mut theirs = WriteBatch::default();
        for len in [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152] {
            let (key, value) = (vec![b'k'; len], vec![b'v'; len]);
            ours.add(&Change {
                key: &key,
                value: Some(&value),
            });
            theirs.put(&key, &value);
            ours.add(&Change { key: &key, value: None });
            theirs.delete(&key);
        }
        let ours = ours.finish();
        assert_eq!((ours.len(), ours.data()), (theirs.len(), theirs.data()));
        assert_eq!(Batch::new().finish().data(), WriteBatch::default().data());
    }
}
