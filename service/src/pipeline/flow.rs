//! What is known of the rows that come out of a source, step or branch.
use super::graph::{Port, Reader};
use crate::value::{Field, Schema, Type};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a record's own, beside those of its value. They are part of a row while it comes straight from its source, and are never
/// written by a sink.
pub const PSEUDO_COLUMNS: [&str; 5] = ["_key", "_timestamp", "_topic", "_partition", "_offset"];
/// The record's key as its format reads it.
pub const KEY_COLUMN: &str = PSEUDO_COLUMNS[0];

/// The rows of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Columns that sinks write, then pseudo-columns.
    pub schema: Schema,
    /// Number of the former.
    pub shown: usize,
    /// What key the rows have.
    pub keyed: Keyed,
    /// Columns that are there, but of an unknown type, because of an error that is told already.
    pub poisoned: Vec<String>,
    /// Pseudo-columns that the rows do not have any more, and why.
    pub lost: BTreeMap<String, String>,
    /// Columns are missing because of an error that is told already, and nobody knows which.
    pub incomplete: bool,
}

/// The key that rows have: what an output's key bytes are.
#[derive(Debug, Clone, PartialEq)]
pub enum Keyed {
    /// That of their record.
    Record,
    /// That of a `key_by`.
    By {
        /// The key's columns; None once the row has lost one.
        columns: Option<Vec<usize>>,
        /// Id of the step.
        step: String,
    },
    /// Merged of rows with keys of several kinds.
    Mixed,
}

impl Flow {
    /// Splits columns into shown ones and pseudo-columns, in the order in which they come.
    pub fn new(columns: impl IntoIterator<Item = Field>, keyed: Keyed, poisoned: Vec<String>) -> Flow {
        let (pseudo, mut all): (Vec<Field>, Vec<Field>) = columns.into_iter().partition(|f| is_pseudo(&f.name));
        let shown = all.len();
        all.extend(pseudo);
        Flow {
            schema: Schema::new(all),
            shown,
            keyed,
            poisoned,
            lost: BTreeMap::new(),
            incomplete: false,
        }
    }

    /// Why there is no such pseudo-column.
    pub fn why_lost(&self, name: &str) -> String {
        self.lost
            .get(name)
            .cloned()
            .unwrap_or_else(|| "pseudo-columns are there behind a source".to_owned())
    }

    /// Takes over what is known of the rows before, beside their columns.
    pub fn follow(&mut self, before: &Flow) {
        self.lost = before.lost.clone();
        self.incomplete = before.incomplete;
    }

    /// A step drops the pseudo-columns that it does not name; `way` says how it would name one.
    pub fn lose_all(&mut self, step: &str, way: impl Fn(&str) -> String) {
        for name in PSEUDO_COLUMNS {
            let why = format!("step {step} drops it: {}", way(name));
            self.lost.entry(name.to_owned()).or_insert(why);
        }
    }

    /// Index of a column.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.schema.find(name).map(|(i, _)| i)
    }

    /// The field of an index that the flow has given out.
    pub fn field(&self, index: usize) -> &Field {
        &self.schema.fields()[index]
    }

    /// The columns that sinks write.
    pub fn shown(&self) -> &[Field] {
        &self.schema.fields()[..self.shown]
    }

    /// Columns of a key that are still in the row.
    pub fn key_columns(&self) -> Option<Vec<usize>> {
        match &self.keyed {
            Keyed::Record => self.find(KEY_COLUMN).map(|i| vec![i]),
            Keyed::By { columns, .. } => columns.clone(),
            Keyed::Mixed => None,
        }
    }

    /// The key after columns have moved: `to` says where a column is now.
    pub fn keyed_after(&self, to: impl Fn(usize) -> Option<usize>) -> Keyed {
        match &self.keyed {
            Keyed::By { columns, step } => Keyed::By {
                columns: columns.as_ref().and_then(|all| all.iter().map(|i| to(*i)).collect()),
                step: step.clone(),
            },
            other => other.clone(),
        }
    }

    /// Whether an expression names a column of unknown type: what is wrong with it may follow from that.
    pub fn is_poisoned(&self, text: &str) -> bool {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let mut words = text.split(|c| !word(c));
        words.any(|w| self.poisoned.iter().any(|p| p == w))
            || self.poisoned.iter().any(|p| text.contains(&format!("\"{p}\"")))
    }
}

/// Whether it is the name of a pseudo-column.
pub fn is_pseudo(name: &str) -> bool {
    PSEUDO_COLUMNS.contains(&name)
}

/// A pseudo-column's field; `key` is the type of the record key.
pub fn pseudo_field(name: &str, key: &Type) -> Field {
    let ty = match name {
        "_key" => key.clone(),
        "_timestamp" => Type::Timestamp,
        "_topic" => Type::String,
        _ => Type::Int,
    };
    Field {
        name: name.to_owned(),
        ty,
    }
}

/// The columns of each port that somebody needs. Others are not decoded and not carried along.
#[derive(Debug, Default)]
pub struct Live {
    by_port: BTreeMap<Port, BTreeSet<String>>,
    by_reader: BTreeMap<Reader, BTreeSet<String>>,
    everything: bool,
}

impl Live {
    /// Before it is known.
    pub fn everything() -> Live {
        Live {
            everything: true,
            ..Live::default()
        }
    }

    /// Whether it is not known.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// Whether a column is needed of any of these ports.
    pub fn any(&self, ports: &[Port], name: &str) -> bool {
        self.everything
            || ports
                .iter()
                .any(|port| self.by_port.get(port).is_some_and(|names| names.contains(name)))
    }

    /// Whether a reader needs a column of what it reads.
    pub fn reader_has(&self, reader: Reader, name: &str) -> bool {
        self.everything || self.by_reader.get(&reader).is_some_and(|names| names.contains(name))
    }

    /// A reader needs these columns of these ports.
    pub fn need(&mut self, reader: Reader, ports: &[Port], names: BTreeSet<String>) {
        for port in ports {
            self.by_port.entry(*port).or_default().extend(names.iter().cloned());
        }
        self.by_reader.insert(reader, names);
    }
}
