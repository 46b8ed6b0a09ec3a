//! Orders as Avro datums of `soak/order.avsc`, written by hand: good ones, and damaged ones that know where lengths and counts are.
use super::mutate::{noise, varint};
use super::record::{Fate, Orders as Make, VALUE_BYTES_MAX};
use crate::rng::Rng;

/// Orders as Avro.
pub struct Orders;

/// Arrays inside of arrays, in the field `cube` of the schema.
const LEVELS: usize = 48;
/// Taken for lengths, counts, branches and symbols.
const AWKWARD: [i64; 14] = [
    -1,
    2,
    3,
    1000,
    2_000_000_000,
    4_000_000_000,
    i32::MAX as i64,
    i32::MIN as i64,
    i32::MAX as i64 + 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    1 << 62,
    -1_000_000,
];

fn long(number: i64) -> Vec<u8> {
    varint(((number << 1) ^ (number >> 63)) as u64)
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&long(bytes.len() as i64), bytes].concat()
}

/// In as few bytes as it has.
fn decimal(unscaled: i64) -> Vec<u8> {
    let bytes = unscaled.to_be_bytes();
    let spare = |at: usize| {
        let sign = (bytes[at] == 0 && bytes[at + 1] < 0x80) || (bytes[at] == 0xff && bytes[at + 1] >= 0x80);
        at < 7 && sign
    };
    let start = (0..7).find(|at| !spare(*at)).unwrap_or(7);
    sized(&bytes[start..])
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    match items {
        [] => long(0),
        _ => [long(items.len() as i64), items.concat(), long(0)].concat(),
    }
}

fn nullable(value: Option<Vec<u8>>) -> Vec<u8> {
    value.map_or_else(|| long(0), |value| [long(1), value].concat())
}

/// The encoded fields, in the schema's order.
fn fields(number: u64, parts: i64, big: Option<i64>, note: Option<usize>, rng: &mut Rng) -> Vec<Vec<u8>> {
    let customer = format!("c{}", rng.below(5000));
    let at = rng.below(1 << 42) as i64 - (1 << 41);
    let tag = |rng: &mut Rng| nullable((rng.below(4) != 0).then(|| sized("t\u{e9}".as_bytes())));
    let tags: Vec<Vec<u8>> = (0..rng.below(4)).map(|_| tag(rng)).collect();
    let line = |n: u64| [nullable(Some(sized(b"s"))), nullable(None), decimal(n as i64 * 50)].concat();
    let lines: Vec<Vec<u8>> = (0..rng.below(4)).map(line).collect();
    let geo = || [1.5_f64.to_le_bytes().as_slice(), &(-7e-3_f32).to_le_bytes()].concat();
    let address = (rng.below(3) != 0).then(|| [sized(b"Turin"), nullable((rng.below(2) == 0).then(geo))].concat());
    let mut cube = long(rng.below(10) as i64);
    if rng.below(2) == 0 {
        cube = (0..LEVELS).fold(cube, |inner, _| array(&[inner]));
    } else {
        cube = array(&[]);
    }
    vec![
        long(number as i64),
        nullable(Some(sized(customer.as_bytes()))),
        // Some are no more than 0: they go to the other sink.
        decimal(rng.below(120_000) as i64 - 20_000),
        long(parts),
        long(at),
        nullable(big.map(long)),
        (rng.below(1000) as f64 / 10.0).to_le_bytes().to_vec(),
        nullable(note.map(|length| sized(&vec![b'x'; length]))),
        vec![rng.below(2) as u8],
        long(rng.below(3) as i64),
        rng.next_u64().to_le_bytes().to_vec(),
        array(&tags),
        nullable(address),
        array(&lines),
        cube,
    ]
}

fn ordinary(number: u64, rng: &mut Rng) -> Vec<Vec<u8>> {
    fields(number, 1 + rng.below(9) as i64, None, None, rng)
}

const TAGS: usize = 11;
const LINES: usize = 13;
const CUBE: usize = 14;

impl Make for Orders {
    fn valid(&self, number: u64, parts: i64, big: Option<i64>, note: Option<usize>, rng: &mut Rng) -> Vec<u8> {
        fields(number, parts, big, note, rng).concat()
    }

    fn twisted(&self, number: u64, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let mut fields = ordinary(number, rng);
        let at = rng.below(fields.len() as u64) as usize;
        let other = rng.below(fields.len() as u64) as usize;
        let awkward = long(AWKWARD[rng.below(AWKWARD.len() as u64) as usize]);
        match rng.below(8) {
            // A length, a count or a branch, in front of what was there.
            0 | 1 => fields[at] = [awkward, fields[at].clone()].concat(),
            2 => fields[at] = awkward,
            // A branch of a union, and then a length.
            3 => fields[at] = [long(1), awkward, noise(rng.below(20) as usize, rng)].concat(),
            // A block of a negative count says its size in bytes.
            4 => fields[at] = [long(-(rng.below(5) as i64)), awkward, fields[at].clone()].concat(),
            5 => fields[at] = fields[other].clone(),
            6 => {
                fields[6] = [f64::NAN, f64::INFINITY, f64::MAX][rng.below(3) as usize]
                    .to_le_bytes()
                    .to_vec()
            }
            _ => return framed(&fields.concat(), rng),
        }
        (fields.concat(), Fate::Any)
    }

    /// Beyond the schema's levels nothing is left to recurse into: what is tried is to go on opening.
    fn deep(&self, number: u64, levels: usize, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let mut fields = ordinary(number, rng);
        // Each level opens with a count of one, or with a block that says its size.
        fields[CUBE] = match rng.below(3) {
            0 => long(1).repeat(levels),
            1 => [long(-1), long(1_000_000)].concat().repeat(levels),
            _ => long(i64::MAX).repeat(levels),
        };
        (fields.concat(), Fate::Refused)
    }

    fn wide(&self, number: u64, values: usize, rng: &mut Rng) -> (Vec<u8>, Fate) {
        let mut fields = ordinary(number, rng);
        let (field, element) = match rng.below(4) {
            // A null is one byte, an empty array too.
            0 => (TAGS, nullable(None)),
            1 => (LINES, [nullable(None), nullable(None), decimal(0)].concat()),
            2 => (CUBE, long(0)),
            _ => (TAGS, nullable(Some(sized(b"")))),
        };
        let values = values.min((VALUE_BYTES_MAX - 4096) / element.len());
        fields[field] = [long(values as i64), element.repeat(values), long(0)].concat();
        (fields.concat(), Fate::Any)
    }

    fn noise(&self) -> Fate {
        Fate::Any
    }
}

/// A whole datum, with something before or behind it.
fn framed(datum: &[u8], rng: &mut Rng) -> (Vec<u8>, Fate) {
    match rng.below(4) {
        // As a serializer with a schema registry writes it.
        0 => {
            let id = (rng.below(100) as u32).to_be_bytes();
            ([&[0], id.as_slice(), datum].concat(), Fate::Any)
        }
        1 => ([datum, &[0]].concat(), Fate::Refused),
        2 => ([datum, datum].concat(), Fate::Refused),
        _ => ([b"Obj\x01", datum].concat(), Fate::Any),
    }
}
