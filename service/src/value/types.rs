//! Types and schemas. Every field may be NULL.
use std::fmt;
use std::sync::Arc;

/// The type of a field or of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// TRUE, FALSE.
    Bool,
    /// 64-bit signed integer.
    Int,
    /// 64-bit IEEE 754.
    Float,
    /// Exact decimal: an unscaled 64-bit integer with at most 18 digits, `scale` of them behind the point.
    Decimal {
        /// Digits in all, 1 to 18.
        precision: u8,
        /// Digits behind the point, 0 to `precision`.
        scale: u8,
    },
    /// UTF-8 text.
    String,
    /// Bytes.
    Bytes,
    /// Milliseconds since the Unix epoch, UTC.
    Timestamp,
    /// Values of one type.
    Array(Arc<Type>),
    /// Named fields in order.
    Struct(Arc<Schema>),
}

/// Most digits of a decimal.
pub const DECIMAL_DIGITS_MAX: u8 = 18;

impl Type {
    /// Whether values of the type are numbers.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        matches!(self, Type::Int | Type::Float | Type::Decimal { .. })
    }
}

impl fmt::Display for Type {
    /// As it is written in a pipeline file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int64"),
            Type::Float => f.write_str("float64"),
            Type::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Array(of) => write!(f, "array({of})"),
            Type::Struct(schema) => write!(f, "{schema}"),
        }
    }
}

/// A named value of a row or a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Unique in its schema.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// The fields of a row or a struct, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// Of these fields.
    #[must_use]
    pub fn new(fields: Vec<Field>) -> Schema {
        Schema { fields }
    }

    /// The fields in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Index and field of a name. Names are compared as they are written.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, f)| f.name == name)
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        for (i, field) in self.fields.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", field.name, field.ty)?;
        }
        f.write_str(" }")
    }
}
