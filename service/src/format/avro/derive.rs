//! From an Avro schema to a type and a program.
use std::sync::Arc;

use apache_avro::Schema as Avro;
use apache_avro::schema::{
    DecimalSchema, InnerDecimalSchema, Name, NamesRef, NamespaceRef, RecordSchema, ResolvedSchema, UnionSchema,
    UuidSchema,
};

use super::node::{Member, Node, Unit};
use crate::format::DEPTH_MAX;
use crate::format::error::FormatError;
use crate::value::{DECIMAL_DIGITS_MAX, Field, Schema, Type};

/// Most fields of a schema, with each use of a named type counted anew. Records that use one another twice double at each step: twenty lines of
/// schema would make a million fields. Real schemas have hundreds.
const NODES_MAX: usize = 10_000;

pub(super) fn derive(schema: &Avro) -> Result<(Type, Node), FormatError> {
    let resolved =
        ResolvedSchema::try_from(schema).map_err(|error| FormatError::new(format!("no Avro schema: {error}")))?;
    let mut derivation = Derivation {
        names: resolved.get_names(),
        open: Vec::new(),
        path: Vec::new(),
        nodes: 0,
        depth: 0,
    };
    derivation.node(schema, None)
}

struct Derivation<'s> {
    names: &'s NamesRef<'s>,
    /// Records that are being gone through.
    open: Vec<String>,
    /// Fields down to where it is.
    path: Vec<&'s str>,
    nodes: usize,
    depth: usize,
}

impl<'s> Derivation<'s> {
    fn refuse(&self, what: &str, help: &str) -> FormatError {
        let place = match self.path.as_slice() {
            [] => "the Avro schema".to_owned(),
            path => format!("field {} of the Avro schema", path.join(".")),
        };
        FormatError::new(format!("{place} is {what}")).help(help)
    }

    fn node(&mut self, schema: &'s Avro, namespace: NamespaceRef<'s>) -> Result<(Type, Node), FormatError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(FormatError::new(format!(
                "the Avro schema has more than {NODES_MAX} fields"
            )));
        }
        if self.depth > DEPTH_MAX {
            return Err(FormatError::new(format!(
                "the Avro schema nests deeper than {DEPTH_MAX} levels"
            )));
        }
        self.depth += 1;
        let node = self.node_inside(schema, namespace);
        self.depth -= 1;
        node
    }

    fn node_inside(&mut self, schema: &'s Avro, namespace: NamespaceRef<'s>) -> Result<(Type, Node), FormatError> {
        Ok(match schema {
            Avro::Boolean => (Type::Bool, Node::Bool),
            Avro::Int => (Type::Int, Node::Int),
            Avro::Long => (Type::Int, Node::Long),
            Avro::Float => (Type::Float, Node::Float),
            Avro::Double => (Type::Float, Node::Double),
            Avro::Bytes => (Type::Bytes, Node::Bytes),
            Avro::String => (Type::String, Node::String),
            Avro::Uuid(UuidSchema::String) => (Type::String, Node::Uuid),
            Avro::Fixed(fixed) => (Type::Bytes, Node::Fixed(self.size(fixed.size)?)),
            Avro::Enum(symbols) => {
                let symbols = symbols.symbols.iter().map(|symbol| symbol.as_str().into());
                (Type::String, Node::Enum(symbols.collect()))
            }
            Avro::Decimal(decimal) => self.decimal(decimal)?,
            Avro::TimestampMillis => (Type::Timestamp, Node::Timestamp(Unit::Millis)),
            Avro::TimestampMicros => (Type::Timestamp, Node::Timestamp(Unit::Micros)),
            Avro::TimestampNanos => (Type::Timestamp, Node::Timestamp(Unit::Nanos)),
            Avro::Date => (Type::Timestamp, Node::Date),
            Avro::Array(array) => {
                let (ty, node) = self.node(&array.items, namespace)?;
                let size_min = node.size_min();
                let of = Box::new(node);
                (Type::Array(Arc::new(ty)), Node::Array { of, size_min })
            }
            Avro::Record(record) => self.record(record, namespace)?,
            Avro::Union(union) => self.nullable(union, namespace)?,
            Avro::Ref { name } => self.named(name, namespace)?,
            other => return Err(self.unsupported(other)),
        })
    }

    fn unsupported(&self, schema: &Avro) -> FormatError {
        let (what, help) = match schema {
            Avro::Null => (
                "null, which holds nothing",
                "leave the field out, or make it a union of null and a type",
            ),
            Avro::Map(_) => (
                "a map, which rows cannot hold",
                "make it an array of records with the fields key and value",
            ),
            Avro::Uuid(_) => (
                "a uuid in bytes",
                "make it a uuid in a string, or bytes without the logical type",
            ),
            Avro::BigDecimal => (
                "a big-decimal, whose scale differs from value to value",
                "make it a decimal with a precision of at most 18",
            ),
            Avro::TimeMillis | Avro::TimeMicros => (
                "a time of day, which rows cannot hold",
                "leave its logical type out: it is then an integer",
            ),
            Avro::Duration(_) => (
                "a duration, which rows cannot hold",
                "leave its logical type out: it is then bytes",
            ),
            Avro::LocalTimestampMillis | Avro::LocalTimestampMicros | Avro::LocalTimestampNanos => (
                "a local timestamp, which is no moment without a time zone",
                "make it timestamp-millis, or leave its logical type out: it is then an integer",
            ),
            _ => ("of a type that rows cannot hold", "leave it out"),
        };
        self.refuse(what, help)
    }

    /// Bytes of a value of fixed size.
    fn size(&self, size: usize) -> Result<usize, FormatError> {
        match size {
            0 => Err(self.refuse("a fixed of 0 bytes, which holds nothing", "leave it out")),
            size => Ok(size),
        }
    }

    fn decimal(&self, decimal: &DecimalSchema) -> Result<(Type, Node), FormatError> {
        let fixed = match &decimal.inner {
            InnerDecimalSchema::Bytes => None,
            InnerDecimalSchema::Fixed(fixed) => Some(self.size(fixed.size)?),
        };
        let (precision, scale) = (u8::try_from(decimal.precision), u8::try_from(decimal.scale));
        let (Ok(precision @ 1..=DECIMAL_DIGITS_MAX), Ok(scale)) = (precision, scale) else {
            let what = format!("decimal({},{})", decimal.precision, decimal.scale);
            let help =
                format!("decimals have at most {DECIMAL_DIGITS_MAX} digits; without the logical type it is bytes");
            return Err(self.refuse(&what, &help));
        };
        let ty = Type::Decimal { precision, scale };
        Ok((
            ty,
            Node::Decimal {
                fixed,
                precision,
                scale,
            },
        ))
    }

    fn record(&mut self, record: &'s RecordSchema, namespace: NamespaceRef<'s>) -> Result<(Type, Node), FormatError> {
        if record.fields.is_empty() {
            return Err(self.refuse("a record without fields, which holds nothing", "leave it out"));
        }
        let namespace = record.name.namespace().or(namespace);
        self.open.push(record.name.fullname(namespace));
        let mut fields = Vec::with_capacity(record.fields.len());
        let mut members = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            self.path.push(&field.name);
            let (ty, node) = self.node(&field.schema, namespace)?;
            self.path.pop();
            let name = field.name.clone();
            members.push(Member {
                name: name.as_str().into(),
                node,
            });
            fields.push(Field { name, ty });
        }
        self.open.pop();
        let ty = Type::Struct(Arc::new(Schema::new(fields)));
        Ok((ty, Node::Record(members.into())))
    }

    fn nullable(&mut self, union: &'s UnionSchema, namespace: NamespaceRef<'s>) -> Result<(Type, Node), FormatError> {
        let (null, of) = match union.variants() {
            [Avro::Null, of] => (0, of),
            [of, Avro::Null] => (1, of),
            _ => {
                let help = "a union may have null and one other type: make it a record with a nullable field for each";
                return Err(self.refuse("a union of other types than null and one more", help));
            }
        };
        let (ty, node) = self.node(of, namespace)?;
        let of = Box::new(node);
        Ok((ty, Node::Nullable { null, of }))
    }

    fn named(&mut self, name: &'s Name, namespace: NamespaceRef<'s>) -> Result<(Type, Node), FormatError> {
        let full = name.fully_qualified_name(namespace);
        if self.open.contains(&full.fullname(None)) {
            let help = "a row has no more levels than its schema: leave the field out, or give it as a string of JSON";
            return Err(self.refuse("a record inside of itself", help));
        }
        let Some(schema) = self.names.get(full.as_ref()).copied() else {
            return Err(self.refuse(
                &format!("of the type {full}, which is not defined"),
                "define it before its use",
            ));
        };
        self.node(schema, name.namespace().or(namespace))
    }
}
