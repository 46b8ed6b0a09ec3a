//! Sinks: how rows become records.
use super::{Input, Planner};
use crate::format::{Encoder, Format};
use crate::pipeline::flow::{Flow, Keyed};
use crate::pipeline::formats;
use crate::pipeline::graph::Reader;
use crate::pipeline::spec::SinkSpec;
use crate::registry::SinkConnector;
use crate::yaml::Node;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A sink that can run.
pub struct SinkPlan {
    /// Its id.
    pub id: String,
    /// What it reads.
    pub input: Input,
    /// Makes the engine's target.
    pub connector: SinkConnector,
    /// Writes the key of a row; None leaves the key bytes as they are.
    pub key: Option<Arc<Encoder>>,
    /// Writes the value of a row.
    pub value: Arc<Encoder>,
    /// The value's format.
    pub format: Format,
    /// Columns that it reads.
    pub(super) uses: BTreeSet<String>,
}

/// Columns that a sink writes.
struct Part {
    encoder: Arc<Encoder>,
    format: Format,
    columns: Vec<usize>,
}

impl<'y> Planner<'_, 'y> {
    pub(super) fn sink(&mut self, i: usize, spec: &SinkSpec<'y>) -> Option<SinkPlan> {
        let subject = format!("sink {}", spec.id.text);
        self.report.about(subject.as_str());
        let connector = spec.connector.as_ref().and_then(|c| self.sink_connector(&subject, c));
        let value = spec
            .value
            .and_then(|node| Some((node, formats::of_sink(node, self.folder, self.report)?)));
        let key = spec
            .key
            .map(|node| Some((node, formats::of_sink(node, self.folder, self.report)?)));
        let graph = self.graph;
        let (input, flow) = self.input(&graph.sinks[i], Reader::Sink(i), spec.id)?;
        let value = value.and_then(|(node, format)| self.value_part(node, format, &flow));
        let key = key.map(|read| read.and_then(|(node, format)| self.key_columns(node, format, &flow)));
        let (value, key) = (value?, key.map_or(Some(None), |part| part.map(Some))?);
        let columns = value.columns.iter().chain(key.iter().flat_map(|part| &part.columns));
        let uses = columns.map(|i| flow.field(*i).name.clone()).collect();
        Some(SinkPlan {
            id: spec.id.text.clone(),
            input,
            connector: connector?,
            key: key.map(|part| part.encoder),
            value: value.encoder,
            format: value.format,
            uses,
        })
    }

    fn value_part(&mut self, node: &Node, format: Format, flow: &Flow) -> Option<Part> {
        if flow.incomplete || !flow.poisoned.is_empty() {
            return None;
        }
        let columns = if is_single(&format) {
            vec![self.one_column(node, flow)?]
        } else {
            (0..flow.shown).collect()
        };
        self.part(node, format, columns, flow)
    }

    /// The column that a format without names writes.
    fn one_column(&mut self, node: &Node, flow: &Flow) -> Option<usize> {
        let key = flow.key_columns().unwrap_or_default();
        let rest: Vec<usize> = (0..flow.shown).filter(|i| !key.contains(i)).collect();
        match (rest.as_slice(), flow.shown) {
            ([one], _) => Some(*one),
            ([], 1) => Some(0),
            _ => {
                let names: Vec<&str> = flow.shown().iter().map(|f| f.name.as_str()).collect();
                let message = format!(
                    "`{}` writes one column beside the key, and the rows have {}",
                    node.text,
                    names.join(", ")
                );
                self.report
                    .at(node, message, "leave one with a `map` step, or write `value: json`");
                None
            }
        }
    }

    fn key_columns(&mut self, node: &Node, format: Format, flow: &Flow) -> Option<Part> {
        if flow.incomplete {
            return None;
        }
        let Some(columns) = flow.key_columns() else {
            let message = match &flow.keyed {
                Keyed::By { step, .. } => format!("the rows have lost a column of the key that step {step} gave them"),
                _ => "the rows have no column with their key".to_owned(),
            };
            self.report
                .at(node, message, "remove `key`: the key's bytes are written as they are");
            return None;
        };
        if is_single(&format) && columns.len() != 1 {
            let message = format!("`{}` writes one column, and the key has {}", node.text, columns.len());
            self.report.at(node, message, "write `key: json`, or remove `key`");
            return None;
        }
        self.part(node, format, columns, flow)
    }

    fn part(&mut self, node: &Node, format: Format, columns: Vec<usize>, flow: &Flow) -> Option<Part> {
        let encoder = Encoder::columns(&format, &flow.schema, columns.iter().copied());
        let encoder = Arc::new(self.checked(node, encoder)?);
        Some(Part {
            encoder,
            format,
            columns,
        })
    }
}

/// Formats of one value without a name.
fn is_single(format: &Format) -> bool {
    matches!(format, Format::String | Format::Long | Format::Double | Format::Bytes)
}
