//! Reading an epoch object: from bytes, or piece by piece from a store.
use super::bytes::{Reader, Reason};
use super::encode::follows;
use super::{
    Based, DELETED, END_MAGIC, FORMAT, FormatError, HEAD_MAGIC, Header, Section, SectionEntry, StateInfo, TRAILER_BYTES,
};
use crate::checkpoint::store::{ObjectPath, Store, StoreError};
use crate::state::{Change, ChangeSet};
use crate::types::{Digest, EpochId, KeyGroups, Link, OutputFrames, Partitioner, Place, Position, Shard, TopicInfo};

/// An object cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ObjectError {
    /// The store failed, or has no such object.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes are not those that were written.
    #[error(transparent)]
    Format(#[from] FormatError),
}

enum Input<'a> {
    Bytes(&'a [u8]),
    Store(&'a dyn Store, &'a ObjectPath),
}

impl Input<'_> {
    fn size(&self) -> Result<u64, StoreError> {
        match self {
            Input::Bytes(bytes) => Ok(bytes.len() as u64),
            Input::Store(store, path) => store.size(path),
        }
    }
    /// Exactly `len` bytes, or None when the object ends before. `len` was checked against the object's size.
    fn read(&self, offset: u64, len: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes = match self {
            Input::Bytes(bytes) => slice(bytes, offset, len).map(<[u8]>::to_vec),
            Input::Store(store, path) => Some(store.get_range(path, offset, len)?),
        };
        Ok(bytes.filter(|b| b.len() as u64 == len))
    }
}

fn slice(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
}

/// An epoch object whose footer and header have been verified.
pub struct ObjectReader<'a> {
    input: Input<'a>,
    path: String,
    header: Header,
    footer: Digest,
    sections: Vec<SectionEntry>,
}

impl<'a> ObjectReader<'a> {
    /// Reads and verifies footer and header of an object in a store. `expected` is the footer digest of the link or pointer that
    /// led here; None (for look-ups that use nothing of the object but its header) takes the footer as it is.
    ///
    /// # Errors
    /// [`ObjectError`], naming the path.
    pub fn open(store: &'a dyn Store, path: &'a ObjectPath, expected: Option<Digest>) -> Result<Self, ObjectError> {
        Self::read(Input::Store(store, path), path.to_string(), expected)
    }

    /// The same for an object in memory; `path` is for messages.
    ///
    /// # Errors
    /// [`ObjectError::Format`]
    pub fn from_bytes(bytes: &'a [u8], path: &str, expected: Option<Digest>) -> Result<Self, ObjectError> {
        Self::read(Input::Bytes(bytes), path.to_owned(), expected)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Digest of the footer.
    #[must_use]
    pub fn footer(&self) -> Digest {
        self.footer
    }

    /// The sections, in order of shard.
    #[must_use]
    pub fn sections(&self) -> &[SectionEntry] {
        &self.sections
    }

    /// The link to a shard's section: in this object when it has one, else through the header's table of last committed sections.
    #[must_use]
    pub fn link(&self, shard: Shard) -> Option<Link> {
        let here = self.sections.iter().find(|e| e.shard == shard).map(|e| e.link);
        here.or_else(|| {
            self.header
                .last_committed
                .iter()
                .find(|(s, _)| *s == shard)
                .map(|(_, link)| *link)
        })
    }

    /// The section that a shard's section here was built on, if the object has one of it. Nearly always the header tells, and the section need
    /// not be read: what was committed last when the object was built is what its sections are built on.
    ///
    /// # Errors
    /// [`ObjectError`], naming the path.
    pub fn parent(&self, shard: Shard) -> Result<Option<Option<Link>>, ObjectError> {
        let Some(entry) = self.sections.iter().find(|e| e.shard == shard) else {
            return Ok(None);
        };
        let last = self.header.last_committed.iter().find(|(s, _)| *s == shard);
        if let Some((_, link)) = last.filter(|(_, link)| link.sequence.checked_add(1) == Some(entry.link.sequence)) {
            return Ok(Some(Some(*link)));
        }
        Ok(self.section_without_changes(shard)?.map(|section| section.parent))
    }

    /// Reads, verifies and decodes a shard's section; None when the object has none.
    ///
    /// # Errors
    /// [`ObjectError`], naming the path.
    pub fn section(&self, shard: Shard) -> Result<Option<Section>, ObjectError> {
        self.section_with(shard, true)
    }

    /// The same without its changes, which are verified but not decoded.
    ///
    /// # Errors
    /// [`ObjectError`], naming the path.
    pub fn section_without_changes(&self, shard: Shard) -> Result<Option<Section>, ObjectError> {
        self.section_with(shard, false)
    }

    fn section_with(&self, shard: Shard, changes: bool) -> Result<Option<Section>, ObjectError> {
        let Some(entry) = self.sections.iter().find(|e| e.shard == shard) else {
            return Ok(None);
        };
        let Place { offset, len } = entry.link.place;
        let damaged = |reason: Reason| damaged(&self.path, format!("section of shard {shard}: {reason}"));
        let bytes = self
            .input
            .read(offset, len)?
            .ok_or_else(|| damaged("the object ends before it does".into()))?;
        if Digest::of(&bytes) != entry.digest {
            return Err(damaged("its digest is not the footer's".into()).into());
        }
        let section = decode_section(&bytes, self.header.genesis, changes).map_err(damaged)?;
        if section.shard != shard || section.sequence != entry.link.sequence {
            return Err(damaged(format!("says shard {} sequence {}", section.shard, section.sequence)).into());
        }
        Ok(Some(section))
    }

    fn read(input: Input<'a>, path: String, expected: Option<Digest>) -> Result<Self, ObjectError> {
        let size = input.size()?;
        let (body, body_at) = read_footer_body(&input, &path, size)?;
        let footer = Digest::of(&body);
        if expected.is_some_and(|e| e != footer) {
            let reason = format!(
                "its footer has digest {footer}, the link to it says {}",
                expected.unwrap_or(footer)
            );
            return Err(damaged(&path, reason).into());
        }
        let Footer {
            header_len,
            header_digest,
            mut sections,
        } = decode_footer(&body, body_at, footer).map_err(|reason| damaged(&path, format!("footer: {reason}")))?;
        let cut = || damaged(&path, "the header is cut short".into());
        let bytes = input.read(0, header_len)?.ok_or_else(cut)?;
        let header = verify_header(&bytes, header_digest, &path)?;
        for entry in &mut sections {
            entry.link.epoch = header.epoch;
            if entry.shard.0 >= header.groups.shards {
                return Err(damaged(&path, format!("shard {} of {}", entry.shard, header.groups.shards)).into());
            }
        }
        Ok(ObjectReader {
            input,
            path,
            header,
            footer,
            sections,
        })
    }
}

fn damaged(path: &str, reason: String) -> FormatError {
    FormatError::Damaged {
        path: path.to_owned(),
        reason,
    }
}

/// A magic's last byte is its format: a later one is named, anything else is damage.
fn check_magic(found: &[u8], want: &[u8; 8], path: &str) -> Result<(), FormatError> {
    if found == want {
        return Ok(());
    }
    match found {
        [stem @ .., format @ b'2'..=b'9'] if want.starts_with(stem) => Err(FormatError::Newer {
            path: path.to_owned(),
            format: char::from(*format).to_string(),
        }),
        _ => Err(damaged(
            path,
            "it does not begin and end like an epoch object; it may be cut short".into(),
        )),
    }
}

fn read_footer_body(input: &Input<'_>, path: &str, size: u64) -> Result<(Vec<u8>, u64), ObjectError> {
    let cut = || damaged(path, format!("it is cut short, at {size} bytes"));
    let trailer_at = size.checked_sub(TRAILER_BYTES).ok_or_else(cut)?;
    let trailer = input.read(trailer_at, TRAILER_BYTES)?.ok_or_else(cut)?;
    let (len, magic) = trailer.split_at(4);
    check_magic(magic, END_MAGIC, path)?;
    let len = u64::from(
        Reader::new(len)
            .u32("footer length")
            .map_err(|reason| damaged(path, reason))?,
    );
    let body_at = trailer_at.checked_sub(len).ok_or_else(cut)?;
    let body = input.read(body_at, len)?.ok_or_else(cut)?;
    Ok((body, body_at))
}

struct Footer {
    header_len: u64,
    header_digest: Digest,
    sections: Vec<SectionEntry>,
}

/// Header, sections and footer must lie one behind the other without a gap.
fn decode_footer(body: &[u8], body_at: u64, footer: Digest) -> Result<Footer, Reason> {
    let mut r = Reader::new(body);
    let format = r.u8("format")?;
    if format != FORMAT {
        return Err(format!("format {format}, expected {FORMAT}"));
    }
    let header_len = r.u64("header length")?;
    let header_digest = r.digest("header digest")?;
    let count = r.u32("sections")?;
    let mut at = header_len;
    let mut last = None;
    let sections = r.items(count.into(), 44, "sections", |r| {
        let shard = Shard(r.u32("shard")?);
        let sequence = r.u64("sequence")?;
        let place = Place {
            offset: r.u64("offset")?,
            len: r.u64("length")?,
        };
        let digest = r.digest("section digest")?;
        if place.offset != at || last >= Some(shard) {
            return Err(format!("the section of shard {shard} is out of place"));
        }
        last = Some(shard);
        at = at.checked_add(place.len).ok_or("a section is too long")?;
        let epoch = EpochId {
            incarnation: crate::types::Incarnation(0),
            n: 0,
        };
        Ok(SectionEntry {
            shard,
            link: Link {
                epoch,
                footer,
                sequence,
                place,
            },
            digest,
        })
    })?;
    r.end("footer")?;
    if at != body_at {
        return Err(format!("sections end at {at}, the footer begins at {body_at}"));
    }
    Ok(Footer {
        header_len,
        header_digest,
        sections,
    })
}

fn verify_header(bytes: &[u8], digest: Digest, path: &str) -> Result<Header, FormatError> {
    check_magic(bytes.get(..8).unwrap_or_default(), HEAD_MAGIC, path)?;
    if Digest::of(bytes) != digest {
        return Err(damaged(path, "the digest of its header is not the footer's".into()));
    }
    decode_header(bytes.get(8..).unwrap_or_default()).map_err(|reason| damaged(path, format!("header: {reason}")))
}

/// Fails unless `key` is greater than the one before it.
fn ascending<K: PartialOrd>(last: &mut Option<K>, key: K, what: &str) -> Result<(), Reason> {
    if last.as_ref().is_some_and(|l| *l >= key) {
        return Err(format!("{what} are not in order"));
    }
    *last = Some(key);
    Ok(())
}

fn decode_header(bytes: &[u8]) -> Result<Header, Reason> {
    let mut r = Reader::new(bytes);
    if r.u32("header length")? as usize != r.left() {
        return Err("its length is not the footer's".into());
    }
    let header = Header {
        job: r.str16("job")?,
        stage: r.str16("stage")?,
        epoch: r.epoch()?,
        genesis: r.flag("genesis")?,
        topology: r.u64("topology fingerprint")?,
        groups: decode_groups(&mut r)?,
        topics: decode_topics(&mut r)?,
        states: decode_states(&mut r)?,
        outbox_sinks: decode_outbox_sinks(&mut r)?,
        last_committed: decode_last_committed(&mut r)?,
    };
    r.end("header")?;
    Ok(header)
}

pub(super) fn decode_groups(r: &mut Reader<'_>) -> Result<KeyGroups, Reason> {
    let max_parallelism = r.u32("G")?;
    let shards = r.u32("S")?;
    let partitioner = match r.u8("partitioner")? {
        0 => Partitioner::Murmur2,
        1 => Partitioner::Crc32,
        2 => Partitioner::Unknown,
        other => return Err(format!("partitioner {other} is unknown")),
    };
    KeyGroups::new(max_parallelism, shards, partitioner)
}

fn decode_topics(r: &mut Reader<'_>) -> Result<Vec<TopicInfo>, Reason> {
    let count = r.u16("topics")?;
    let mut last = None;
    r.items(count.into(), 22, "topics", |r| {
        let info = TopicInfo {
            topic: r.str16("topic")?,
            id: r.array("topic id")?,
            partitions: r.u32("partitions")?,
        };
        ascending(&mut last, info.topic.clone(), "topics")?;
        Ok(info)
    })
}

fn decode_states(r: &mut Reader<'_>) -> Result<Vec<StateInfo>, Reason> {
    let count = r.u16("states")?;
    let mut last = None;
    r.items(count.into(), 8, "states", |r| {
        let id = r.u16("state id")?;
        ascending(&mut last, id, "states")?;
        Ok(StateInfo {
            id,
            operator: r.str16("operator")?,
            name: r.str16("state name")?,
            schema: r.str16("schema")?,
        })
    })
}

fn decode_outbox_sinks(r: &mut Reader<'_>) -> Result<Vec<(u16, String)>, Reason> {
    let count = r.u16("outbox sinks")?;
    let mut last = None;
    r.items(count.into(), 4, "outbox sinks", |r| {
        let index = r.u16("index of an outbox sink")?;
        ascending(&mut last, index, "outbox sinks")?;
        Ok((index, r.str16("outbox sink")?))
    })
}

fn decode_last_committed(r: &mut Reader<'_>) -> Result<Vec<(Shard, Link)>, Reason> {
    let count = r.u32("last committed sections")?;
    let mut last = None;
    r.items(count.into(), 60, "last committed sections", |r| {
        let shard = Shard(r.u32("shard")?);
        ascending(&mut last, shard, "last committed sections")?;
        Ok((shard, r.link()?))
    })
}

fn decode_section(bytes: &[u8], genesis: bool, with_changes: bool) -> Result<Section, Reason> {
    let mut r = Reader::new(bytes);
    let shard = Shard(r.u32("shard")?);
    let sequence = r.u64("sequence")?;
    let parent = if r.flag("parent present")? {
        Some(r.link()?)
    } else {
        None
    };
    if !follows(genesis, parent.as_ref(), sequence) {
        return Err(format!("sequence {sequence} does not follow its parent"));
    }
    let positions = decode_positions(&mut r)?;
    let watermark = Some(r.i64("watermark")?).filter(|w| *w != i64::MIN);
    let len = r.u32("operator state")?;
    let operator_state = r.take(len as usize, "operator state")?.to_vec();
    let base = decode_base(&mut r, sequence)?;
    let outbox_delivered = r.u64("outbox delivered")?;
    let count = r.u64("outbox count")?;
    let outbox = decode_outbox(count, decode_block(&mut r)?)?;
    let changes = if with_changes {
        decode_changes(&mut r)?
    } else {
        ChangeSet::default()
    };
    if with_changes {
        r.end("section")?;
    }
    Ok(Section {
        shard,
        sequence,
        parent,
        positions,
        watermark,
        operator_state,
        base,
        outbox_delivered,
        outbox,
        changes,
    })
}

fn decode_base(r: &mut Reader<'_>, sequence: u64) -> Result<Option<Based>, Reason> {
    if !r.flag("base present")? {
        return Ok(None);
    }
    let base = r.base_link()?;
    if base.sequence >= sequence {
        return Err(format!(
            "its base equals section {}, which is not before it",
            base.sequence
        ));
    }
    let chain_bytes = r.u64("chain bytes")?;
    Ok(Some(Based { base, chain_bytes }))
}

fn decode_positions(r: &mut Reader<'_>) -> Result<Vec<Position>, Reason> {
    let count = r.u32("positions")?;
    let mut last = None;
    r.items(count.into(), 18, "positions", |r| {
        let position = Position {
            topic: r.str16("topic")?,
            partition: r.i32("partition")?,
            offset: r.i64("offset")?,
            leader_epoch: r.i32("leader epoch")?,
        };
        ascending(&mut last, (position.topic.clone(), position.partition), "positions")?;
        Ok(position)
    })
}

fn decode_outbox(count: u64, bytes: Vec<u8>) -> Result<OutputFrames, Reason> {
    let frames = OutputFrames::from_parts(bytes, count);
    let mut seen = 0;
    for frame in frames.iter() {
        frame.map_err(|e| format!("outbox: {e}"))?;
        seen += 1;
    }
    if seen != count {
        return Err(format!("outbox of {count} outputs holds {seen}"));
    }
    Ok(frames)
}

/// A byte of LZ4 stands for at most 255 bytes of raw data, which bounds the allocation by the bytes that are there.
fn decode_block(r: &mut Reader<'_>) -> Result<Vec<u8>, Reason> {
    let raw_len = r.u32("raw length of a block")? as usize;
    let stored_len = r.u32("stored length of a block")? as usize;
    let stored = r.take(stored_len, "block")?;
    if raw_len == stored_len {
        return Ok(stored.to_vec());
    }
    if stored_len > raw_len || raw_len / 255 > stored_len {
        return Err(format!("a block of {stored_len} bytes cannot hold {raw_len}"));
    }
    let mut raw = vec![0; raw_len];
    match lz4_flex::block::decompress_into(stored, &mut raw) {
        Ok(len) if len == raw_len => Ok(raw),
        Ok(len) => Err(format!("a block holds {len} bytes, not {raw_len}")),
        Err(e) => Err(format!("a block does not decompress: {e}")),
    }
}

fn decode_changes(r: &mut Reader<'_>) -> Result<ChangeSet, Reason> {
    let count = r.u64("changes")?;
    let blocks = r.u32("blocks")?;
    let mut changes = ChangeSet::default();
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..blocks {
        let raw = decode_block(r)?;
        if raw.is_empty() {
            return Err("an empty block of changes".into());
        }
        decode_changes_block(&raw, &mut last, &mut changes)?;
    }
    if changes.len() as u64 != count {
        return Err(format!("{} changes, not {count}", changes.len()));
    }
    Ok(changes)
}

fn decode_changes_block(raw: &[u8], last: &mut Option<Vec<u8>>, changes: &mut ChangeSet) -> Result<(), Reason> {
    let mut r = Reader::new(raw);
    let mut before: Option<&[u8]> = last.as_deref();
    while r.left() > 0 {
        let key_len = r.u32("key length")?;
        let value_len = r.u32("value length")?;
        let key = r.take(key_len as usize, "state key")?;
        let value = if value_len == DELETED {
            None
        } else {
            Some(r.take(value_len as usize, "value")?)
        };
        if before.is_some_and(|b| b >= key) {
            return Err("changes are not in order of key".into());
        }
        before = Some(key);
        changes.push(Change { key, value });
    }
    let kept = before.map(<[u8]>::to_vec);
    *last = kept;
    Ok(())
}
