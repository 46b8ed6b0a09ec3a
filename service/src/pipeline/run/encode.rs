//! From a row to an output.
use crate::format::Encoder;
use crate::pipeline::plan::SinkPlan;
use crate::value::Row;
use keyfold::operator::terminal::Output;
use std::sync::Arc;

/// Writes a sink's outputs. The key's bytes stay as they are unless the sink has a format for them.
pub struct RowEncoder {
    key: Option<Arc<Encoder>>,
    value: Arc<Encoder>,
}

impl RowEncoder {
    /// As the plan says.
    pub fn new(plan: &SinkPlan) -> RowEncoder {
        RowEncoder {
            key: plan.key.clone(),
            value: plan.value.clone(),
        }
    }

    /// Fills an output.
    pub fn write(&self, row: &Row, output: &mut Output) -> Result<(), String> {
        if let Some(encoder) = &self.key {
            let key = output.key.get_or_insert_default();
            key.clear();
            encoder.encode(&row.0, key).map_err(|e| format!("key: {e}"))?;
        }
        let value = output.value.get_or_insert_default();
        self.value.encode(&row.0, value).map_err(|e| e.to_string())
    }
}
