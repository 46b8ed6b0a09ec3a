//! Reading: visitors that go through the text once, beside the compiled schema. What is not wanted is skipped, not built.
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::{Fault, Found, Segment};
use super::scalar;
use super::shape::{Members, Seen, Shape};
use crate::format::error::{DecodeError, registry_hint};
use crate::format::{Limits, single};
use crate::value::{Schema, Type, Value};

/// Reads JSON texts of one schema.
#[derive(Debug)]
pub(in crate::format) struct JsonReader(Root);

#[derive(Debug)]
enum Root {
    /// An object: a column per member.
    Columns(Members),
    /// Anything: one value.
    Datum(Shape),
}

impl JsonReader {
    pub(in crate::format) fn columns(schema: &Schema, wanted: &[bool]) -> JsonReader {
        JsonReader(Root::Columns(Members::of(schema, |index| wanted[index])))
    }

    pub(in crate::format) fn datum(ty: &Type) -> JsonReader {
        JsonReader(Root::Datum(Shape::of(ty)))
    }

    /// Pushes the values onto `row`; after an error it may have pushed some.
    pub(in crate::format) fn read(
        &self,
        bytes: &[u8],
        limits: Limits,
        row: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            let error = DecodeError::new("begins with a byte order mark (BOM), which JSON must not have");
            return Err(error.at(0));
        }
        // Checked once for all, also for what is skipped: the parser need not look again at each text.
        let text = std::str::from_utf8(bytes).map_err(single::not_utf8)?;
        let start = text.len() - text.trim_ascii_start().len();
        let Some(first) = bytes.get(start) else {
            return Err(DecodeError::new("no JSON at all, but an empty value"));
        };
        let before = row.len();
        let mut reading = Reading::new(limits);
        let mut result = self.read_text((text, start, *first), &reading, row);
        if reading.minus_zero.get() {
            row.truncate(before);
            reading = Reading {
                integers_by_text: true,
                ..Reading::new(limits)
            };
            result = self.read_text((text, start, *first), &reading, row);
        }
        result.map_err(|error| reading.explain(text, &error).hint(registry_hint(bytes)))
    }

    /// `first` is the byte at `start`, where the text begins behind white space.
    fn read_text<'p>(
        &'p self,
        (text, start, first): (&str, usize, u8),
        reading: &Reading<'p>,
        row: &mut Vec<Value>,
    ) -> Result<(), serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_str(text);
        let result = match &self.0 {
            Root::Datum(shape) => ValueSeed::new(shape, reading)
                .deserialize(&mut parser)
                .map(|value| row.push(value)),
            Root::Columns(members) if first == b'{' => {
                let before = row.len();
                row.resize(before + members.len(), Value::Null);
                let values = &mut row[before..];
                parser.deserialize_map(RowVisitor {
                    members,
                    reading,
                    values,
                })
            }
            Root::Columns(_) => IgnoredAny::deserialize(&mut parser).and_then(|_| {
                let found = Found::Token(start, text.trim_ascii_end().len());
                Err(reading.fail(Fault::mismatch("an object", found)))
            }),
        };
        result.and_then(|()| parser.end())
    }
}

/// What is kept while one text is read.
pub(super) struct Reading<'p> {
    /// Values that arrays and structs may still hold.
    values_left: Cell<usize>,
    fault: RefCell<Option<Fault>>,
    /// Where the fault is, from the inside out.
    path: RefCell<Vec<Segment<'p>>>,
    /// A whole number was asked for and the parser told of minus zero, as it does of `-0` and of `-1e-400`: its text has to decide.
    minus_zero: Cell<bool>,
    /// Whole numbers are read from their text. It takes longer, and minus zero is rare.
    integers_by_text: bool,
}

impl<'p> Reading<'p> {
    fn new(limits: Limits) -> Reading<'p> {
        Reading {
            values_left: Cell::new(limits.values_max),
            fault: RefCell::new(None),
            path: RefCell::new(Vec::new()),
            minus_zero: Cell::new(false),
            integers_by_text: false,
        }
    }

    /// Keeps the fault, and makes the error that takes it up through the parser.
    #[cold]
    fn fail<E: Error>(&self, fault: Fault) -> E {
        self.fault.replace(Some(fault));
        E::custom("")
    }

    #[cold]
    fn within<E>(&self, segment: Segment<'p>, error: E) -> E {
        self.path.borrow_mut().push(segment);
        error
    }

    fn take<E: Error>(&self, values: usize) -> Result<(), E> {
        match self.values_left.get().checked_sub(values) {
            Some(left) => {
                self.values_left.set(left);
                Ok(())
            }
            None => Err(self.fail(Fault::too_many_values())),
        }
    }

    fn explain(self, text: &str, error: &serde_json::Error) -> DecodeError {
        super::fault::explain(text, error, self.fault.into_inner(), &self.path.into_inner())
    }
}

/// Reads one value.
struct ValueSeed<'r, 'p> {
    shape: &'p Shape,
    reading: &'r Reading<'p>,
}

impl<'r, 'p> ValueSeed<'r, 'p> {
    fn new(shape: &'p Shape, reading: &'r Reading<'p>) -> ValueSeed<'r, 'p> {
        ValueSeed { shape, reading }
    }

    #[cold]
    fn mismatch<E: Error>(&self, found: Found) -> E {
        self.reading.fail(Fault::mismatch(self.shape, found))
    }

    /// A whole number, or what is in its place, by its text.
    #[cold]
    fn whole<E: Error>(self, raw: &str) -> Result<Value, E> {
        if raw == "-0" {
            return self.visit_i64(0);
        }
        let mut parser = serde_json::Deserializer::from_str(raw);
        let reading = self.reading;
        parser.deserialize_any(self).map_err(|_| {
            // What is wrong is known, and where it is: to the outer parser this is a place behind the text.
            let fault = reading.fault.take().map(|fault| fault.about(Found::raw(raw)));
            reading.fault.replace(fault);
            E::custom("")
        })
    }

    /// A value that is of the right kind, and yet none.
    #[cold]
    fn refuse<E: Error>(&self, why: impl fmt::Display) -> E {
        self.reading
            .fail(Fault::mismatch(self.shape, Found::Scalar).because(why))
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let by_text = match self.shape {
            // The parser's own floats may be off by the last bit.
            Shape::Float | Shape::Decimal { .. } => true,
            Shape::Int | Shape::Timestamp => self.reading.integers_by_text,
            _ => false,
        };
        if !by_text {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if matches!(self.shape, Shape::Int | Shape::Timestamp) {
            return self.whole(raw);
        }
        scalar::read_number(self.shape, raw).map_err(|why| {
            let fault = Fault::mismatch(self.shape, Found::raw(raw));
            self.reading.fail(fault.because(why))
        })
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        match self.shape {
            Shape::Bool => Ok(Value::Bool(value)),
            _ => Err(self.mismatch(Found::Scalar)),
        }
    }

    #[inline]
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        match self.shape {
            Shape::Int => Ok(Value::Int(value)),
            Shape::Timestamp => scalar::timestamp_of_ms(value).map_err(|why| self.refuse(why)),
            _ => Err(self.mismatch(Found::Scalar)),
        }
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match self.shape {
            Shape::Int | Shape::Timestamp
                if value == 0.0 && value.is_sign_negative() && !self.reading.integers_by_text =>
            {
                self.reading.minus_zero.set(true);
                self.visit_i64(0)
            }
            Shape::Int | Shape::Timestamp => Err(self.refuse(scalar::why_no_integer(value))),
            _ => Err(self.mismatch(Found::Scalar)),
        }
    }

    #[inline]
    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        match self.shape {
            Shape::String => Ok(Value::String(text.into())),
            Shape::Timestamp => scalar::timestamp_of_text(text).map_err(|why| self.refuse(why)),
            Shape::Bytes => scalar::bytes_of_text(text).map_err(|why| self.refuse(why)),
            _ => Err(self.mismatch(Found::Scalar)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let Shape::Array(of) = self.shape else {
            return Err(self.mismatch(Found::Array));
        };
        let mut items = Vec::new();
        loop {
            match seq.next_element_seed(ValueSeed::new(of, self.reading)) {
                Ok(Some(item)) => {
                    self.reading.take(1)?;
                    items.push(item);
                }
                Ok(None) => return Ok(Value::Array(items.into())),
                Err(error) => return Err(self.reading.within(Segment::Element(items.len()), error)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let Shape::Struct(members) = self.shape else {
            return Err(self.mismatch(Found::Object));
        };
        self.reading.take(members.len())?;
        // Filled in place: a vector would be copied.
        let mut values: Arc<[Value]> = std::iter::repeat_n(Value::Null, members.len()).collect();
        let unshared = Arc::get_mut(&mut values).expect("invariant: nobody else has it yet");
        fill(members, self.reading, map, unshared)?;
        Ok(Value::Struct(values))
    }
}

/// Reads an object into the values of a row.
struct RowVisitor<'r, 'p> {
    members: &'p Members,
    reading: &'r Reading<'p>,
    values: &'r mut [Value],
}

impl<'de> Visitor<'de> for RowVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        fill(self.members, self.reading, map, self.values)
    }
}

/// Puts the members of an object where they belong. What the object lacks stays as it is.
fn fill<'de, 'p, A: MapAccess<'de>>(
    members: &'p Members,
    reading: &Reading<'p>,
    mut map: A,
    values: &mut [Value],
) -> Result<(), A::Error> {
    let mut seen = Seen::default();
    let mut next = 0;
    while let Some(found) = map.next_key_seed(NameSeed { members, next })? {
        let Some(index) = found else {
            map.next_value::<IgnoredAny>()?;
            continue;
        };
        let member = members.get(index);
        let segment = Segment::Field(&member.name);
        if seen.again(index) {
            return Err(reading.within(segment, reading.fail(Fault::twice())));
        }
        match &member.shape {
            Some(shape) => {
                let seed = ValueSeed::new(shape, reading);
                values[index] = map
                    .next_value_seed(seed)
                    .map_err(|error| reading.within(segment, error))?;
            }
            None => {
                map.next_value::<IgnoredAny>()
                    .map_err(|error| reading.within(segment, error))?;
            }
        }
        next = index + 1;
    }
    Ok(())
}

/// Reads a name; the member's index, if the schema has it.
struct NameSeed<'p> {
    members: &'p Members,
    next: usize,
}

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = Option<usize>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.members.find(name, self.next))
    }
}
