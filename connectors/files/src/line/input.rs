//! From a line to the parts of a record. Allocates only for keys with escapes and for headers.
use crate::config::Lines;
use keyfold::types::{Header, Headers, TimestampMs};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

const NO_TIMESTAMP: TimestampMs = -1;

/// The parts of a record, borrowed from its line.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed<'a> {
    pub key: Option<Cow<'a, [u8]>>,
    pub value: Option<&'a [u8]>,
    pub timestamp: TimestampMs,
    pub headers: HeaderList,
}

/// Headers in the order of the line; names may repeat.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HeaderList(Vec<Header>);

impl Headers for HeaderList {
    fn to_vec(&self) -> Vec<Header> {
        self.0.clone()
    }
}

/// Takes a line (without its newline) apart; see [`Lines`] for what becomes of a line that does not fit.
pub(crate) fn parse<'a>(lines: &Lines, line: &'a [u8]) -> Parsed<'a> {
    match lines {
        Lines::Value { timestamp_field: None } => raw(line, NO_TIMESTAMP),
        Lines::Value {
            timestamp_field: Some(name),
        } => raw(line, find_timestamp(line, name).unwrap_or(NO_TIMESTAMP)),
        Lines::Envelope => envelope(line).unwrap_or_else(|| raw(line, NO_TIMESTAMP)),
    }
}

fn raw(line: &[u8], timestamp: TimestampMs) -> Parsed<'_> {
    Parsed {
        key: None,
        value: Some(line),
        timestamp,
        headers: HeaderList::default(),
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(default)]
    timestamp: Option<TimestampMs>,
    #[serde(default)]
    headers: Option<HeaderList>,
}

fn envelope(line: &[u8]) -> Option<Parsed<'_>> {
    let envelope: Envelope<'_> = serde_json::from_slice(line).ok()?;
    let key = match envelope.key {
        None => None,
        Some(text) => Some(string_bytes(text.get())?),
    };
    let value = envelope.value.get();
    Some(Parsed {
        key,
        value: (value != "null").then_some(value.as_bytes()),
        timestamp: envelope.timestamp.unwrap_or(NO_TIMESTAMP),
        headers: envelope.headers.unwrap_or_default(),
    })
}

/// The contents of a JSON string; None when the text is something else.
fn string_bytes(text: &str) -> Option<Cow<'_, [u8]>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner.as_bytes()));
    }
    let unescaped: String = serde_json::from_str(text).ok()?;
    Some(Cow::Owned(unescaped.into_bytes()))
}

impl<'de> Deserialize<'de> for HeaderList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = HeaderList;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings and nulls")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderList, A::Error> {
        let mut headers = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Option<String>>()? {
            headers.push(Header {
                key,
                value: value.map(String::into_bytes),
            });
        }
        Ok(HeaderList(headers))
    }
}

/// The integer member `name` of the line's object.
fn find_timestamp(line: &[u8], name: &str) -> Option<TimestampMs> {
    serde_json::Deserializer::from_slice(line)
        .deserialize_map(TimestampVisitor { name })
        .ok()?
}

struct TimestampVisitor<'n> {
    name: &'n str,
}

impl<'de> Visitor<'de> for TimestampVisitor<'_> {
    type Value = Option<TimestampMs>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(NameIs { name: self.name })? {
            let value: &RawValue = map.next_value()?;
            if is_it {
                found = value.get().parse().ok();
            }
        }
        Ok(found)
    }
}

/// Compares a member's name without copying it.
struct NameIs<'n> {
    name: &'n str,
}

impl<'de> DeserializeSeed<'de> for NameIs<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameIs<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(text == self.name)
    }
}
