//! Errors of formats. What they hold of a record's data is cut short: they go to logs and to the headers of dead letters.
use std::fmt;

/// Characters of a record's data that an error shows.
const EXCERPT_MAX: usize = 64;

/// A format and a schema that do not go together: found before any record is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FormatError {
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: Option<String>,
}

impl FormatError {
    pub(super) fn new(message: impl Into<String>) -> FormatError {
        FormatError {
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> FormatError {
        self.help = Some(help.into());
        self
    }
}

/// Bytes that are no record of the schema: `address.city: expected string, found number 12 (byte 17)`. Bytes count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(Box<Fault>);

/// A row that the format cannot write: `total: NaN is no number in JSON`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(Box<Fault>);

impl DecodeError {
    #[cold]
    pub(super) fn new(reason: impl Into<String>) -> DecodeError {
        DecodeError(Box::new(Fault::new(reason.into())))
    }

    /// With the offset of the byte where it shows.
    #[cold]
    pub(super) fn at(mut self, byte: usize) -> DecodeError {
        self.0.byte = Some(byte);
        self
    }

    /// Inside of this field.
    #[cold]
    pub(super) fn in_field(mut self, name: &str) -> DecodeError {
        self.0.in_field(name);
        self
    }

    /// Inside of this element.
    #[cold]
    pub(super) fn in_element(mut self, index: usize) -> DecodeError {
        self.0.in_element(index);
        self
    }

    /// With a sentence more at its end.
    #[cold]
    pub(super) fn hint(mut self, hint: Option<String>) -> DecodeError {
        self.0.hint = hint;
        self
    }
}

impl EncodeError {
    #[cold]
    pub(super) fn new(reason: impl Into<String>) -> EncodeError {
        EncodeError(Box::new(Fault::new(reason.into())))
    }

    /// A value that is not of its schema's type: a mistake of whoever made the row.
    #[cold]
    pub(super) fn mistyped() -> EncodeError {
        EncodeError::new("a value of another type than its schema says: this is a bug of Keyfold, please report it")
    }

    /// Inside of this field.
    #[cold]
    pub(super) fn in_field(mut self, name: &str) -> EncodeError {
        self.0.in_field(name);
        self
    }

    /// Inside of this element.
    #[cold]
    pub(super) fn in_element(mut self, index: usize) -> EncodeError {
        self.0.in_element(index);
        self
    }
}

/// Where and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// Names of the schema and indexes: `address.city`, `items[3].price`.
    path: String,
    reason: String,
    byte: Option<usize>,
    hint: Option<String>,
}

impl Fault {
    fn new(reason: String) -> Fault {
        Fault {
            path: String::new(),
            reason,
            byte: None,
            hint: None,
        }
    }

    fn in_field(&mut self, name: &str) {
        let dot = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path.insert_str(0, dot);
        self.path.insert_str(0, name);
    }

    fn in_element(&mut self, index: usize) {
        let dot = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path.insert_str(0, &format!("[{index}]{dot}"));
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)?;
        if let Some(byte) = self.byte {
            write!(f, " (byte {byte})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, ". {hint}")?;
        }
        Ok(())
    }
}

/// The beginning of a text from a record, without what a terminal would act on.
pub(super) fn excerpt(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= EXCERPT_MAX {
            out.push_str("...");
            break;
        }
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Of bytes that cannot be read: do they begin like those that a serializer with a schema registry writes?
pub(super) fn registry_hint(bytes: &[u8]) -> Option<String> {
    let [0, id @ ..] = bytes.first_chunk::<5>()? else {
        return None;
    };
    let id = u32::from_be_bytes(*id);
    Some(format!(
        "It begins like the five-byte header of a schema registry (schema id {id}): records with that header cannot be read yet, only what follows it"
    ))
}
