//! Reading and writing big-endian fields. The reader never allocates more than the bytes that are there.
use crate::types::{BaseId, BaseLink, Digest, EpochId, Incarnation, Link, Place};

/// Why bytes do not decode; the caller adds the path.
pub(in crate::checkpoint) type Reason = String;

pub(in crate::checkpoint) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(in crate::checkpoint) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }
    pub(in crate::checkpoint) fn left(&self) -> usize {
        self.bytes.len()
    }
    pub(in crate::checkpoint) fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], Reason> {
        let (head, tail) = self
            .bytes
            .split_at_checked(n)
            .ok_or_else(|| format!("{what} of {n} bytes, {} are left", self.bytes.len()))?;
        self.bytes = tail;
        Ok(head)
    }
    pub(in crate::checkpoint) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Reason> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }
    pub(in crate::checkpoint) fn u8(&mut self, what: &str) -> Result<u8, Reason> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn u16(&mut self, what: &str) -> Result<u16, Reason> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn u32(&mut self, what: &str) -> Result<u32, Reason> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn u64(&mut self, what: &str) -> Result<u64, Reason> {
        Ok(u64::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn i32(&mut self, what: &str) -> Result<i32, Reason> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn i64(&mut self, what: &str) -> Result<i64, Reason> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }
    pub(in crate::checkpoint) fn flag(&mut self, what: &str) -> Result<bool, Reason> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{what} is {other}, not 0 or 1")),
        }
    }
    pub(in crate::checkpoint) fn str16(&mut self, what: &str) -> Result<String, Reason> {
        let len = self.u16(what)?;
        let bytes = self.take(usize::from(len), what)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| format!("{what} is not UTF-8"))
    }
    pub(in crate::checkpoint) fn digest(&mut self, what: &str) -> Result<Digest, Reason> {
        Ok(Digest(self.array(what)?))
    }
    pub(in crate::checkpoint) fn epoch(&mut self) -> Result<EpochId, Reason> {
        let incarnation = Incarnation(self.u64("incarnation")?);
        let n = self.u64("epoch number")?;
        Ok(EpochId { incarnation, n })
    }
    pub(in crate::checkpoint) fn link(&mut self) -> Result<Link, Reason> {
        Ok(Link {
            epoch: self.epoch()?,
            footer: self.digest("footer digest of a link")?,
            sequence: self.u64("sequence of a link")?,
            place: Place {
                offset: self.u64("place of a link")?,
                len: self.u64("place of a link")?,
            },
        })
    }
    pub(in crate::checkpoint) fn base_link(&mut self) -> Result<BaseLink, Reason> {
        Ok(BaseLink {
            id: BaseId(self.u64("id of a base")?),
            digest: self.digest("digest of a base")?,
            sequence: self.u64("sequence of a base")?,
            bytes: self.u64("bytes of a base")?,
        })
    }
    /// `count` items, each of which takes at least `least` bytes; the count is checked before anything is allocated.
    pub(in crate::checkpoint) fn items<T>(
        &mut self,
        count: u64,
        least: usize,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Result<T, Reason>,
    ) -> Result<Vec<T>, Reason> {
        if count > (self.left() / least.max(1)) as u64 {
            return Err(format!("{count} {what} do not fit in {} bytes", self.left()));
        }
        (0..count).map(|_| item(self)).collect()
    }
    pub(in crate::checkpoint) fn end(&self, what: &str) -> Result<(), Reason> {
        match self.bytes.len() {
            0 => Ok(()),
            n => Err(format!("{n} bytes too many at the end of the {what}")),
        }
    }
}

pub(in crate::checkpoint) fn put_str16(out: &mut Vec<u8>, text: &str) -> Result<(), Reason> {
    let len = u16::try_from(text.len()).map_err(|_| format!("a name of {} bytes, at most 65535 fit", text.len()))?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

pub(in crate::checkpoint) fn put_count16(out: &mut Vec<u8>, count: usize, what: &str) -> Result<(), Reason> {
    let count = u16::try_from(count).map_err(|_| format!("{count} {what}, at most 65535 fit"))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

pub(in crate::checkpoint) fn put_count32(out: &mut Vec<u8>, count: usize, what: &str) -> Result<(), Reason> {
    let count = u32::try_from(count).map_err(|_| format!("{count} {what}, at most 4294967295 fit"))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

pub(in crate::checkpoint) fn put_link(out: &mut Vec<u8>, link: &Link) {
    put_epoch(out, &link.epoch);
    out.extend_from_slice(&link.footer.0);
    for field in [link.sequence, link.place.offset, link.place.len] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

pub(in crate::checkpoint) fn put_epoch(out: &mut Vec<u8>, epoch: &EpochId) {
    out.extend_from_slice(&epoch.incarnation.0.to_be_bytes());
    out.extend_from_slice(&epoch.n.to_be_bytes());
}

pub(in crate::checkpoint) fn put_base_link(out: &mut Vec<u8>, base: &BaseLink) {
    out.extend_from_slice(&base.id.0.to_be_bytes());
    out.extend_from_slice(&base.digest.0);
    out.extend_from_slice(&base.sequence.to_be_bytes());
    out.extend_from_slice(&base.bytes.to_be_bytes());
}
