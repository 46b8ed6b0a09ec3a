//! What is produced: the record at (seed, place, number) is a pure function, so that it can be made again when it is judged.
use super::{avro, json, mutate};
use crate::rng::Rng;

/// The topic's limit, `max.message.bytes`, less what a batch and a record of their own take, key and headers included.
pub const VALUE_BYTES_MAX: usize = 1_048_588 - 512;
/// A burst is a run of this many records of one costly kind.
const RUN: u64 = 64;
/// One run in so many is a burst. They are a fifth of the bytes then; more of them would leave no room for the other kinds.
const BURST_EVERY: u64 = 512;

/// Of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Objects.
    Json,
    /// Datums without a header.
    Avro,
}

impl Format {
    /// As it is in names of jobs and topics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Avro => "avro",
        }
    }
}

/// A source of the pipeline, by what it does with what it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `on_error: { dead_letter: .. }`
    Letters,
    /// `on_error: skip`, `tombstones: skip`
    Skips,
}

impl Source {
    /// Both.
    pub const ALL: [Source; 2] = [Source::Letters, Source::Skips];

    /// Its id in the pipeline.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Source::Letters => "letters",
            Source::Skips => "skips",
        }
    }
}

/// Where a record is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The pipeline.
    pub format: Format,
    /// The source.
    pub source: Source,
    /// The partition.
    pub partition: u32,
}

/// What must become of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is a good one: an output.
    Output,
    /// It is good, and may make a sum overflow: an output, or a dead letter of the step `totals`.
    Summed,
    /// The step `shares` skips it: a division by zero.
    Divided,
    /// Its source refuses it.
    Refused,
    /// Nobody knows: anything but lost or doubled.
    Any,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The timestamp; that of the producer when none.
    pub timestamp: Option<i64>,
    /// What must become of it.
    pub fate: Fate,
}

/// Kinds of records. The costly ones come one by one and in bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Valid,
    /// A number that makes sums overflow.
    Summed,
    /// Zero parts.
    Divided,
    /// A valid one with bytes flipped, moved, cut out, doubled.
    Mutated,
    /// A part of a valid one.
    Cut,
    /// Well-formed or nearly so, and of another shape than the schema's.
    Twisted,
    /// Random bytes.
    Noise,
    Empty,
    Tombstone,
    /// A timestamp that no record may have.
    Misdated,
    /// A key that is not UTF-8.
    BadKey,
    /// Nested some 10,000 levels.
    Deep,
    /// Many values in few bytes.
    Wide,
    /// A text up to the topic's limit.
    Long,
}

/// Of a thousand records.
const KINDS: [(u64, Kind); 14] = [
    (424, Kind::Valid),
    (40, Kind::Summed),
    (30, Kind::Divided),
    (230, Kind::Mutated),
    (40, Kind::Cut),
    (150, Kind::Twisted),
    (40, Kind::Noise),
    (10, Kind::Empty),
    (10, Kind::Tombstone),
    (10, Kind::Misdated),
    (10, Kind::BadKey),
    (3, Kind::Deep),
    (2, Kind::Wide),
    (1, Kind::Long),
];
const COSTLY: [Kind; 3] = [Kind::Deep, Kind::Wide, Kind::Long];

/// The record of this number in its partition.
#[must_use]
pub fn make(seed: u64, place: Place, number: u64) -> Made {
    let base = seed ^ (place.format as u64) << 62 ^ (place.source as u64) << 61 ^ u64::from(place.partition) << 50;
    let mut rng = Rng::new(Rng::new(base ^ number).next_u64());
    let kind = kind_of(base, number, &mut rng);
    let key = match (kind, rng.below(50)) {
        (Kind::BadKey, _) => Some(vec![b'k', 0xff, 0xc0]),
        (_, 0) => None,
        (_, n) => Some(format!("k{n}").into_bytes()),
    };
    let (value, fate) = match place.format {
        Format::Json => value_of(&json::Orders, kind, number, &mut rng),
        Format::Avro => value_of(&avro::Orders, kind, number, &mut rng),
    };
    let timestamp = (kind == Kind::Misdated).then(|| match rng.below(3) {
        0 => -2 - rng.below(1 << 40) as i64,
        1 => i64::MAX / 2,
        // The year 2255: far ahead, and still one that a date has.
        _ => 9_000_000_000_000,
    });
    Made {
        key,
        value,
        timestamp,
        fate,
    }
}

fn kind_of(base: u64, number: u64, rng: &mut Rng) -> Kind {
    let mut run = Rng::new(Rng::new(base ^ !(number / RUN)).next_u64());
    if run.below(BURST_EVERY) == 0 {
        return COSTLY[run.below(3) as usize];
    }
    let mut at = rng.below(1000);
    for (weight, kind) in KINDS {
        match at.checked_sub(weight) {
            Some(left) => at = left,
            None => return kind,
        }
    }
    Kind::Valid
}

/// What a format makes.
pub trait Orders {
    /// A good record. `big` is NULL when none.
    fn valid(&self, number: u64, parts: i64, big: Option<i64>, note: Option<usize>, rng: &mut Rng) -> Vec<u8>;
    /// One that is not of the schema's shape, and what must become of it.
    fn twisted(&self, number: u64, rng: &mut Rng) -> (Vec<u8>, Fate);
    /// One that nests deeply.
    fn deep(&self, number: u64, levels: usize, rng: &mut Rng) -> (Vec<u8>, Fate);
    /// One that holds many values in few bytes.
    fn wide(&self, number: u64, values: usize, rng: &mut Rng) -> (Vec<u8>, Fate);
    /// What becomes of random bytes.
    fn noise(&self) -> Fate;
}

fn value_of(orders: &impl Orders, kind: Kind, number: u64, rng: &mut Rng) -> (Option<Vec<u8>>, Fate) {
    let parts = 1 + rng.below(9) as i64;
    let valid = |rng: &mut Rng| orders.valid(number, parts, None, None, rng);
    let (value, fate) = match kind {
        Kind::Valid => (valid(rng), Fate::Output),
        Kind::Misdated | Kind::BadKey => (valid(rng), Fate::Refused),
        Kind::Summed => {
            let big = i64::MAX / (1 + rng.below(4) as i64);
            (orders.valid(number, parts, Some(big), None, rng), Fate::Summed)
        }
        Kind::Divided => (orders.valid(number, 0, None, None, rng), Fate::Divided),
        Kind::Mutated => (mutate::mutated(valid(rng), rng), Fate::Any),
        Kind::Cut => {
            let mut value = valid(rng);
            value.truncate(1 + rng.below(value.len() as u64 - 1) as usize);
            (value, Fate::Refused)
        }
        Kind::Twisted => orders.twisted(number, rng),
        Kind::Noise => (mutate::noise(8 + rng.below(300) as usize, rng), orders.noise()),
        Kind::Empty => (Vec::new(), Fate::Refused),
        Kind::Tombstone => return (None, Fate::Refused),
        Kind::Deep => orders.deep(number, 9_000 + rng.below(2_000) as usize, rng),
        Kind::Wide => orders.wide(number, 1 << rng.between(10, 17), rng),
        Kind::Long => {
            let length = (1 << rng.between(12, 20)).min(VALUE_BYTES_MAX - 4096);
            (orders.valid(number, parts, None, Some(length), rng), Fate::Any)
        }
    };
    (Some(value), fate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        format: Format::Json,
        source: Source::Letters,
        partition: 1,
    };

    #[test]
    fn a_record_is_made_again_as_it_was_and_no_two_places_have_the_same() {
        let of = |place| (0..200).map(|n| make(7, place, n)).collect::<Vec<_>>();
        assert_eq!(of(PLACE), of(PLACE));
        let other = Place { partition: 0, ..PLACE };
        assert_ne!(of(PLACE), of(other));
        let other = Place {
            source: Source::Skips,
            ..PLACE
        };
        assert_ne!(of(PLACE), of(other));
    }

    #[test]
    fn every_fate_comes_and_no_value_is_larger_than_the_topic_takes() {
        assert_eq!(KINDS.iter().map(|(weight, _)| weight).sum::<u64>(), 1000);
        for format in [Format::Json, Format::Avro] {
            let mut fates = Vec::new();
            let mut largest = 0;
            for number in 0..100_000 {
                let made = make(3, Place { format, ..PLACE }, number);
                largest = largest.max(made.value.map_or(0, |v| v.len()));
                if !fates.contains(&made.fate) {
                    fates.push(made.fate);
                }
            }
            assert_eq!(fates.len(), 5, "{fates:?}");
            assert!(
                (VALUE_BYTES_MAX - 8192..VALUE_BYTES_MAX).contains(&largest),
                "{largest}"
            );
        }
    }
}
