//! Random datums of random schemas against the crate `apache_avro`: both write the same bytes and read the same values, and of broken bytes what
//! one takes the other takes, but for what the crate lets pass.
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as Theirs;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Decimal, Schema as Avro};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value as Json, json};

use crate::format::tests::{decode, decoder, encode, encoder};
use crate::format::{Decoder, Format, Limits};
use crate::value::{DAY_MS, TIMESTAMP_MAX, TIMESTAMP_MIN, Value};

/// A schema as a test makes it.
#[derive(Debug, Clone)]
enum Kind {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(usize),
    Decimal {
        fixed: Option<usize>,
        precision: u8,
        scale: u8,
    },
    /// Units in a millisecond.
    Timestamp(i64),
    Date,
    List(Box<Kind>),
    Record(Vec<Kind>),
    Nullable {
        null: u32,
        of: Box<Kind>,
    },
}

/// Timestamps of every unit fit into 64 bits within these years.
const NANOS_YEARS_MS: i64 = 9_000_000_000_000;

fn any_kind() -> impl Strategy<Value = Kind> {
    let decimal = (proptest::option::of(8usize..11), 1u8..=18)
        .prop_flat_map(|(fixed, precision)| (Just(fixed), Just(precision), 0..=precision));
    let leaf = prop_oneof![
        Just(Kind::Bool),
        Just(Kind::Int),
        Just(Kind::Long),
        Just(Kind::Float),
        Just(Kind::Double),
        Just(Kind::Bytes),
        Just(Kind::Text),
        (1usize..5).prop_map(Kind::Fixed),
        (1usize..5).prop_map(Kind::Enum),
        decimal.prop_map(|(fixed, precision, scale)| Kind::Decimal {
            fixed,
            precision,
            scale
        }),
        proptest::sample::select(vec![1i64, 1000, 1_000_000]).prop_map(Kind::Timestamp),
        Just(Kind::Date),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Kind::List(Box::new(of))),
            vec(inner.clone(), 1..5).prop_map(Kind::Record),
            // No union in a union.
            (0u32..2, inner).prop_map(|(null, of)| match of {
                Kind::Nullable { .. } => of,
                of => Kind::Nullable { null, of: Box::new(of) },
            }),
        ]
    })
}

/// As in a schema file. `names` numbers the named types.
fn avsc(kind: &Kind, names: &mut u32) -> Json {
    *names += 1;
    let name = format!("N{names}");
    match kind {
        Kind::Bool => json!("boolean"),
        Kind::Int => json!("int"),
        Kind::Long => json!("long"),
        Kind::Float => json!("float"),
        Kind::Double => json!("double"),
        Kind::Bytes => json!("bytes"),
        Kind::Text => json!("string"),
        Kind::Fixed(size) => json!({"type": "fixed", "name": name, "size": size}),
        Kind::Enum(count) => {
            json!({"type": "enum", "name": name, "symbols": (0..*count).map(symbol).collect::<Vec<_>>()})
        }
        Kind::Decimal {
            fixed,
            precision,
            scale,
        } => match fixed {
            None => json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}),
            Some(size) => json!({"type": "fixed", "name": name, "size": size, "logicalType": "decimal",
                                 "precision": precision, "scale": scale}),
        },
        Kind::Timestamp(1) => json!({"type": "long", "logicalType": "timestamp-millis"}),
        Kind::Timestamp(1000) => json!({"type": "long", "logicalType": "timestamp-micros"}),
        Kind::Timestamp(_) => json!({"type": "long", "logicalType": "timestamp-nanos"}),
        Kind::Date => json!({"type": "int", "logicalType": "date"}),
        Kind::List(of) => json!({"type": "array", "items": avsc(of, names)}),
        Kind::Record(kinds) => {
            let field = |(index, kind): (usize, &Kind)| json!({"name": field(index), "type": avsc(kind, names)});
            let fields: Vec<Json> = kinds.iter().enumerate().map(field).collect();
            json!({"type": "record", "name": name, "fields": fields})
        }
        Kind::Nullable { null: 0, of } => json!(["null", avsc(of, names)]),
        Kind::Nullable { of, .. } => json!([avsc(of, names), "null"]),
    }
}

fn symbol(index: usize) -> String {
    format!("S{index}")
}

fn field(index: usize) -> String {
    format!("f{index}")
}

fn any_value(kind: &Kind) -> BoxedStrategy<Value> {
    match kind {
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Int => any::<i32>().prop_map(|number| Value::Int(number.into())).boxed(),
        Kind::Long => any::<i64>().prop_map(Value::Int).boxed(),
        Kind::Float => any::<f32>().prop_map(|number| Value::Float(number.into())).boxed(),
        Kind::Double => any::<f64>().prop_map(Value::Float).boxed(),
        Kind::Bytes => vec(any::<u8>(), 0..80)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        Kind::Text => any::<String>().prop_map(|text| Value::String(text.into())).boxed(),
        Kind::Fixed(size) => vec(any::<u8>(), *size)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        Kind::Enum(count) => (0..*count)
            .prop_map(|index| Value::String(symbol(index).into()))
            .boxed(),
        Kind::Decimal { precision, .. } => {
            let most = 10i64.pow(u32::from(*precision)) - 1;
            prop_oneof![-most..=most, (-300i64).max(-most)..=300i64.min(most)]
                .prop_map(Value::Decimal)
                .boxed()
        }
        Kind::Timestamp(1) => (TIMESTAMP_MIN..=TIMESTAMP_MAX).prop_map(Value::Timestamp).boxed(),
        Kind::Timestamp(_) => (-NANOS_YEARS_MS..=NANOS_YEARS_MS).prop_map(Value::Timestamp).boxed(),
        Kind::Date => (-100_000i64..=100_000)
            .prop_map(|days| Value::Timestamp(days * DAY_MS))
            .boxed(),
        Kind::List(of) => vec(any_value(of), 0..4)
            .prop_map(|items| Value::Array(items.into()))
            .boxed(),
        Kind::Record(kinds) => any_values(kinds)
            .prop_map(|values| Value::Struct(values.into()))
            .boxed(),
        Kind::Nullable { of, .. } => prop_oneof![Just(Value::Null), any_value(of)].boxed(),
    }
}

fn any_values(kinds: &[Kind]) -> BoxedStrategy<Vec<Value>> {
    kinds.iter().map(any_value).collect::<Vec<_>>().boxed()
}

/// The fields of a record, a row of them.
fn kinds_and_row() -> impl Strategy<Value = (Vec<Kind>, Vec<Value>)> {
    vec(any_kind(), 1..5).prop_flat_map(|kinds| {
        let row = any_values(&kinds);
        (Just(kinds), row)
    })
}

/// The value as the crate has it.
fn theirs(kind: &Kind, value: &Value) -> Theirs {
    match (kind, value) {
        (Kind::Nullable { null, .. }, Value::Null) => Theirs::Union(*null, Box::new(Theirs::Null)),
        (Kind::Nullable { null, of }, value) => Theirs::Union(1 - null, Box::new(theirs(of, value))),
        (Kind::Bool, Value::Bool(value)) => Theirs::Boolean(*value),
        (Kind::Int, Value::Int(value)) => Theirs::Int(*value as i32),
        (Kind::Long, Value::Int(value)) => Theirs::Long(*value),
        (Kind::Float, Value::Float(value)) => Theirs::Float(*value as f32),
        (Kind::Double, Value::Float(value)) => Theirs::Double(*value),
        (Kind::Bytes, Value::Bytes(bytes)) => Theirs::Bytes(bytes.to_vec()),
        (Kind::Fixed(size), Value::Bytes(bytes)) => Theirs::Fixed(*size, bytes.to_vec()),
        (Kind::Text, Value::String(text)) => Theirs::String(text.to_string()),
        (Kind::Enum(_), Value::String(text)) => {
            Theirs::Enum(text[1..].parse().expect("the number of the symbol"), text.to_string())
        }
        (Kind::Decimal { fixed, .. }, Value::Decimal(value)) => {
            let size = fixed.unwrap_or_else(|| (1..=8).find(|size| fits(*value, *size)).expect("8 bytes are enough"));
            let bytes = i128::from(*value).to_be_bytes();
            Theirs::Decimal(Decimal::from(&bytes[16 - size..]))
        }
        (Kind::Timestamp(1), Value::Timestamp(time)) => Theirs::TimestampMillis(*time),
        (Kind::Timestamp(1000), Value::Timestamp(time)) => Theirs::TimestampMicros(time * 1000),
        (Kind::Timestamp(_), Value::Timestamp(time)) => Theirs::TimestampNanos(time * 1_000_000),
        (Kind::Date, Value::Timestamp(time)) => Theirs::Date((time / DAY_MS) as i32),
        (Kind::List(of), Value::Array(items)) => Theirs::Array(items.iter().map(|item| theirs(of, item)).collect()),
        (Kind::Record(kinds), Value::Struct(values)) => their_record(kinds, values),
        (kind, value) => panic!("{value:?} is no {kind:?}"),
    }
}

fn their_record(kinds: &[Kind], values: &[Value]) -> Theirs {
    let fields = kinds.iter().zip(values).enumerate();
    Theirs::Record(
        fields
            .map(|(index, (kind, value))| (field(index), theirs(kind, value)))
            .collect(),
    )
}

fn fits(value: i64, size: usize) -> bool {
    let spare = 64 - 8 * size as u32;
    value << spare >> spare == value
}

/// The value as Keyfold has it; None for what it does not take.
fn ours(kind: &Kind, value: &Theirs) -> Option<Value> {
    Some(match (kind, value) {
        (Kind::Nullable { null, of }, Theirs::Union(branch, value)) => match (branch == null, &**value) {
            (true, Theirs::Null) => Value::Null,
            (true, _) => return None,
            (false, value) => ours(of, value)?,
        },
        (Kind::Bool, Theirs::Boolean(value)) => Value::Bool(*value),
        (Kind::Int, Theirs::Int(value)) => Value::Int((*value).into()),
        (Kind::Long, Theirs::Long(value)) => Value::Int(*value),
        (Kind::Float, Theirs::Float(value)) => Value::Float((*value).into()),
        (Kind::Double, Theirs::Double(value)) => Value::Float(*value),
        (Kind::Bytes, Theirs::Bytes(bytes)) | (Kind::Fixed(_), Theirs::Fixed(_, bytes)) => {
            Value::Bytes(bytes.as_slice().into())
        }
        (Kind::Text, Theirs::String(text)) | (Kind::Enum(_), Theirs::Enum(_, text)) => {
            Value::String(text.as_str().into())
        }
        (Kind::Decimal { precision, .. }, Theirs::Decimal(decimal)) => {
            let bytes = <Vec<u8>>::try_from(decimal).ok().filter(|bytes| !bytes.is_empty())?;
            let sign = if bytes[0] < 0x80 { 0 } else { -1i128 };
            let mut value = sign;
            for byte in &bytes {
                // Beyond 16 bytes only a sign can go out at the top.
                if !fits_128(value) {
                    return None;
                }
                value = value << 8 | i128::from(*byte);
            }
            let value = i64::try_from(value).ok()?;
            (value.unsigned_abs() < 10u64.pow(u32::from(*precision))).then_some(Value::Decimal(value))?
        }
        (Kind::Timestamp(_), Theirs::TimestampMillis(time)) => timestamp(*time)?,
        (Kind::Timestamp(_), Theirs::TimestampMicros(time)) => timestamp(time.div_euclid(1000))?,
        (Kind::Timestamp(_), Theirs::TimestampNanos(time)) => timestamp(time.div_euclid(1_000_000))?,
        (Kind::Date, Theirs::Date(days)) => timestamp(i64::from(*days) * DAY_MS)?,
        (Kind::List(of), Theirs::Array(items)) => Value::Array(
            items
                .iter()
                .map(|item| ours(of, item))
                .collect::<Option<Vec<_>>>()?
                .into(),
        ),
        (Kind::Record(kinds), Theirs::Record(_)) => Value::Struct(our_row(kinds, value)?.into()),
        _ => return None,
    })
}

fn our_row(kinds: &[Kind], value: &Theirs) -> Option<Vec<Value>> {
    let Theirs::Record(fields) = value else {
        return None;
    };
    kinds
        .iter()
        .zip(fields)
        .map(|(kind, (_, value))| ours(kind, value))
        .collect()
}

fn fits_128(value: i128) -> bool {
    value << 8 >> 8 == value
}

fn timestamp(ms: i64) -> Option<Value> {
    (TIMESTAMP_MIN..=TIMESTAMP_MAX)
        .contains(&ms)
        .then_some(Value::Timestamp(ms))
}

/// NaN is itself here.
fn same(one: &[Value], other: &[Value]) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

struct Both {
    theirs: Avro,
    ours: Format,
}

impl Both {
    fn of(kinds: &[Kind]) -> Both {
        // For the crate's reader, which makes room for what a datum claims, up to 512 MiB if it is not told.
        apache_avro::util::max_allocation_bytes(1 << 20);
        let text = avsc(&Kind::Record(kinds.to_vec()), &mut 0).to_string();
        Both {
            theirs: Avro::parse_str(&text).expect("a schema"),
            ours: super::avro(&text),
        }
    }

    fn decoder(&self) -> Decoder {
        decoder(&self.ours, &self.ours.schema().expect("columns"))
    }

    fn written(&self, row: &[Value]) -> Vec<u8> {
        encode(&encoder(&self.ours, &self.ours.schema().expect("columns")), row).expect("of its own schema")
    }

    /// What the crate reads, and how much of the bytes it leaves.
    fn they_read(&self, bytes: &[u8]) -> Result<(Theirs, usize), String> {
        let reader = GenericDatumReader::builder(&self.theirs).build().expect("a reader");
        let mut rest = bytes;
        let value = reader.read_value(&mut rest).map_err(|error| error.to_string())?;
        Ok((value, rest.len()))
    }
}

/// What Keyfold refuses and the crate lets pass: the end of the bytes, which it takes for null or false; bytes after a block's own count; the
/// highest bits of a number of ten bytes.
const STRICTER: &[&str] = &[
    "the datum ends",
    "a length of",
    "a block that ends",
    "a block of",
    "a number of more than 64 bits",
    "a decimal of 0 bytes",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_write_the_same_and_read_the_same((kinds, row) in kinds_and_row()) {
        let both = Both::of(&kinds);
        let bytes = both.written(&row);
        let writer = GenericDatumWriter::builder(&both.theirs).build().expect("a writer");
        let theirs = writer.write_value_to_vec(their_record(&kinds, &row)).expect("of its own schema");
        prop_assert_eq!(&bytes, &theirs);
        let read = decode(&both.decoder(), &bytes).expect("written by itself");
        prop_assert!(same(&read, &row), "{:?} and {:?}", read, row);
        let (value, left) = both.they_read(&bytes).expect("written by themselves");
        prop_assert!(left == 0 && our_row(&kinds, &value).is_some_and(|theirs| same(&theirs, &row)));
    }

    #[test]
    fn of_broken_bytes_both_take_the_same(
        (kinds, row) in kinds_and_row(),
        changes in vec((any::<Index>(), any::<u8>(), 0u8..5), 1..4),
    ) {
        let both = Both::of(&kinds);
        let mut bytes = both.written(&row);
        for (place, byte, what) in changes {
            let at = place.index(bytes.len().max(1));
            match what {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at.min(bytes.len()), byte),
                3 if at < bytes.len() => { bytes.remove(at); }
                _ => bytes.truncate(at),
            }
        }
        let ours = decode(&both.decoder(), &bytes);
        let theirs = both.they_read(&bytes);
        match (&ours, &theirs) {
            (Ok(row), Ok((value, left))) => {
                prop_assert_eq!(*left, 0);
                prop_assert!(our_row(&kinds, value).is_some_and(|theirs| same(&theirs, row)), "{:?} and {:?}", row, value);
            }
            (Ok(row), Err(told)) => prop_assert!(false, "{:?}, but they say {}", row, told),
            (Err(told), Ok((value, 0))) => {
                let takes = our_row(&kinds, value).is_some();
                prop_assert!(!takes || STRICTER.iter().any(|why| told.contains(why)), "{} of {:?}", told, value);
            }
            (Err(_), _) => (),
        }
        if let Ok(row) = ours {
            // A byte is at most an empty array or text: a value and its counts on the heap.
            let weight: usize = row.iter().map(Value::weight).sum();
            prop_assert!(weight <= 64 * (bytes.len() + 1), "{} bytes of {}", weight, bytes.len());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(kinds in vec(any_kind(), 1..5), bytes in vec(any::<u8>(), 0..64)) {
        let both = Both::of(&kinds);
        let none = Decoder::columns(&both.ours, &both.ours.schema().expect("columns"), [], Limits::default()).expect("compiled");
        let told = decode(&both.decoder(), &bytes);
        if told.is_ok() {
            prop_assert!(decode(&none, &bytes).is_ok());
        }
        prop_assert!(told.is_ok() || told.expect_err("refused").len() < 600);
    }
}
