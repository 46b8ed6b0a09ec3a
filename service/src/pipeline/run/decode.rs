//! From a record to a row.
use crate::format::Decoder;
use crate::pipeline::plan::{Pseudo, SourcePlan};
use crate::value::{Row, Value};
use keyfold::types::RecordRef;
use std::sync::Arc;

/// Reads a source's records.
pub struct RowDecoder {
    value: Arc<Decoder>,
    pseudo: Arc<[Pseudo]>,
    columns: usize,
    topic: Arc<str>,
    skip_tombstones: bool,
}

impl RowDecoder {
    /// As the plan says.
    pub fn new(source: &SourcePlan) -> RowDecoder {
        RowDecoder {
            value: source.value.clone(),
            pseudo: source.pseudo.clone(),
            columns: source.flow.schema.len(),
            topic: source.connector.topic.as_str().into(),
            skip_tombstones: source.skip_tombstones,
        }
    }

    /// The row of a record; [`is_tombstone`] tells those that are to be dropped.
    pub fn row(&self, record: &RecordRef<'_>) -> Result<Row, String> {
        if record.value.is_none() && self.skip_tombstones {
            return Ok(Row::default());
        }
        // A row is never empty, so that it is told from a tombstone.
        let mut values = Vec::with_capacity(self.columns.max(1));
        self.value
            .decode(record.value, &mut values)
            .map_err(|e| e.to_string())?;
        for pseudo in self.pseudo.iter() {
            let value = match pseudo {
                Pseudo::Key(decoder) => {
                    if record.key.is_some() {
                        decoder
                            .decode(record.key, &mut values)
                            .map_err(|e| format!("key: {e}"))?;
                        continue;
                    }
                    Value::Null
                }
                // Below 0 is none, as in Kafka.
                Pseudo::Timestamp if record.timestamp < 0 => Value::Null,
                Pseudo::Timestamp => Value::Timestamp(record.timestamp),
                Pseudo::Topic => Value::String(self.topic.clone()),
                Pseudo::Partition => Value::Int(i64::from(record.partition)),
                Pseudo::Offset => Value::Int(record.offset),
            };
            values.push(value);
        }
        if values.is_empty() {
            values.push(Value::Null);
        }
        Ok(Row(values))
    }
}

/// Whether the row stands for a record without a value that is to be dropped.
pub fn is_tombstone(row: &Row) -> bool {
    row.0.is_empty()
}
