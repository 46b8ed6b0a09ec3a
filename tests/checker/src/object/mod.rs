//! The epoch object, by `docs/format/epoch-object.md`: everything but the changes and outputs themselves.
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::pointer::{Digest, EpochName, digest};

#[cfg(test)]
pub(crate) mod builder;
#[cfg(test)]
mod tests;

const HEAD: &[u8; 8] = b"KFEPOCH1";
const TAIL: &[u8; 8] = b"KFEPEND1";

/// Names a committed section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The epoch whose object holds it.
    pub epoch: EpochName,
    /// Of that object's footer.
    pub digest: Digest,
    /// The section's sequence.
    pub sequence: u64,
    /// Where the section begins in that object.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// How far a source partition was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The next offset.
    pub offset: i64,
}

/// The base that a section names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// Its id.
    pub id: u64,
    /// Digest of its manifest.
    pub digest: Digest,
    /// The section that it equals.
    pub sequence: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// What of a section is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The shard.
    pub shard: u32,
    /// Grows by one along the links.
    pub sequence: u64,
    /// The section before; none for the first of a shard's life.
    pub parent: Option<Link>,
    /// Where the shard's sources stand.
    pub positions: Vec<Position>,
    /// What is in the place of the sections up to its sequence.
    pub base: Option<Base>,
    /// Where the section begins in the object.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

/// An object whose digests are all right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Of the footer body: what pointers and links carry.
    pub digest: Digest,
    /// The job.
    pub job: String,
    /// The stage.
    pub stage: String,
    /// The epoch.
    pub epoch: EpochName,
    /// Holds the first sections of shards.
    pub genesis: bool,
    /// The last section known committed, of each shard that has one.
    pub last_committed: BTreeMap<u32, Link>,
    /// The sections by shard.
    pub sections: BTreeMap<u32, Section>,
}

impl Object {
    /// Reads an object and verifies footer, header and every section.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn verify(bytes: &[u8]) -> Result<Object> {
        let body = footer_body(bytes)?;
        let mut footer = Reader(body);
        ensure!(footer.u8()? == 1, "format of the footer");
        let header_length = footer.u64()?;
        let header_digest = footer.digest()?;
        let header = part(bytes, 0, header_length).context("header")?;
        ensure!(digest(header) == header_digest, "the header's digest does not fit");
        let mut object = parse_header(header).context("header")?;
        object.digest = digest(body);
        let mut end = header_length;
        for _ in 0..footer.u32()? {
            let (shard, sequence) = (footer.u32()?, footer.u64()?);
            let (offset, length, expected) = (footer.u64()?, footer.u64()?, footer.digest()?);
            let bytes = part(bytes, offset, length).with_context(|| format!("section of shard {shard}"))?;
            ensure!(
                offset == end,
                "section of shard {shard} does not begin where the part before it ends"
            );
            ensure!(
                digest(bytes) == expected,
                "the digest of the section of shard {shard} does not fit"
            );
            let section = parse_section(bytes, offset).with_context(|| format!("section of shard {shard}"))?;
            ensure!(
                (section.shard, section.sequence) == (shard, sequence),
                "footer and section of {shard} differ"
            );
            ensure!(
                object.sections.last_key_value().is_none_or(|(s, _)| *s < shard),
                "sections not in order of shard"
            );
            object.sections.insert(shard, section);
            end += length;
        }
        footer.end()?;
        ensure!(
            end + body.len() as u64 + 12 == bytes.len() as u64,
            "bytes that nothing accounts for"
        );
        Ok(object)
    }
}

fn footer_body(bytes: &[u8]) -> Result<&[u8]> {
    let rest = bytes.strip_suffix(TAIL).context("no end mark: truncated?")?;
    let Some((rest, length)) = rest.split_last_chunk::<4>() else {
        bail!("too short for a footer")
    };
    let begin = rest
        .len()
        .checked_sub(u32::from_be_bytes(*length) as usize)
        .context("the footer is longer than all")?;
    Ok(&rest[begin..])
}

fn part(bytes: &[u8], offset: u64, length: u64) -> Result<&[u8]> {
    let end = offset.checked_add(length).context("place out of range")?;
    bytes
        .get(usize::try_from(offset)?..usize::try_from(end)?)
        .context("lies outside of the object")
}

fn parse_header(bytes: &[u8]) -> Result<Object> {
    let rest = bytes.strip_prefix(HEAD).context("no begin mark")?;
    let mut r = Reader(rest);
    ensure!(r.u32()? as usize == rest.len() - 4, "length of the body");
    let (job, stage) = (r.text()?, r.text()?);
    let epoch = EpochName {
        incarnation: r.u64()?,
        n: r.u64()?,
    };
    let genesis = match r.u8()? {
        0 => false,
        1 => true,
        other => bail!("genesis mark {other}"),
    };
    // Fingerprint, G, S, partitioner.
    r.take(8 + 4 + 4 + 1)?;
    for _ in 0..r.u16()? {
        r.text()?;
        r.take(16 + 4)?;
    }
    for _ in 0..r.u16()? {
        r.u16()?;
        for _ in 0..3 {
            r.text()?;
        }
    }
    // Outbox sinks.
    for _ in 0..r.u16()? {
        r.u16()?;
        r.text()?;
    }
    let mut last_committed = BTreeMap::new();
    for _ in 0..r.u32()? {
        let (shard, link) = (r.u32()?, r.link()?);
        ensure!(
            last_committed.insert(shard, link).is_none(),
            "shard {shard} twice in last committed"
        );
    }
    r.end()?;
    Ok(Object {
        digest: [0; 16],
        job,
        stage,
        epoch,
        genesis,
        last_committed,
        sections: BTreeMap::new(),
    })
}

fn parse_section(bytes: &[u8], offset: u64) -> Result<Section> {
    let mut r = Reader(bytes);
    let (shard, sequence) = (r.u32()?, r.u64()?);
    let parent = match r.u8()? {
        0 => None,
        1 => Some(r.link()?),
        other => bail!("parent mark {other}"),
    };
    let count = r.u32()?;
    let mut positions = Vec::new();
    for _ in 0..count {
        positions.push(Position {
            topic: r.text()?,
            partition: r.u32()? as i32,
            offset: r.u64()? as i64,
        });
        r.u32()?;
    }
    // Watermark, state of operators.
    r.u64()?;
    let length = r.u32()?;
    r.take(length as usize)?;
    let base = match r.u8()? {
        0 => None,
        1 => Some(Base {
            id: r.u64()?,
            digest: r.digest()?,
            sequence: r.u64()?,
            bytes: r.u64()?,
        }),
        other => bail!("base mark {other}"),
    };
    ensure!(
        base.is_none_or(|b| b.sequence < sequence),
        "a base that is not before its section"
    );
    Ok(Section {
        shard,
        sequence,
        parent,
        positions,
        base,
        offset,
        length: bytes.len() as u64,
    })
}

/// Takes integers and strings off the front; never reads past the end.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count).context("ends too early")?;
        self.0 = rest;
        Ok(front)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>().context("ends too early")?;
        self.0 = rest;
        Ok(*front)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest> {
        self.array()
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let length = self.u16()?;
        Ok(std::str::from_utf8(self.take(length.into())?)
            .context("not UTF-8")?
            .to_owned())
    }

    pub(crate) fn link(&mut self) -> Result<Link> {
        Ok(Link {
            epoch: EpochName {
                incarnation: self.u64()?,
                n: self.u64()?,
            },
            digest: self.digest()?,
            sequence: self.u64()?,
            offset: self.u64()?,
            length: self.u64()?,
        })
    }

    pub(crate) fn end(&self) -> Result<()> {
        ensure!(self.0.is_empty(), "{} bytes too many", self.0.len());
        Ok(())
    }
}
