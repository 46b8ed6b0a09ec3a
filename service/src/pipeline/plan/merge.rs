//! What a step or sink reads, as one stream of rows.
use super::{Input, Planner};
use crate::pipeline::flow::{Flow, Keyed, is_pseudo};
use crate::pipeline::graph::{Port, Reader};
use crate::value::Field;
use crate::yaml::Node;
use std::sync::Arc;

impl Planner<'_, '_> {
    /// The rows that a reader reads. None without an error when one is hidden by an error that is told.
    pub fn input(&mut self, ports: &[Port], reader: Reader, at: &Node) -> Option<(Input, Flow)> {
        let flows: Vec<Flow> = ports
            .iter()
            .map(|p| self.flows.get(p).cloned().flatten())
            .collect::<Option<_>>()?;
        let first = flows.first()?;
        if let [only] = flows.as_slice() {
            let input = Input {
                ports: ports.to_vec(),
                select: vec![None],
            };
            return Some((input, only.clone()));
        }
        let agree = (1..flows.len())
            .filter(|i| !self.same((ports[0], first), (ports[*i], &flows[*i]), at))
            .count()
            == 0;
        if !agree {
            return None;
        }
        let merged = self.merged(&flows, ports, reader);
        let select = flows.iter().map(|flow| selection(flow, &merged)).collect();
        let input = Input {
            ports: ports.to_vec(),
            select,
        };
        Some((input, merged))
    }

    /// Whether the columns of two flows agree. Pseudo-columns need not.
    fn same(&mut self, (a, of_a): (Port, &Flow), (b, of_b): (Port, &Flow), at: &Node) -> bool {
        let (a, b) = (self.port_name(a), self.port_name(b));
        // In the second pass each has the columns that somebody reads of it, which need not be the same.
        if !self.live.is_everything() {
            return true;
        }
        let help = format!(
            "rows that are merged have the same columns: bring them in line with a `map` of {a} or {b}, in which `_key: _key` keeps the record's key"
        );
        let mut differ = Vec::new();
        for field in of_a.shown() {
            match of_b.schema.find(&field.name) {
                Some((_, other)) if other.ty == field.ty => {}
                Some((_, other)) => differ.push(format!(
                    "column `{}` is {} in {a} and {} in {b}",
                    field.name, field.ty, other.ty
                )),
                None if of_b.incomplete || of_b.poisoned.contains(&field.name) => {}
                None => differ.push(format!("{a} has a column `{}`, {b} has none", field.name)),
            }
        }
        for field in of_b.shown() {
            let unknown = of_a.incomplete || of_a.poisoned.contains(&field.name);
            if of_a.find(&field.name).is_none() && !unknown {
                differ.push(format!("{b} has a column `{}`, {a} has none", field.name));
            }
        }
        for message in &differ {
            self.report
                .at(at, format!("{a} and {b} cannot be merged: {message}"), help.clone());
        }
        differ.is_empty()
    }

    /// The first one's columns, as far as all have them and somebody reads them.
    fn merged(&self, flows: &[Flow], ports: &[Port], reader: Reader) -> Flow {
        let (first, others) = flows.split_first().expect("invariant: several are merged");
        let everywhere = |field: &&Field| {
            others
                .iter()
                .all(|f| f.schema.find(&field.name).is_some_and(|(_, o)| o.ty == field.ty))
        };
        let read = |field: &&Field| self.live.reader_has(reader, &field.name);
        let columns: Vec<Field> = first
            .schema
            .fields()
            .iter()
            .filter(everywhere)
            .filter(read)
            .cloned()
            .collect();
        let of_records = flows.iter().all(|f| f.keyed == Keyed::Record);
        let keyed = if of_records { Keyed::Record } else { Keyed::Mixed };
        let poisoned = flows.iter().flat_map(|f| f.poisoned.iter().cloned()).collect();
        let mut merged = Flow::new(columns, keyed, poisoned);
        merged.follow(first);
        merged.incomplete = flows.iter().any(|flow| flow.incomplete);
        for field in first.schema.fields().iter().filter(|f| is_pseudo(&f.name)) {
            let other = flows
                .iter()
                .zip(ports)
                .find(|(flow, _)| flow.schema.find(&field.name).is_none_or(|(_, o)| o.ty != field.ty));
            if let Some((flow, port)) = other {
                let name = self.port_name(*port);
                let why = match flow.schema.find(&field.name) {
                    Some((_, o)) => format!(
                        "it is {} in {} and {} in {name}: give the sources the same `key`",
                        field.ty,
                        self.port_name(ports[0]),
                        o.ty
                    ),
                    None => format!(
                        "the rows of {name} have none: keep it in its `map`, `{0}: {0}`",
                        field.name
                    ),
                };
                merged.lost.insert(field.name.clone(), why);
            }
        }
        merged
    }
}

/// The columns of a flow that make up a row of `merged`; None when that is what its rows are.
fn selection(flow: &Flow, merged: &Flow) -> Option<Arc<[usize]>> {
    let indices: Vec<usize> = merged
        .schema
        .fields()
        .iter()
        .filter_map(|f| flow.find(&f.name))
        .collect();
    let same = indices.len() == flow.schema.len() && indices.iter().enumerate().all(|(i, at)| i == *at);
    (!same).then(|| indices.into())
}
