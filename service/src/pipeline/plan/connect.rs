//! Connectors and policies, and what holds over all sources and sinks.
use super::{Planner, Policy, SinkPlan, SourcePlan, StepPlan};
use crate::nearest;
use crate::pipeline::report::Report;
use crate::pipeline::spec::{ConnectorKey, ConnectorSpec, OnError, SourceSpec, Spec};
use crate::registry::{Connector, Environment, Key, Keys, SinkConnector, SourceConnector};
use crate::run::Commits;
use crate::yaml::Node;
use std::collections::BTreeMap;

impl<'y> Planner<'_, 'y> {
    pub(super) fn source_connector(&mut self, subject: &str, spec: &ConnectorSpec<'y>) -> Option<SourceConnector> {
        let common = ["connector", "key", "value", "tombstones", "on_error"];
        self.connector(subject, spec, &common, |connector, keys| connector.source(keys))
    }

    pub(super) fn sink_connector(&mut self, subject: &str, spec: &ConnectorSpec<'y>) -> Option<SinkConnector> {
        let common = ["connector", "from", "key", "value", "allow_loop"];
        self.connector(subject, spec, &common, |connector, keys| connector.sink(keys))
    }

    fn connector<C>(
        &mut self,
        subject: &str,
        spec: &ConnectorSpec<'y>,
        common: &[&str],
        read: impl FnOnce(&dyn Connector, &mut Keys<'_>) -> Option<C>,
    ) -> Option<C> {
        let environment: &Environment = self.environment;
        let Some(connector) = environment.connector(spec.name) else {
            let help = nearest::help(spec.name, environment.names());
            self.report
                .at(spec.at, format!("there is no connector `{}`", spec.name), help);
            return None;
        };
        let key = |key: &ConnectorKey<'y>| Key {
            name: key.name,
            at: key.at,
            value: key.value,
        };
        let file = self.report.source();
        let mut keys = Keys::new(file, self.folder, subject, spec.at, spec.keys.iter().map(key).collect());
        let made = read(connector, &mut keys);
        let errors = keys.finish(common);
        let good = errors.is_empty();
        self.report.add(errors);
        made.filter(|_| good)
    }

    /// A policy, if one is given; None when it is wrong.
    pub(super) fn policy(&mut self, subject: &str, on_error: Option<&OnError<'y>>) -> Option<Option<Policy>> {
        Some(match on_error {
            None => None,
            Some(OnError::Fail) => Some(Policy::Fail),
            Some(OnError::Skip) => Some(Policy::Skip),
            Some(OnError::DeadLetter(spec)) => Some(Policy::DeadLetter(self.sink_connector(subject, spec)?)),
        })
    }

    /// What holds over all sources and sinks, as far as they could be planned.
    pub(super) fn places(
        &mut self,
        sources: &[Option<SourcePlan>],
        steps: &[Option<StepPlan>],
        sinks: &[Option<SinkPlan>],
    ) {
        self.report.about("");
        let spec = self.spec;
        let read: Vec<_> = sources.iter().flatten().zip(&spec.sources).collect();
        let all_read = sources.iter().all(Option::is_some);
        if all_read {
            topics(&read, self.report);
        }
        let reads_kafka = !all_read
            || read
                .iter()
                .any(|(source, _)| source.connector.commits == Commits::Kafka);
        let all = outgoing(spec, sources, steps, sinks);
        for out in &all {
            out.check(sources, reads_kafka, self.report);
        }
        directories(&all, self.report);
    }
}

/// Each topic is read once, and all of them are committed in one place.
fn topics(sources: &[(&SourcePlan, &SourceSpec<'_>)], report: &mut Report<'_>) {
    let mut by_topic: BTreeMap<&str, &str> = BTreeMap::new();
    let kafka = sources
        .iter()
        .find(|(source, _)| source.connector.commits == Commits::Kafka);
    for (source, spec) in sources {
        let (id, describe) = (&source.id, &source.connector.describe);
        if let Some(other) = by_topic.insert(&source.connector.topic, id) {
            let topic = &source.connector.topic;
            let message = format!("source {id}: {topic} is read by source {other} too");
            let help = "read it once, and name the source in the `from` of several steps; another directory of the same name needs a `topic`";
            report.at(spec.id, message, help);
        }
        let Some((kafka, _)) = kafka.filter(|_| source.connector.commits != Commits::Kafka) else {
            continue;
        };
        let message = format!(
            "source {id}: {describe} cannot be read beside {}",
            kafka.connector.describe
        );
        let help = "their positions are committed in different places: make two jobs of it, or bring the data to a topic first";
        report.at(spec.id, message, help);
    }
}

/// A sink, or a place for dead letters.
struct Outgoing<'a, 'y> {
    subject: String,
    at: &'y Node,
    connector: &'a SinkConnector,
    allow_loop: bool,
    /// Of dead letters.
    letters: bool,
}

impl<'a, 'y> Outgoing<'a, 'y> {
    fn letters(
        subject: String,
        policy: Option<&'a Policy>,
        on_error: Option<&OnError<'y>>,
    ) -> Option<Outgoing<'a, 'y>> {
        let (Some(Policy::DeadLetter(connector)), Some(OnError::DeadLetter(spec))) = (policy, on_error) else {
            return None;
        };
        Some(Outgoing {
            subject,
            at: spec.at,
            connector,
            allow_loop: false,
            letters: true,
        })
    }

    fn check(&self, sources: &[Option<SourcePlan>], reads_kafka: bool, report: &mut Report<'_>) {
        let (subject, describe) = (&self.subject, &self.connector.describe);
        let source = sources.iter().flatten().find(|s| s.connector.describe == *describe);
        if let Some(source) = source.filter(|_| !self.allow_loop) {
            let message = format!(
                "{subject}: {describe} is what source {} reads: the job would read what it writes",
                source.id
            );
            let help = "write to another topic; a sink that is meant to do this says `allow_loop: true`";
            report.at(self.at, message, help);
        }
        if self.connector.commits == Commits::Kafka && !reads_kafka {
            let message = format!("{subject}: a job that reads no topic cannot write to {describe} in this version");
            report.at(
                self.at,
                message,
                "write to `connector: files`, or read the input from a topic",
            );
        }
    }
}

fn outgoing<'a, 'y>(
    spec: &Spec<'y>,
    sources: &'a [Option<SourcePlan>],
    steps: &'a [Option<StepPlan>],
    sinks: &'a [Option<SinkPlan>],
) -> Vec<Outgoing<'a, 'y>> {
    let mut all = Vec::new();
    for (source, spec) in sources.iter().zip(&spec.sources) {
        let policy = source.as_ref().map(|source| &source.on_error);
        all.extend(Outgoing::letters(
            format!("source {}", spec.id.text),
            policy,
            spec.on_error.as_ref(),
        ));
    }
    for (step, spec) in steps.iter().zip(&spec.steps) {
        let policy = step.as_ref().and_then(|step| step.on_error.as_ref());
        all.extend(Outgoing::letters(
            format!("step {}", spec.id.text),
            policy,
            spec.on_error.as_ref(),
        ));
    }
    for (sink, spec) in sinks.iter().zip(&spec.sinks) {
        all.extend(sink.as_ref().map(|sink| Outgoing {
            subject: format!("sink {}", spec.id.text),
            at: spec.id,
            connector: &sink.connector,
            allow_loop: spec.allow_loop,
            letters: false,
        }));
    }
    all
}

/// A directory keeps the sequences of one sink, or of the dead letters of whoever names it.
fn directories(all: &[Outgoing<'_, '_>], report: &mut Report<'_>) {
    let mut seen: BTreeMap<&str, &Outgoing<'_, '_>> = BTreeMap::new();
    for out in all.iter().filter(|out| out.connector.commits == Commits::Store) {
        let (subject, describe) = (&out.subject, &out.connector.describe);
        let Some(other) = seen.get(describe.as_str()) else {
            seen.insert(describe, out);
            continue;
        };
        let taken = match (other.letters, out.letters) {
            (true, true) => continue,
            (true, false) => format!("takes the dead letters of {} already", other.subject),
            (false, _) => format!("belongs to {} already", other.subject),
        };
        let help = "give each sink, and dead letters, a directory of their own";
        report.at(out.at, format!("{subject}: {describe} {taken}"), help);
    }
}
