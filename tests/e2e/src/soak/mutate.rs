//! Damage that knows nothing of a format.
use crate::rng::Rng;

/// Numbers that break lengths, counts and sums.
const AWKWARD: [u64; 8] = [
    0,
    u64::MAX,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    1 << 63,
    (1 << 63) - 1,
    4_000_000_000,
];

/// Random bytes.
pub fn noise(length: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Damages bytes in one to four ways.
pub fn mutated(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    for _ in 0..rng.between(1, 4) {
        mutate(&mut bytes, rng);
    }
    bytes
}

/// A place in the bytes, and one behind it that is not far.
fn piece(bytes: &[u8], rng: &mut Rng) -> (usize, usize) {
    let start = rng.below(bytes.len() as u64) as usize;
    let end = start + 1 + rng.below(40) as usize;
    (start, end.min(bytes.len()))
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return bytes.push(rng.next_u64() as u8);
    }
    let (start, end) = piece(bytes, rng);
    match rng.below(8) {
        0 | 1 => bytes[start] ^= 1 << rng.below(8),
        2 => bytes[start] = rng.next_u64() as u8,
        3 => _ = bytes.drain(start..end),
        4 => {
            let copy = bytes[start..end].to_vec();
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            bytes.splice(at..at, copy);
        }
        5 => bytes[start..end].reverse(),
        6 => {
            let text = AWKWARD[rng.below(8) as usize].to_string();
            bytes.splice(start..end, text.into_bytes());
        }
        _ => {
            let number = AWKWARD[rng.below(8) as usize];
            bytes.splice(start..start + 1, varint(number));
        }
    }
}

/// As Avro writes it, without the zigzag.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
