//! Errors: of an expression that cannot be compiled, and of a row that it cannot be applied to.
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::value::Type;
use keyfold::operator::BadReason;

/// Why a text is no expression over a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprError {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes of the expression's text; empty at its end when something is missing.
    pub span: Range<usize>,
    /// The way out, if one is known.
    pub help: Option<String>,
    /// The field that the schema does not have, if that is what is wrong.
    pub missing: Option<String>,
}

impl ExprError {
    pub(super) fn new(at: At, message: impl Into<String>) -> ExprError {
        ExprError {
            message: message.into(),
            span: at.range(),
            help: None,
            missing: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> ExprError {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExprError {}

/// A place in an expression's text, in bytes. The text is far shorter than 2^32 (`parse::BYTES_MAX`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct At {
    pub start: u32,
    pub end: u32,
}

impl At {
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// From the start of this to the end of `last`.
    pub fn to(self, last: At) -> At {
        At {
            start: self.start.min(last.start),
            end: self.end.max(last.end),
        }
    }
}

/// What went wrong with a row, and where in the expression. Boxed, so that a result without an error stays small.
#[derive(Debug)]
pub(super) struct Fault {
    pub what: What,
    pub at: At,
}

impl Fault {
    pub fn of(what: What, at: At) -> Box<Fault> {
        Box::new(Fault { what, at })
    }

    /// A value that is none of the type.
    pub fn cast(value: &str, to: Type, at: At) -> Box<Fault> {
        let value = format!("'{}'", shortened(value, VALUE_SHOWN_MAX));
        Fault::of(What::Cast { value, to }, at)
    }
}

/// What goes wrong with a row.
#[derive(Debug)]
pub(super) enum What {
    /// A result that its type has no room for.
    Overflow(Type),
    DivisionByZero,
    /// A value that the type does not have.
    Cast {
        /// As text, cut short.
        value: String,
        to: Type,
    },
    /// A text or an array beyond its bound.
    TooLong {
        what: &'static str,
        max: usize,
    },
    /// More than an aggregate holds for a key.
    TooManyValues {
        what: &'static str,
        max: usize,
    },
    /// A length below zero.
    NegativeLength(i64),
    /// A pattern of LIKE that ends with its escape character.
    Pattern(String),
    /// A timestamp beyond the years 0 to 9999.
    Calendar,
    /// A field holds a value of another type than the schema says.
    Mismatch,
}

impl What {
    /// What counters are labelled with.
    fn reason(&self) -> BadReason {
        match self {
            What::Overflow(_) => BadReason::Overflow,
            What::DivisionByZero => BadReason::DivisionByZero,
            What::Cast { .. } => BadReason::Cast,
            What::TooLong { .. } => BadReason::TooLong,
            What::TooManyValues { .. } => BadReason::TooManyValues,
            What::NegativeLength(_) => BadReason::NegativeLength,
            What::Pattern(_) => BadReason::LikePattern,
            What::Calendar => BadReason::TimestampRange,
            What::Mismatch => BadReason::TypeMismatch,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Overflow(ty) => write!(f, "the result does not fit into {ty}"),
            What::DivisionByZero => f.write_str("division by zero"),
            What::Cast { value, to } => write!(f, "{value} is no {to}"),
            What::TooLong { what, max } => write!(f, "the result has more than {max} {what}"),
            What::TooManyValues { what, max } => write!(f, "a key has more than {max} {what}"),
            What::NegativeLength(length) => write!(f, "a length of {length}"),
            What::Pattern(pattern) => write!(f, "the pattern '{pattern}' ends with its escape character"),
            What::Calendar => f.write_str("a timestamp beyond the years 0 to 9999"),
            What::Mismatch => f.write_str("a field holds a value of another type than its schema says"),
        }
    }
}

/// A row that an expression cannot be applied to: overflow, division by zero, a bad cast. It says what, and in which part of the expression.
#[derive(Debug, Clone)]
pub struct EvalError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    text: Arc<str>,
    span: Range<usize>,
    message: String,
    reason: BadReason,
}

/// Characters of an expression that an error repeats.
const SHOWN_MAX: usize = 200;

/// Characters of a value that an error repeats: enough to find the record, not so many that the log becomes a copy of the topic.
pub(super) const VALUE_SHOWN_MAX: usize = 60;

impl EvalError {
    pub(super) fn new(fault: &Fault, text: &Arc<str>) -> EvalError {
        EvalError(Box::new(Inner {
            text: text.clone(),
            span: fault.at.range(),
            message: fault.what.to_string(),
            reason: fault.what.reason(),
        }))
    }

    /// What counters and headers are labelled with.
    #[must_use]
    pub fn reason(&self) -> BadReason {
        self.0.reason
    }

    /// The part of the expression that failed, in bytes of its text.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.0.span.clone()
    }

    /// The whole expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.0.text.get(self.0.span.clone()).unwrap_or_default();
        let part = if part.is_empty() { &self.0.text } else { part };
        write!(f, "{} in `{}`", self.0.message, shortened(part, SHOWN_MAX))
    }
}

impl std::error::Error for EvalError {}

/// The first characters of a text.
pub(super) fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((cut, _)) => format!("{}..", &text[..cut]),
        None => text.to_owned(),
    }
}
