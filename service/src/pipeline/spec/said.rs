//! A step in one line, as the file says it.
use super::{Emit, KeySpec, StepSpec, VerbSpec};

impl StepSpec<'_> {
    /// What it does.
    pub fn said(&self) -> String {
        let verb = self.verb.as_ref().map(verb).unwrap_or_default();
        match &self.key_by {
            Some(key) if verb.is_empty() => key_by(key),
            Some(key) => format!("{}, {verb}", key_by(key)),
            None => verb,
        }
    }
}

fn key_by(key: &KeySpec<'_>) -> String {
    let part = |part: &super::KeyPart<'_>| {
        let text = part.expression.text.trim();
        if part.name == text {
            text.to_owned()
        } else {
            format!("{} = {text}", part.name)
        }
    };
    let parts: Vec<String> = key.parts.iter().map(part).collect();
    format!("key_by {}", parts.join(", "))
}

fn verb(verb: &VerbSpec<'_>) -> String {
    let entries = |all: &[(&crate::yaml::Node, &crate::yaml::Node)]| {
        let each = |(name, value): &(&crate::yaml::Node, &crate::yaml::Node)| format!("{} = {}", name.text, value.text);
        all.iter().map(each).collect::<Vec<_>>().join(", ")
    };
    match verb {
        VerbSpec::Filter(node) => format!("filter {}", node.text),
        VerbSpec::Map(map) => {
            let keep = if map.keep.is_none() {
                ""
            } else if map.columns.is_empty() {
                "*"
            } else {
                "*, "
            };
            format!("map {keep}{}", entries(&map.columns))
        }
        VerbSpec::FlatMap { array, name } => format!("flat_map {} = each of {}", name.text, array.text),
        VerbSpec::KeyBy => String::new(),
        VerbSpec::Aggregate { calls, emit, .. } => {
            let emit = if *emit == Emit::Epoch { ", emit epoch" } else { "" };
            format!("aggregate {}{emit}", entries(calls))
        }
        VerbSpec::Dedup { within, .. } => format!("dedup within {within:?}"),
        VerbSpec::Branch(arms) => {
            let arm =
                |arm: &super::ArmSpec<'_>| format!("{}: {}", arm.name.text, arm.condition.map_or("else", |c| &c.text));
            format!("branch {}", arms.iter().map(arm).collect::<Vec<_>>().join(", "))
        }
    }
}
