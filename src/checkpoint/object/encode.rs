//! Writing an epoch object.
use super::bytes::{Reason, put_base_link, put_count16, put_count32, put_epoch, put_link, put_str16};
use super::{BLOCK_RAW_BYTES, DELETED, END_MAGIC, EncodedObject, FORMAT, FormatError, HEAD_MAGIC, Header, Section};
use crate::state::{Change, ChangeSet};
use crate::types::{Digest, Link, Partitioner, Place, Position, Sequence};

/// Encodes an epoch object. Called once an epoch by the commit driver; sorts the sections by shard and their changes by key.
///
/// # Errors
/// [`FormatError::Unwritable`] when the contents break a rule of the format: a shard or state key twice, a sequence that does not
/// follow its parent, a limit.
pub fn encode(header: &Header, sections: &mut [Section]) -> Result<EncodedObject, FormatError> {
    build(header, sections).map_err(|reason| FormatError::Unwritable {
        epoch: header.epoch,
        reason,
    })
}

fn build(header: &Header, sections: &mut [Section]) -> Result<EncodedObject, Reason> {
    sections.sort_by_key(|s| s.shard);
    let mut parts = vec![encode_header(header)?];
    let mut places = Vec::with_capacity(sections.len());
    let mut at = parts.iter().map(|p| p.len() as u64).sum::<u64>();
    for section in sections.iter_mut() {
        let bytes = encode_section(header, section)?;
        let len = u64::from(length32(bytes.len(), "section")?);
        places.push((Place { offset: at, len }, Digest::of(&bytes)));
        at += len;
        parts.push(bytes);
    }
    let body = footer_body(&parts, sections, &places)?;
    let footer = Digest::of(&body);
    parts.push(with_trailer(body)?);
    let links = sections.iter().zip(&places).map(|(s, (place, _))| {
        (
            s.shard,
            Link {
                epoch: header.epoch,
                footer,
                sequence: s.sequence,
                place: *place,
            },
        )
    });
    Ok(EncodedObject {
        links: links.collect(),
        parts,
        footer,
    })
}

fn length32(len: usize, what: &str) -> Result<u32, Reason> {
    u32::try_from(len).map_err(|_| format!("{what} of {len} bytes, at most 4 GiB fit"))
}

fn sorted<'a, T, K: Ord + std::fmt::Debug>(
    items: &'a [T],
    what: &str,
    key: impl Fn(&'a T) -> K,
) -> Result<Vec<&'a T>, Reason> {
    let mut out: Vec<&T> = items.iter().collect();
    out.sort_by_key(|item| key(item));
    for pair in out.windows(2) {
        if key(pair[0]) == key(pair[1]) {
            return Err(format!("{what} {:?} twice", key(pair[0])));
        }
    }
    Ok(out)
}

fn encode_header(header: &Header) -> Result<Vec<u8>, Reason> {
    let mut body = Vec::with_capacity(512);
    put_str16(&mut body, &header.job)?;
    put_str16(&mut body, &header.stage)?;
    put_epoch(&mut body, &header.epoch);
    body.push(u8::from(header.genesis));
    body.extend_from_slice(&header.topology.to_be_bytes());
    body.extend_from_slice(&header.groups.max_parallelism.to_be_bytes());
    body.extend_from_slice(&header.groups.shards.to_be_bytes());
    body.push(partitioner_number(header.groups.partitioner));
    put_count16(&mut body, header.topics.len(), "topics")?;
    for topic in sorted(&header.topics, "topic", |t| t.topic.as_str())? {
        put_str16(&mut body, &topic.topic)?;
        body.extend_from_slice(&topic.id);
        body.extend_from_slice(&topic.partitions.to_be_bytes());
    }
    put_count16(&mut body, header.states.len(), "states")?;
    for state in sorted(&header.states, "state id", |s| s.id)? {
        body.extend_from_slice(&state.id.to_be_bytes());
        put_str16(&mut body, &state.operator)?;
        put_str16(&mut body, &state.name)?;
        put_str16(&mut body, &state.schema)?;
    }
    put_count16(&mut body, header.outbox_sinks.len(), "outbox sinks")?;
    for (index, id) in sorted(&header.outbox_sinks, "outbox sink", |(index, _)| *index)? {
        body.extend_from_slice(&index.to_be_bytes());
        put_str16(&mut body, id)?;
    }
    put_count32(&mut body, header.last_committed.len(), "links")?;
    for (shard, link) in sorted(
        &header.last_committed,
        "last committed section of shard",
        |(shard, _)| shard.0,
    )? {
        body.extend_from_slice(&shard.0.to_be_bytes());
        put_link(&mut body, link);
    }
    let mut out = HEAD_MAGIC.to_vec();
    out.extend_from_slice(&length32(body.len(), "header")?.to_be_bytes());
    out.append(&mut body);
    Ok(out)
}

fn partitioner_number(partitioner: Partitioner) -> u8 {
    match partitioner {
        Partitioner::Murmur2 => 0,
        Partitioner::Crc32 => 1,
        Partitioner::Unknown => 2,
    }
}

/// A section's sequence is its parent's plus one. One without a parent begins at 0, or in a genesis object anywhere: a life that begins
/// after the loss of all pointers goes on above the sequences of the one before it.
pub(super) fn follows(genesis: bool, parent: Option<&Link>, sequence: Sequence) -> bool {
    match parent {
        Some(parent) => parent.sequence.checked_add(1) == Some(sequence),
        None => genesis || sequence == 0,
    }
}

fn check_section(header: &Header, section: &Section) -> Result<(), Reason> {
    let shard = section.shard;
    if shard.0 >= header.groups.shards {
        return Err(format!("shard {shard} of {}", header.groups.shards));
    }
    if !follows(header.genesis, section.parent.as_ref(), section.sequence) {
        return Err(format!(
            "sequence {} of shard {shard} does not follow its parent",
            section.sequence
        ));
    }
    if header.genesis && (section.parent.is_some() || !section.changes.is_empty() || !section.outbox.is_empty()) {
        return Err(format!(
            "the genesis section of shard {shard} holds more than start positions"
        ));
    }
    if section
        .base
        .is_some_and(|based| based.base.sequence >= section.sequence)
    {
        return Err(format!(
            "the base of shard {shard} equals a section that is not before it"
        ));
    }
    if section.watermark == Some(i64::MIN) {
        return Err(format!("the watermark of shard {shard} is the value that means none"));
    }
    Ok(())
}

fn encode_section(header: &Header, section: &mut Section) -> Result<Vec<u8>, Reason> {
    check_section(header, section)?;
    section.changes.sort();
    if section.changes.has_twins() {
        return Err("a state key twice in one epoch".to_owned());
    }
    let mut out = Vec::with_capacity(256 + section.changes.bytes() / 2);
    out.extend_from_slice(&section.shard.0.to_be_bytes());
    out.extend_from_slice(&section.sequence.to_be_bytes());
    out.push(u8::from(section.parent.is_some()));
    if let Some(parent) = &section.parent {
        put_link(&mut out, parent);
    }
    put_count32(&mut out, section.positions.len(), "positions")?;
    for position in sorted(&section.positions, "position of", |p| (p.topic.as_str(), p.partition))? {
        put_position(&mut out, position)?;
    }
    out.extend_from_slice(&section.watermark.unwrap_or(i64::MIN).to_be_bytes());
    put_count32(&mut out, section.operator_state.len(), "bytes of operator state")?;
    out.extend_from_slice(&section.operator_state);
    out.push(u8::from(section.base.is_some()));
    if let Some(based) = &section.base {
        put_base_link(&mut out, &based.base);
        out.extend_from_slice(&based.chain_bytes.to_be_bytes());
    }
    out.extend_from_slice(&section.outbox_delivered.to_be_bytes());
    out.extend_from_slice(&section.outbox.len().to_be_bytes());
    put_block(&mut out, section.outbox.bytes())?;
    put_changes(&mut out, &section.changes)?;
    Ok(out)
}

fn put_position(out: &mut Vec<u8>, position: &Position) -> Result<(), Reason> {
    put_str16(out, &position.topic)?;
    out.extend_from_slice(&position.partition.to_be_bytes());
    out.extend_from_slice(&position.offset.to_be_bytes());
    out.extend_from_slice(&position.leader_epoch.to_be_bytes());
    Ok(())
}

fn put_changes(out: &mut Vec<u8>, changes: &ChangeSet) -> Result<(), Reason> {
    out.extend_from_slice(&(changes.len() as u64).to_be_bytes());
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut blocks = 0u32;
    let mut raw = Vec::with_capacity(BLOCK_RAW_BYTES.min(changes.bytes() + 8 * changes.len()));
    for change in changes.iter() {
        let len = 8 + change.key.len() + change.value.map_or(0, <[u8]>::len);
        if !raw.is_empty() && raw.len() + len > BLOCK_RAW_BYTES {
            put_block(out, &raw)?;
            blocks += 1;
            raw.clear();
        }
        put_change(&mut raw, &change)?;
    }
    if !raw.is_empty() {
        put_block(out, &raw)?;
        blocks += 1;
    }
    if let Some(place) = out.get_mut(count_at..count_at + 4) {
        place.copy_from_slice(&blocks.to_be_bytes());
    }
    Ok(())
}

fn put_change(raw: &mut Vec<u8>, change: &Change<'_>) -> Result<(), Reason> {
    let value_len = match change.value {
        None => DELETED,
        Some(value) => length32(value.len(), "value").and_then(|len| match len {
            DELETED => Err("value of 4 GiB".to_owned()),
            len => Ok(len),
        })?,
    };
    raw.extend_from_slice(&length32(change.key.len(), "state key")?.to_be_bytes());
    raw.extend_from_slice(&value_len.to_be_bytes());
    raw.extend_from_slice(change.key);
    raw.extend_from_slice(change.value.unwrap_or_default());
    Ok(())
}

/// Equal lengths say that the bytes are not compressed, so compression counts only when it gains something.
fn put_block(out: &mut Vec<u8>, raw: &[u8]) -> Result<(), Reason> {
    let raw_len = length32(raw.len(), "block")?;
    let packed = if raw.is_empty() {
        Vec::new()
    } else {
        lz4_flex::block::compress(raw)
    };
    let stored = if packed.len() < raw.len() {
        packed.as_slice()
    } else {
        raw
    };
    out.extend_from_slice(&raw_len.to_be_bytes());
    out.extend_from_slice(&length32(stored.len(), "block")?.to_be_bytes());
    out.extend_from_slice(stored);
    Ok(())
}

fn footer_body(parts: &[Vec<u8>], sections: &[Section], places: &[(Place, Digest)]) -> Result<Vec<u8>, Reason> {
    let header = parts.first().map(Vec::as_slice).unwrap_or_default();
    let mut body = vec![FORMAT];
    body.extend_from_slice(&(header.len() as u64).to_be_bytes());
    body.extend_from_slice(&Digest::of(header).0);
    put_count32(&mut body, sections.len(), "sections")?;
    sorted(sections, "section of shard", |s| s.shard.0)?;
    for (section, (place, digest)) in sections.iter().zip(places) {
        body.extend_from_slice(&section.shard.0.to_be_bytes());
        for field in [section.sequence, place.offset, place.len] {
            body.extend_from_slice(&field.to_be_bytes());
        }
        body.extend_from_slice(&digest.0);
    }
    Ok(body)
}

fn with_trailer(mut body: Vec<u8>) -> Result<Vec<u8>, Reason> {
    let len = length32(body.len(), "footer")?;
    body.extend_from_slice(&len.to_be_bytes());
    body.extend_from_slice(END_MAGIC);
    Ok(body)
}
