//! The program that a datum is read and written by: the schema without what its bytes do not depend on.
use std::fmt;
use std::sync::Arc;

/// How a value lies in the bytes.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Bool,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// A string of the form 8-4-4-4-12.
    Uuid,
    Fixed(usize),
    Enum(Box<[Arc<str>]>),
    Decimal {
        /// Its size, if it is no `bytes` with a length in front.
        fixed: Option<usize>,
        precision: u8,
        scale: u8,
    },
    Timestamp(Unit),
    Date,
    Array {
        of: Box<Node>,
        /// Fewest bytes of an element; never 0.
        size_min: usize,
    },
    Record(Box<[Member]>),
    /// A union with null.
    Nullable {
        /// The branch that is null: 0 or 1.
        null: u8,
        of: Box<Node>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: Box<str>,
    pub(super) node: Node,
}

/// Of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub(super) fn in_one_ms(self) -> i64 {
        match self {
            Unit::Millis => 1,
            Unit::Micros => 1000,
            Unit::Nanos => 1_000_000,
        }
    }
}

impl Node {
    /// Fewest bytes of a value. At least 1 for every schema that is taken, so that a datum cannot hold more values than bytes.
    pub(super) fn size_min(&self) -> usize {
        match self {
            Node::Float => 4,
            Node::Double => 8,
            Node::Fixed(size) | Node::Decimal { fixed: Some(size), .. } => *size,
            Node::Record(members) => members
                .iter()
                .fold(0, |sum: usize, member| sum.saturating_add(member.node.size_min())),
            _ => 1,
        }
    }
}

impl fmt::Display for Node {
    /// As Avro names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Node::Bool => "boolean",
            Node::Int => "int",
            Node::Long => "long",
            Node::Float => "float",
            Node::Double => "double",
            Node::Bytes => "bytes",
            Node::String => "string",
            Node::Uuid => "uuid",
            Node::Fixed(size) => return write!(f, "fixed({size})"),
            Node::Enum(_) => "enum",
            Node::Decimal { precision, scale, .. } => return write!(f, "decimal({precision},{scale})"),
            Node::Timestamp(Unit::Millis) => "timestamp-millis",
            Node::Timestamp(Unit::Micros) => "timestamp-micros",
            Node::Timestamp(Unit::Nanos) => "timestamp-nanos",
            Node::Date => "date",
            Node::Array { of, .. } => return write!(f, "array({of})"),
            Node::Record(_) => "record",
            Node::Nullable { of, .. } => return write!(f, "{of}"),
        })
    }
}
