//! Rows and values. What a value means (the scale of a decimal, the names of a struct's fields) is in its [`super::Type`], not in the value:
//! expressions are checked against the schema once, and then run over bare values.
use std::sync::Arc;

/// A value. Cheap to clone: texts, bytes, arrays and structs are shared.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value, of any type.
    Null,
    /// Of type bool.
    Bool(bool),
    /// Of type int64.
    Int(i64),
    /// Of type float64.
    Float(f64),
    /// Of a decimal type: unscaled, so 12.50 in decimal(18,2) is 1250.
    Decimal(i64),
    /// Of type string.
    String(Arc<str>),
    /// Of type bytes.
    Bytes(Arc<[u8]>),
    /// Of type timestamp: milliseconds since the Unix epoch, UTC.
    Timestamp(i64),
    /// Of an array type.
    Array(Arc<[Value]>),
    /// Of a struct type: the fields in the schema's order.
    Struct(Arc<[Value]>),
}

impl Value {
    /// Whether it is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Heap and own bytes, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        let heap = match self {
            Value::String(text) => text.len() + 16,
            Value::Bytes(bytes) => bytes.len() + 16,
            Value::Array(values) | Value::Struct(values) => values.iter().map(Value::weight).sum::<usize>() + 16,
            _ => 0,
        };
        heap + std::mem::size_of::<Value>()
    }
}

/// A record as a pipeline sees it: a value per field of its schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row(pub Vec<Value>);

impl Row {
    /// The value of a field by its index in the schema; NULL beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> &Value {
        self.0.get(index).unwrap_or(&Value::Null)
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.iter().map(Value::weight).sum::<usize>() + std::mem::size_of::<Row>()
    }
}
