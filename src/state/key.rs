//! State keys: `key group u16 | state id u16 | key, escaped and terminated | namespace` (docs/format/state.md).
//!
//! Byte order of state keys is the order of (key group, state id, key, namespace), and no key is a prefix of another.
use crate::types::KeyGroup;

#[cfg(test)]
mod tests;

/// The id of a (operator id, state name), given out once from 1 and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u16);

/// A record's key as it travels: its hash is computed once, by [`crate::types::KeyGroups::hash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// The key group of the hash.
    pub group: KeyGroup,
    /// The hash of the key bytes.
    pub hash: u32,
    /// The key bytes as they lie on the topic.
    pub bytes: &'a [u8],
}

/// A state key taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The key group.
    pub group: KeyGroup,
    /// The state.
    pub state: StateId,
    /// The key bytes, without escapes.
    pub key: Vec<u8>,
    /// The namespace; empty for value states.
    pub namespace: &'a [u8],
}

/// First two bytes of the backend's own rows; never a key group.
pub(crate) const RESERVED_GROUP: [u8; 2] = [0xff, 0xff];

const ESCAPED_ZERO: [u8; 2] = [0x00, 0xff];
const TERMINATOR: [u8; 2] = [0x00, 0x01];

/// Appends the state key to `out`.
pub fn write_state_key(group: KeyGroup, state: StateId, key: &[u8], namespace: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + namespace.len() + 6);
    out.extend_from_slice(&group.0.to_be_bytes());
    out.extend_from_slice(&state.0.to_be_bytes());
    write_escaped(key, out);
    out.extend_from_slice(&TERMINATOR);
    out.extend_from_slice(namespace);
}

/// Bytes of a key that are escaped at a time.
const ESCAPED_AT_ONCE: usize = 16;

/// Through a buffer of its own: numbers have many zeros, and growing `out` by a byte or two at a time costs more than all the rest.
fn write_escaped(key: &[u8], out: &mut Vec<u8>) {
    for part in key.chunks(ESCAPED_AT_ONCE) {
        let mut escaped = [0; 2 * ESCAPED_AT_ONCE];
        let mut len = 0;
        for byte in part {
            escaped[len] = *byte;
            // Overwritten by the next byte, unless this one is a zero.
            escaped[len + 1] = ESCAPED_ZERO[1];
            len += 1 + usize::from(*byte == 0);
        }
        out.extend_from_slice(&escaped[..len]);
    }
}

/// Takes a state key apart. Strict: None for anything that [`write_state_key`] does not write.
#[must_use]
pub fn parse_state_key(bytes: &[u8]) -> Option<ParsedKey<'_>> {
    let (group, rest) = bytes.split_first_chunk::<2>()?;
    let (state, mut rest) = rest.split_first_chunk::<2>()?;
    let state = StateId(u16::from_be_bytes(*state));
    if *group == RESERVED_GROUP || state.0 == 0 {
        return None;
    }
    let mut key = Vec::with_capacity(rest.len());
    loop {
        let zero = rest.iter().position(|b| *b == 0)?;
        let (part, tail) = rest.split_at(zero);
        key.extend_from_slice(part);
        let (mark, tail) = tail.split_first_chunk::<2>()?;
        rest = tail;
        match *mark {
            ESCAPED_ZERO => key.push(0),
            TERMINATOR => {
                return Some(ParsedKey {
                    group: KeyGroup(u16::from_be_bytes(*group)),
                    state,
                    key,
                    namespace: rest,
                });
            }
            _ => return None,
        }
    }
}
