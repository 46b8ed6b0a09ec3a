//! Sources: how their records become rows.
use super::{Planner, Policy};
use crate::format::{Decoder, Format, FormatError, Limits};
use crate::pipeline::flow::{Flow, Keyed, PSEUDO_COLUMNS, pseudo_field};
use crate::pipeline::formats::{self, Described};
use crate::pipeline::graph::Port;
use crate::pipeline::spec::SourceSpec;
use crate::registry::SourceConnector;
use crate::value::{Field, Type};
use crate::yaml::Node;
use std::sync::Arc;

/// A source that can run.
pub struct SourcePlan {
    /// Its id.
    pub id: String,
    /// Makes the engine's source.
    pub connector: SourceConnector,
    /// Reads the columns of the value.
    pub value: Arc<Decoder>,
    /// The pseudo-columns that are needed, in order.
    pub pseudo: Arc<[Pseudo]>,
    /// Records without a value are dropped.
    pub skip_tombstones: bool,
    /// What happens to records that it or a step refuses.
    pub on_error: Policy,
    /// Its rows.
    pub flow: Flow,
    /// The value's format.
    pub format: Format,
    /// Names of the value's columns that nobody reads: they are not decoded.
    pub unread: Vec<String>,
}

/// A pseudo-column, and where it comes from.
pub enum Pseudo {
    /// The record's key, through its format.
    Key(Decoder),
    /// The record's timestamp.
    Timestamp,
    /// The topic.
    Topic,
    /// The partition.
    Partition,
    /// The offset.
    Offset,
}

impl<'y> Planner<'_, 'y> {
    pub(super) fn source(&mut self, i: usize, spec: &SourceSpec<'y>) -> Option<SourcePlan> {
        let subject = format!("source {}", spec.id.text);
        self.report.about(subject.as_str());
        let connector = spec.connector.as_ref().and_then(|c| self.source_connector(&subject, c));
        let on_error = self.policy(&subject, spec.on_error.as_ref());
        let value = spec
            .value
            .and_then(|node| formats::of_value(node, self.folder, self.report));
        let key = match spec.key {
            Some(node) => formats::of_key(node, self.folder, self.report),
            None => Some((Format::Bytes, Type::Bytes)),
        };
        let port = Port::Source(i);
        let (Some(value), Some(key)) = (value, key) else {
            self.flows.insert(port, None);
            return None;
        };
        let flow = self.source_flow(port, &value, &key.1);
        self.flows.insert(port, Some(flow.clone()));
        let unread = value
            .schema
            .fields()
            .iter()
            .filter(|f| !self.live.any(&[port], &f.name));
        let unread: Vec<String> = unread.map(|f| f.name.clone()).collect();
        let decoder = self.value_decoder(spec, &value, &unread, &flow);
        let pseudo = flow.schema.fields()[flow.shown..]
            .iter()
            .map(|f| self.pseudo(spec, &f.name, &key));
        let pseudo: Vec<Option<Pseudo>> = pseudo.collect();
        Some(SourcePlan {
            id: spec.id.text.clone(),
            connector: connector?,
            value: Arc::new(decoder?),
            pseudo: pseudo.into_iter().collect::<Option<Vec<Pseudo>>>()?.into(),
            skip_tombstones: spec.skip_tombstones,
            on_error: on_error?.unwrap_or(Policy::Fail),
            flow,
            format: value.format,
            unread,
        })
    }

    /// JSON has the columns that are needed and no others. Other formats have all of their own, NULL where they are not needed.
    fn source_flow(&self, port: Port, value: &Described, key: &Type) -> Flow {
        let pseudo = PSEUDO_COLUMNS.iter().map(|name| pseudo_field(name, key));
        let live = |field: &Field| self.live.any(&[port], &field.name);
        let whole = !matches!(value.format, Format::Json);
        let own = value.schema.fields().iter().filter(|f| whole || live(f)).cloned();
        Flow::new(own.chain(pseudo.filter(live)), Keyed::Record, value.poisoned.clone())
    }

    fn value_decoder(
        &mut self,
        spec: &SourceSpec<'y>,
        value: &Described,
        unread: &[String],
        flow: &Flow,
    ) -> Option<Decoder> {
        let schema = crate::value::Schema::new(flow.shown().to_vec());
        let wanted = schema
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| !unread.contains(&f.name))
            .map(|(i, _)| i);
        let wanted: Vec<usize> = wanted.collect();
        let decoder = Decoder::columns(&value.format, &schema, wanted, Limits::default());
        self.checked(spec.value.unwrap_or(spec.id), decoder)
    }

    fn pseudo(&mut self, spec: &SourceSpec<'y>, name: &str, (format, ty): &(Format, Type)) -> Option<Pseudo> {
        Some(match name {
            "_key" => {
                let decoder = Decoder::datum(format, ty, Limits::default());
                Pseudo::Key(self.checked(spec.key.unwrap_or(spec.id), decoder)?)
            }
            "_timestamp" => Pseudo::Timestamp,
            "_topic" => Pseudo::Topic,
            "_partition" => Pseudo::Partition,
            _ => Pseudo::Offset,
        })
    }

    /// Reports what a format says.
    pub(super) fn checked<T>(&mut self, at: &Node, result: Result<T, FormatError>) -> Option<T> {
        let error = match result {
            Ok(made) => return Some(made),
            Err(error) => error,
        };
        let help = error
            .help
            .unwrap_or_else(|| "bring the columns in line with the format, with a `map` step before a sink".to_owned());
        self.report.at(at, error.message, help);
        None
    }
}
