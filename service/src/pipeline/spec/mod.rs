//! The pipeline file as it stands, every part with its place: what is known of it before any schema is looked at.
mod duration;
mod fields;
mod ids;
mod policy;
mod said;
mod sinks;
mod sources;
mod steps;

pub(super) use fields::{Fields, text};
pub(super) use ids::{SEPARATOR, column_name, plain_column};

use super::report::Report;
use crate::yaml::Node;
use std::time::Duration;

/// The whole file. Parts that cannot be read are left out and reported.
pub(super) struct Spec<'y> {
    pub job: &'y str,
    pub sources: Vec<SourceSpec<'y>>,
    pub steps: Vec<StepSpec<'y>>,
    pub sinks: Vec<SinkSpec<'y>>,
}

/// A connector's name and the keys that are its own.
pub(super) struct ConnectorSpec<'y> {
    pub name: &'y str,
    /// What names it.
    pub at: &'y Node,
    pub keys: Vec<ConnectorKey<'y>>,
}

pub(super) struct ConnectorKey<'y> {
    pub name: &'y str,
    pub at: &'y Node,
    pub value: &'y Node,
}

pub(super) struct SourceSpec<'y> {
    /// Key of the mapping.
    pub id: &'y Node,
    pub connector: Option<ConnectorSpec<'y>>,
    /// Format of the record key.
    pub key: Option<&'y Node>,
    /// Format of the value.
    pub value: Option<&'y Node>,
    pub skip_tombstones: bool,
    pub on_error: Option<OnError<'y>>,
}

/// What happens to what a source or step refuses.
pub(super) enum OnError<'y> {
    Fail,
    Skip,
    DeadLetter(ConnectorSpec<'y>),
}

pub(super) struct StepSpec<'y> {
    /// The scalar with the id.
    pub id: &'y Node,
    /// The names after `from`; None for the default.
    pub from: Option<Vec<&'y Node>>,
    pub key_by: Option<KeySpec<'y>>,
    /// None for a step that could not be read.
    pub verb: Option<VerbSpec<'y>>,
    pub on_error: Option<OnError<'y>>,
}

/// The parts of a key.
pub(super) struct KeySpec<'y> {
    pub parts: Vec<KeyPart<'y>>,
}

pub(super) struct KeyPart<'y> {
    /// Name of the column that it is behind an aggregate.
    pub name: String,
    pub expression: &'y Node,
}

pub(super) enum VerbSpec<'y> {
    Filter(&'y Node),
    Map(MapSpec<'y>),
    FlatMap {
        array: &'y Node,
        name: &'y Node,
    },
    /// A `key_by` alone.
    KeyBy,
    Aggregate {
        at: &'y Node,
        /// Names and calls.
        calls: Vec<(&'y Node, &'y Node)>,
        emit: Emit,
    },
    Dedup {
        at: &'y Node,
        within: Duration,
    },
    Branch(Vec<ArmSpec<'y>>),
}

pub(super) struct MapSpec<'y> {
    /// `"*": keep`: the columns that the map does not name stay.
    pub keep: Option<&'y Node>,
    /// Names and expressions.
    pub columns: Vec<(&'y Node, &'y Node)>,
}

/// When an aggregate emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emit {
    /// For every record.
    Record,
    /// The last row of each key, when an epoch ends.
    Epoch,
}

pub(super) struct ArmSpec<'y> {
    pub name: &'y Node,
    /// None for `else`.
    pub condition: Option<&'y Node>,
}

pub(super) struct SinkSpec<'y> {
    pub id: &'y Node,
    pub connector: Option<ConnectorSpec<'y>>,
    pub from: Option<Vec<&'y Node>>,
    /// Format of the key; None leaves the key bytes as they are.
    pub key: Option<&'y Node>,
    pub value: Option<&'y Node>,
    /// The sink may write to a topic that the pipeline reads.
    pub allow_loop: bool,
}

const SHAPE: &str = "a pipeline has the keys `job`, `sources`, `steps` and `sinks`; docs/guide.md walks through one";
const KEYS: [&str; 4] = ["job", "sources", "steps", "sinks"];

/// Reads the tree of a file.
pub(super) fn read<'y>(tree: &'y Node, report: &mut Report<'y>) -> Option<Spec<'y>> {
    report.about("");
    let mut fields = Fields::of(tree, SHAPE, report)?;
    let job = fields.need("job", "job: my-job", report);
    let sources = fields.need("sources", "sources: { .. }", report);
    let steps = fields.take("steps");
    let sinks = fields.need("sinks", "sinks: { .. }", report);
    fields.finish(&KEYS, report);
    let spec = Spec {
        job: job.and_then(|node| ids::job(node, report)).unwrap_or_default(),
        sources: sources.map(|node| sources::read(node, report)).unwrap_or_default(),
        steps: steps.map(|node| steps::read(node, report)).unwrap_or_default(),
        sinks: sinks.map(|node| sinks::read(node, report)).unwrap_or_default(),
    };
    report.about("");
    ids::unique(&spec, report);
    Some(spec)
}

/// Names after `from`: one, or a list.
fn from<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<Vec<&'y Node>> {
    use crate::yaml::Kind;
    const EXAMPLE: &str = "the id of a source or step: `from: paid`, `from: [orders, refunds]`, `from: route.big`";
    match &node.kind {
        Kind::List(items) if items.is_empty() => {
            report.at(node, "`from` names nothing", EXAMPLE);
            None
        }
        Kind::List(items) => Some(items.iter().filter_map(|item| text(item, EXAMPLE, report)).collect()),
        _ => text(node, EXAMPLE, report).map(|name| vec![name]),
    }
}

/// The connector of a source or sink, and whatever keys are left.
fn connector<'y>(mut fields: Fields<'y>, example: &str, report: &mut Report<'_>) -> Option<ConnectorSpec<'y>> {
    let name = fields.need("connector", example, report);
    let at = name.and_then(|node| text(node, "the name of a connector", report))?;
    let key = |(at, value): (&'y Node, &'y Node)| ConnectorKey {
        name: &at.text,
        at,
        value,
    };
    Some(ConnectorSpec {
        name: &at.text,
        at,
        keys: fields.rest().into_iter().map(key).collect(),
    })
}

/// A setting that is true or false.
fn switch(node: &Node, report: &mut Report<'_>) -> bool {
    match node.kind {
        crate::yaml::Kind::Bool(on) => on,
        _ => {
            report.at(
                node,
                format!("{} where `true` or `false` is expected", node.noun()),
                "write `true` or `false`",
            );
            false
        }
    }
}
