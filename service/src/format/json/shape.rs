//! What a JSON text is read against: the schema, compiled for looking up members by name.
use std::collections::HashMap;
use std::fmt;

use crate::value::{Schema, Type};

/// Of a value.
#[derive(Debug)]
pub(super) enum Shape {
    Bool,
    Int,
    Float,
    Decimal { precision: u8, scale: u8 },
    String,
    Bytes,
    Timestamp,
    Array(Box<Shape>),
    Struct(Members),
}

impl Shape {
    pub(super) fn of(ty: &Type) -> Shape {
        match ty {
            Type::Bool => Shape::Bool,
            Type::Int => Shape::Int,
            Type::Float => Shape::Float,
            Type::Decimal { precision, scale } => Shape::Decimal {
                precision: *precision,
                scale: *scale,
            },
            Type::String => Shape::String,
            Type::Bytes => Shape::Bytes,
            Type::Timestamp => Shape::Timestamp,
            Type::Array(of) => Shape::Array(Box::new(Shape::of(of))),
            Type::Struct(schema) => Shape::Struct(Members::of(schema, |_| true)),
        }
    }
}

impl fmt::Display for Shape {
    /// What an error expects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Bool => "bool",
            Shape::Int => "int64",
            Shape::Float => "float64",
            Shape::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Shape::String => "string",
            Shape::Bytes => "bytes in base64",
            Shape::Timestamp => "timestamp",
            Shape::Array(_) => "an array",
            Shape::Struct(_) => "an object",
        })
    }
}

/// The members of an object that a schema knows.
#[derive(Debug)]
pub(super) struct Members {
    list: Box<[Member]>,
    /// Only with more than [`SCAN_MAX`] members.
    by_name: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Box<str>,
    ends: Ends,
    /// None: skipped.
    pub(super) shape: Option<Shape>,
}

/// Most members that are looked through one by one: comparing the ends of some ten names takes less than hashing one.
const SCAN_MAX: usize = 12;

/// Both ends of a name, of up to 8 bytes each. Together with the length they are all of a name of up to 16 bytes, and most are: it is compared without
/// a call and without a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    first: u64,
    last: u64,
}

impl Ends {
    #[inline]
    fn of(name: &[u8]) -> Ends {
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            return Ends { first, last };
        }
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
            return Ends { first, last };
        }
        let byte = |index: usize| name.get(index).map_or(0, |byte| u64::from(*byte));
        let first = byte(0) | byte(1) << 8 | byte(2) << 16;
        Ends { first, last: 0 }
    }
}

impl Member {
    /// Is this its name? `ends` are those of `name`.
    #[inline]
    fn is(&self, name: &str, ends: Ends) -> bool {
        self.name.len() == name.len() && self.ends == ends && (name.len() <= 16 || *self.name == *name)
    }
}

impl Members {
    pub(super) fn of(schema: &Schema, wanted: impl Fn(usize) -> bool) -> Members {
        let member = |(index, field): (usize, &crate::value::Field)| Member {
            name: field.name.as_str().into(),
            ends: Ends::of(field.name.as_bytes()),
            shape: wanted(index).then(|| Shape::of(&field.ty)),
        };
        let list: Box<[Member]> = schema.fields().iter().enumerate().map(member).collect();
        let mut by_name = HashMap::new();
        if list.len() > SCAN_MAX {
            by_name.extend(
                list.iter()
                    .enumerate()
                    .map(|(index, member)| (member.name.clone(), index)),
            );
        }
        Members { list, by_name }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, index: usize) -> &Member {
        &self.list[index]
    }

    /// Index of a member. `next` is tried first: most producers write the members of every record in the same order, and most often that
    /// is the schema's.
    #[inline]
    pub(super) fn find(&self, name: &str, next: usize) -> Option<usize> {
        let ends = Ends::of(name.as_bytes());
        if self.list.get(next).is_some_and(|member| member.is(name, ends)) {
            return Some(next);
        }
        if self.by_name.is_empty() {
            return self.list.iter().position(|member| member.is(name, ends));
        }
        self.by_name.get(name).copied()
    }
}

/// Which members an object had already.
#[derive(Default)]
pub(super) struct Seen {
    first: u64,
    /// Members from the 64th on; empty until one of them comes.
    rest: Vec<u64>,
}

impl Seen {
    /// Notes a member; whether it was there already.
    #[inline]
    pub(super) fn again(&mut self, index: usize) -> bool {
        let bit = 1 << (index % 64);
        let word = match index / 64 {
            0 => &mut self.first,
            more => {
                if self.rest.len() < more {
                    self.rest.resize(more, 0);
                }
                &mut self.rest[more - 1]
            }
        };
        let again = *word & bit != 0;
        *word |= bit;
        again
    }
}
