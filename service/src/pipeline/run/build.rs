//! Builds the engine's topology of a plan.
//!
//! A step is one operator of the engine with the step's id, and where it needs others, these have its id with what they do behind `--`:
//! `totals--key` sends rows to the lanes of their keys, `totals--epoch` keeps the last of each key. A change of these ids loses state.
use super::aggregate::{Folding, TotalsCodec};
use super::decode::{RowDecoder, is_tombstone};
use super::dedup::Dedup;
use super::key_bytes;
use super::refused;
use super::rows::{chosen, elements, mapped, selected, widened};
use super::stream::Rows;
use crate::expr::Expr;
use crate::pipeline::graph::Port;
use crate::pipeline::plan::{
    AggregatePlan, Exchange, Input, KeyPlan, Plan, Policy, SinkPlan, SourcePlan, StepPlan, Verb,
};
use crate::pipeline::spec::{Emit, SEPARATOR};
use crate::run::Waiting;
use crate::value::Row;
use keyfold::operator::BadReason;
use keyfold::topology::{BadRecords, DeadLetters, Job, KeyedStream, SourceOptions, Target, Topology};
use std::collections::BTreeMap;

/// The one stage of a pipeline. Named after its first source, a job would begin again when another source stands first.
const STAGE: &str = "pipeline";

/// Why a plan cannot be run here and now: a topic that is not there, a broker that lets nobody in.
pub type BuildError = String;

/// The topology of a plan. Targets may be asked about, until a stop is asked for.
pub fn topology(plan: &Plan, waiting: &Waiting) -> Result<Topology, BuildError> {
    let mut builder = Builder {
        job: Job::new(&plan.job),
        waiting,
        ports: BTreeMap::new(),
        letters: BTreeMap::new(),
    };
    builder.job.stage(STAGE);
    for (i, source) in plan.sources.iter().enumerate() {
        builder.source(i, source)?;
    }
    for (i, step) in plan.steps.iter().enumerate() {
        builder.step(i, step)?;
    }
    for sink in &plan.sinks {
        builder.sink(sink)?;
    }
    builder.job.build().map_err(|e| e.to_string())
}

struct Builder<'s> {
    job: Job,
    waiting: &'s Waiting,
    ports: BTreeMap<Port, Rows>,
    /// Sinks of dead letters by what they are, so that those who name the same share it.
    letters: BTreeMap<String, DeadLetters>,
}

fn part(id: &str, what: &str) -> String {
    format!("{id}{SEPARATOR}{what}")
}

impl Builder<'_> {
    fn source(&mut self, i: usize, plan: &SourcePlan) -> Result<(), BuildError> {
        let policy = self.policy(&plan.id, &plan.on_error)?;
        let decoder = RowDecoder::new(plan);
        let options = SourceOptions::bad_records(policy);
        let source = (plan.connector.make)();
        let rows = self
            .job
            .source_with(&plan.id, source, options, move |record| decoder.row(record));
        let mut rows = Rows::Free(rows);
        if plan.skip_tombstones {
            let id = part(&plan.id, "tombstones");
            rows = rows.filter(&id, |row| match is_tombstone(row) {
                true => Err(refused(BadReason::Tombstone, "a record without a value")),
                false => Ok(true),
            });
            self.job.on_bad_records(&id, BadRecords::Skip);
        }
        self.ports.insert(Port::Source(i), rows);
        Ok(())
    }

    fn step(&mut self, i: usize, plan: &StepPlan) -> Result<(), BuildError> {
        let id = plan.id.as_str();
        let mut operators = vec![id.to_owned()];
        let mut rows = self.input(id, &plan.input);
        if let Some(exchange) = &plan.exchange {
            rows = self.exchange(plan, exchange, &rows, &mut operators);
        }
        match &plan.verb {
            Verb::Branch(arms) => {
                let conditions: Vec<Option<Expr>> = arms.iter().map(|(_, condition)| condition.clone()).collect();
                let branches = rows.split(id, arms.len(), move |row| chosen(&conditions, row));
                let ports = (0..arms.len()).map(|arm| Port::Branch(i, arm));
                self.ports.extend(ports.zip(branches));
            }
            verb => {
                let rows = single(id, verb, rows);
                self.ports.insert(Port::Step(i), rows);
            }
        }
        let Some(policy) = &plan.on_error else { return Ok(()) };
        let policy = self.policy(id, policy)?;
        let is_operator =
            |operator: &String| operator != id || !matches!((&plan.verb, &plan.exchange), (Verb::KeyBy, None));
        for operator in operators.iter().filter(|o| is_operator(o)) {
            self.job.on_bad_records(operator, policy.clone());
        }
        Ok(())
    }

    /// What a step reads, as one stream.
    fn input(&self, id: &str, input: &Input) -> Rows {
        let mut parts: Vec<Rows> = Vec::new();
        for (n, (port, select)) in input.ports.iter().zip(&input.select).enumerate() {
            let rows = self
                .ports
                .get(port)
                .expect("invariant: a port is built before those who read it");
            parts.push(match select {
                None => rows.clone(),
                Some(columns) => {
                    let columns = columns.clone();
                    rows.map(&part(id, &format!("from-{n}")), move |row| Ok(selected(&row, &columns)))
                }
            });
        }
        let first = parts.remove(0);
        if parts.is_empty() {
            return first;
        }
        let merged = parts.iter().enumerate().fold(first.free(), |merged, (n, next)| {
            merged.merge(&part(id, &format!("merge-{n}")), &next.free())
        });
        Rows::Free(merged)
    }

    /// To the lanes of their keys.
    fn exchange(&self, plan: &StepPlan, exchange: &Exchange, rows: &Rows, operators: &mut Vec<String>) -> Rows {
        let mut rows = rows.free();
        if !exchange.computed.is_empty() {
            let (computed, before) = (exchange.computed.clone(), exchange.before);
            let id = part(&plan.id, "columns");
            rows = rows.try_map(&id, move |row| widened(row, &computed, before));
            operators.push(id);
        }
        let id = match plan.verb {
            Verb::KeyBy => plan.id.clone(),
            _ => {
                let id = part(&plan.id, "key");
                operators.push(id.clone());
                id
            }
        };
        Rows::Keyed(match &exchange.key {
            KeyPlan::Record => rows.key_by_record_key(&id),
            KeyPlan::Columns(columns) => {
                let columns = columns.clone();
                let schema = key_bytes::schema(&columns, &exchange.made_of);
                rows.try_key_by_bytes(&id, &schema, move |row, out| key_bytes::write(row, &columns, out))
            }
        })
    }

    fn sink(&mut self, plan: &SinkPlan) -> Result<(), BuildError> {
        let rows = self.input(&part(&plan.id, "sink"), &plan.input);
        let target = self.target(&plan.id, &plan.connector.make)?;
        let encode = super::encode::RowEncoder::new(plan);
        rows.to(&part(&plan.id, "sink"), target, move |row, output| {
            encode.write(row, output)
        });
        Ok(())
    }

    fn target(&self, id: &str, make: &crate::registry::MakeTarget) -> Result<Target, BuildError> {
        make(self.waiting).map_err(|e| format!("{id}: {e}"))
    }

    fn policy(&mut self, id: &str, policy: &Policy) -> Result<BadRecords, BuildError> {
        let connector = match policy {
            Policy::Fail => return Ok(BadRecords::Fail),
            Policy::Skip => return Ok(BadRecords::Skip),
            Policy::DeadLetter(connector) => connector,
        };
        if let Some(letters) = self.letters.get(&connector.describe) {
            return Ok(BadRecords::DeadLetter(letters.clone()));
        }
        let target = self.target(id, &connector.make)?;
        let letters = self.job.dead_letters(&part(id, "dead-letters"), target);
        self.letters.insert(connector.describe.clone(), letters.clone());
        Ok(BadRecords::DeadLetter(letters))
    }
}

/// A step with one output.
fn single(id: &str, verb: &Verb, rows: Rows) -> Rows {
    match verb {
        Verb::KeyBy | Verb::Branch(_) => rows,
        Verb::Filter(condition) => {
            let condition = condition.clone();
            rows.filter(id, move |row| Ok(condition.is_true(row)?))
        }
        Verb::Map(columns) => {
            let columns = columns.clone();
            rows.map(id, move |row| mapped(row, &columns))
        }
        Verb::FlatMap { array, keep, shown } => {
            let (array, keep, shown) = (array.clone(), keep.clone(), *shown);
            rows.flat_map(id, move |row, out| elements(&row, &array, &keep, shown, out))
        }
        Verb::Aggregate(plan) => aggregate(id, plan, &rows),
        Verb::Dedup(within) => {
            let within = *within;
            Rows::Keyed(keyed(&rows).process(id, move |scope| Dedup::new(within, scope)))
        }
    }
}

/// Folds the rows of each key.
fn aggregate(id: &str, plan: &AggregatePlan, rows: &Rows) -> Rows {
    let folding = Folding::new(plan);
    let codec = TotalsCodec::new(plan);
    let folded = keyed(rows).try_update(id, codec, move |totals, row| folding.add(totals, &row));
    Rows::Keyed(match plan.emit {
        Emit::Record => folded,
        Emit::Epoch => folded.last_per_epoch(&part(id, "epoch"), Row::weight),
    })
}

/// A plan has no aggregate over rows without a key.
fn keyed(rows: &Rows) -> KeyedStream<Row> {
    match rows {
        Rows::Keyed(stream) => stream.clone(),
        Rows::Free(_) => unreachable!("invariant: planned over keyed rows"),
    }
}
