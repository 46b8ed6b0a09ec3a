//! Explains what is wrong with a text, once it is known to be wrong: nothing of this is on the way of good records.
use std::fmt;

use crate::format::error::{DecodeError, excerpt};

/// A step of the path to a fault.
pub(super) enum Segment<'p> {
    Field(&'p str),
    Element(usize),
}

/// What the schema has against a value. The parser knows nothing of it.
pub(super) struct Fault {
    reason: String,
    found: Option<Found>,
    why: String,
}

/// The value that a fault is about. The parser has stopped behind it.
pub(super) enum Found {
    /// A text, a number, a word.
    Scalar,
    /// Its opening bracket.
    Array,
    /// Its opening brace.
    Object,
    /// From here to here.
    Token(usize, usize),
    /// A part of the text, by address and length.
    Raw(usize, usize),
}

impl Found {
    pub(super) fn raw(raw: &str) -> Found {
        Found::Raw(raw.as_ptr() as usize, raw.len())
    }

    /// Where it begins and ends in `text`, of which the parser has read `read` bytes.
    fn range(&self, text: &[u8], read: usize) -> (usize, usize) {
        let before = &text[..read];
        match self {
            Found::Scalar => (start_of_scalar(before), read),
            Found::Array => (before.iter().rposition(|byte| *byte == b'[').unwrap_or(0), read),
            Found::Object => (before.iter().rposition(|byte| *byte == b'{').unwrap_or(0), read),
            Found::Token(start, end) => (*start, *end),
            Found::Raw(address, length) => {
                let start = address.saturating_sub(text.as_ptr() as usize);
                (start, start + length)
            }
        }
    }
}

/// Start of the text, number or word that ends `text`.
fn start_of_scalar(text: &[u8]) -> usize {
    let Some((b'"', inside)) = text.split_last() else {
        let is_other = |byte: &u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'));
        return text.iter().rposition(is_other).map_or(0, |other| other + 1);
    };
    // Its opening quote is the last before its end that has no backslash, or an even number of them, before it.
    let mut end = inside.len();
    while let Some(quote) = inside[..end].iter().rposition(|byte| *byte == b'"') {
        let escapes = inside[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return quote;
        }
        end = quote;
    }
    0
}

impl Fault {
    pub(super) fn mismatch(expected: impl fmt::Display, found: Found) -> Fault {
        Fault {
            reason: format!("expected {expected}"),
            found: Some(found),
            why: String::new(),
        }
    }

    pub(super) fn because(mut self, why: impl fmt::Display) -> Fault {
        self.why = why.to_string();
        self
    }

    /// The same, about a value whose place in the text is known.
    pub(super) fn about(mut self, found: Found) -> Fault {
        self.found = self.found.map(|_| found);
        self
    }

    pub(super) fn twice() -> Fault {
        Fault {
            reason: "given twice".to_owned(),
            found: None,
            why: String::new(),
        }
    }

    pub(super) fn too_many_values() -> Fault {
        Fault {
            reason: crate::format::TOO_MANY_VALUES.to_owned(),
            found: None,
            why: String::new(),
        }
    }
}

/// What a user is told.
pub(super) fn explain(
    text: &str,
    error: &serde_json::Error,
    fault: Option<Fault>,
    path: &[Segment<'_>],
) -> DecodeError {
    let read = bytes_read(text, error);
    let told = match fault {
        None => DecodeError::new(syntax(error)).at(read.saturating_sub(1)),
        Some(Fault { reason, found, why }) => match found {
            None => DecodeError::new(reason).at(read.saturating_sub(1)),
            Some(found) => {
                let (start, end) = found.range(text.as_bytes(), read);
                let token = text.get(start..end).unwrap_or_default();
                let colon = if why.is_empty() { "" } else { ": " };
                DecodeError::new(format!("{reason}, found {}{colon}{why}", describe(token))).at(start)
            }
        },
    };
    path.iter().fold(told, |told, segment| match segment {
        Segment::Field(name) => told.in_field(name),
        Segment::Element(index) => told.in_element(*index),
    })
}

/// Bytes of `text` up to the place of the error, which the parser gives as line and column.
fn bytes_read(text: &str, error: &serde_json::Error) -> usize {
    let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    let line = match error.line() {
        0 | 1 => 0,
        line => newlines.map(|(at, _)| at + 1).nth(line - 2).unwrap_or(0),
    };
    (line + error.column()).min(text.len())
}

/// The parser's message, which holds no data, without the place at its end.
fn syntax(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if let Some(place) = message.rfind(" at line ") {
        message.truncate(place);
    }
    format!("not JSON: {message}")
}

fn describe(token: &str) -> String {
    match token.as_bytes().first() {
        Some(b'"') => format!("string {}", excerpt(token)),
        Some(b'[') => "an array".to_owned(),
        Some(b'{') => "an object".to_owned(),
        Some(b'-' | b'0'..=b'9') => format!("number {}", excerpt(token)),
        _ => excerpt(token),
    }
}
