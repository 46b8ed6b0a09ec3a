//! Goes through the bytes of a datum. Nothing is taken that is not there.
use crate::format::error::DecodeError;
use crate::format::{Limits, TOO_MANY_VALUES};

pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    values_left: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8], limits: Limits) -> Cursor<'b> {
        Cursor {
            bytes,
            at: 0,
            values_left: limits.values_max,
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Notes that this many values more are held by arrays and structs.
    pub(super) fn hold(&mut self, values: usize) -> Result<(), DecodeError> {
        match self.values_left.checked_sub(values) {
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
            None => Err(DecodeError::new(TOO_MANY_VALUES).at(self.at)),
        }
    }

    pub(super) fn take(&mut self, size: usize) -> Result<&'b [u8], DecodeError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..size)) {
            Some(taken) => {
                self.at += size;
                Ok(taken)
            }
            None => Err(self.ends(size)),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            Some(taken) => {
                self.at += N;
                Ok(*taken)
            }
            None => Err(self.ends(N)),
        }
    }

    #[cold]
    fn ends(&self, size: usize) -> DecodeError {
        let left = self.left();
        DecodeError::new(format!("the datum ends: {size} bytes are to come, {left} are left")).at(self.at)
    }

    /// A zigzag number of variable length.
    #[inline]
    pub(super) fn long(&mut self) -> Result<i64, DecodeError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let [byte] = self.array()?;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return Err(DecodeError::new("a number of more than 64 bits").at(start));
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn int(&mut self) -> Result<i32, DecodeError> {
        let start = self.at;
        let value = self.long()?;
        i32::try_from(value).map_err(|_| DecodeError::new(format!("{value} is no int of 32 bits")).at(start))
    }

    /// Bytes with their length in front.
    pub(super) fn sized(&mut self) -> Result<&'b [u8], DecodeError> {
        let start = self.at;
        let length = self.long()?;
        let left = self.left();
        match usize::try_from(length) {
            Ok(size) if size <= left => self.take(size),
            _ => Err(DecodeError::new(format!("a length of {length} bytes, where {left} are left")).at(start)),
        }
    }

    /// The next block of an array: how many elements of at least `size_min` bytes, and where it ends if it says so. None at the end.
    pub(super) fn block(&mut self, size_min: usize) -> Result<Option<Block>, DecodeError> {
        let start = self.at;
        let count = self.long()?;
        if count == 0 {
            return Ok(None);
        }
        let mut end = None;
        if count < 0 {
            let bytes = self.long()?;
            let size = usize::try_from(bytes).ok().filter(|size| *size <= self.left());
            let Some(size) = size else {
                let left = self.left();
                return Err(DecodeError::new(format!("a block of {bytes} bytes, where {left} are left")).at(start));
            };
            end = Some(self.at + size);
        }
        let left = end.map_or(self.left(), |end| end - self.at);
        match usize::try_from(count.unsigned_abs()) {
            Ok(count) if count <= left / size_min => Ok(Some(Block { count, end })),
            _ => {
                let count = count.unsigned_abs();
                let what = format!("a block of {count} elements, where {left} bytes are left");
                Err(DecodeError::new(what).at(start))
            }
        }
    }

    /// After the elements of a block: it must end where it said.
    pub(super) fn end_block(&self, block: &Block) -> Result<(), DecodeError> {
        match block.end {
            Some(end) if end != self.at => {
                let what = format!("a block that ends at byte {}, and said {end}", self.at);
                Err(DecodeError::new(what).at(self.at))
            }
            _ => Ok(()),
        }
    }

    /// Skips a block that said its size; false if it did not.
    pub(super) fn skip_block(&mut self, block: &Block) -> bool {
        if let Some(end) = block.end {
            self.at = end;
        }
        block.end.is_some()
    }
}

pub(super) struct Block {
    pub(super) count: usize,
    end: Option<usize>,
}
