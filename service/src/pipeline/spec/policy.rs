//! `on_error`: what happens to what a source or step refuses.
use super::{ConnectorKey, ConnectorSpec, Fields, OnError, connector};
use crate::nearest;
use crate::pipeline::report::Report;
use crate::yaml::{Kind, Node};

const HELP: &str = "write `on_error: fail`, `on_error: skip` or `on_error: { dead_letter: some-topic }`";

/// Reads a policy.
pub fn read<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<OnError<'y>> {
    match node.scalar() {
        Some("fail") => return Some(OnError::Fail),
        Some("skip") => return Some(OnError::Skip),
        Some(other) => {
            let of_letters = nearest::nearest(other, ["dead_letter", "dead_letters"]).is_some();
            let help = match nearest::nearest(other, ["fail", "skip"]) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if of_letters => "letters go to a topic: write `on_error: { dead_letter: some-topic }`".to_owned(),
                None => HELP.to_owned(),
            };
            report.at(node, format!("unknown policy `{other}`"), help);
            return None;
        }
        None => {}
    }
    let mut fields = Fields::of(node, HELP, report)?;
    let letters = fields.take_entry("dead_letter");
    let given = letters.is_some();
    fields.finish(&["dead_letter"], report);
    if !given {
        report.at(node, "a policy of another kind", HELP);
    }
    let (key, target) = letters?;
    target_of(key, target, report).map(OnError::DeadLetter)
}

/// A topic of Kafka by its name, or a sink with a connector.
fn target_of<'y>(key: &'y Node, target: &'y Node, report: &mut Report<'_>) -> Option<ConnectorSpec<'y>> {
    if let Kind::Map(_) = target.kind {
        let fields = Fields::of(target, HELP, report)?;
        return connector(fields, "connector: files", report);
    }
    let topic = super::text(target, "the name of a topic", report)?;
    Some(ConnectorSpec {
        name: "kafka",
        at: topic,
        keys: vec![ConnectorKey {
            name: "topic",
            at: key,
            value: topic,
        }],
    })
}
