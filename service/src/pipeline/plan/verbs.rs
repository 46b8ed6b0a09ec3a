//! What each kind of step makes of the rows that it reads.
use super::Planner;
use super::key::plain;
use super::step::{AggregatePlan, Column, Made, Outcome, Verb};
use crate::expr::{Aggregate, Expr};
use crate::pipeline::flow::{Flow, Keyed, is_pseudo};
use crate::pipeline::graph::Port;
use crate::pipeline::spec::{ArmSpec, Emit, MapSpec, StepSpec, VerbSpec};
use crate::value::{Field, Type};
use crate::yaml::Node;
use std::collections::BTreeSet;

impl<'y> Planner<'_, 'y> {
    /// Plans a verb over the rows of `flow`.
    pub(super) fn verb(&mut self, step: &StepSpec<'y>, verb: &VerbSpec<'y>, flow: &Flow, outputs: &[Port]) -> Outcome {
        let id = step.id.text.as_str();
        match verb {
            VerbSpec::Filter(node) => {
                let condition = self.condition(node, flow);
                let uses = condition.iter().flat_map(|c| Self::columns(c, flow)).collect();
                passing(condition.map(Verb::Filter), flow, uses)
            }
            VerbSpec::KeyBy => passing(Some(Verb::KeyBy), flow, BTreeSet::new()),
            VerbSpec::Dedup { at, within } => {
                let keyed = self.keyed(at, flow, "drops rows by their key");
                passing(keyed.map(|_| Verb::Dedup(*within)), flow, BTreeSet::new())
            }
            VerbSpec::Branch(arms) => self.branch(arms, flow),
            VerbSpec::Map(spec) => self.map(id, spec, flow, outputs),
            VerbSpec::FlatMap { array, name } => self.flat_map(array, name, flow, outputs),
            VerbSpec::Aggregate { at, calls, emit } => self.aggregate(id, (at, calls, *emit), flow, outputs),
        }
    }

    /// An expression of type bool.
    fn condition(&mut self, node: &Node, flow: &Flow) -> Option<Expr> {
        self.compiled(node, flow, Expr::compile_bool)
    }

    fn branch(&mut self, arms: &[ArmSpec<'y>], flow: &Flow) -> Outcome {
        let mut uses = BTreeSet::new();
        let mut planned = Vec::new();
        for arm in arms {
            let name = arm.name.text.clone();
            let Some(node) = arm.condition else {
                planned.push(Some((name, None)));
                continue;
            };
            let condition = self.condition(node, flow);
            uses.extend(condition.iter().flat_map(|c| Self::columns(c, flow)));
            planned.push(condition.map(|c| (name, Some(c))));
        }
        passing(planned.into_iter().collect::<Option<_>>().map(Verb::Branch), flow, uses)
    }

    fn map(&mut self, id: &str, spec: &MapSpec<'y>, flow: &Flow, outputs: &[Port]) -> Outcome {
        let all: Vec<(String, Option<Expr>)> = spec
            .columns
            .iter()
            .map(|(name, node)| (name.text.clone(), self.expr(node, flow)))
            .collect();
        let uses = all
            .iter()
            .filter_map(|(_, e)| e.as_ref())
            .flat_map(|e| Self::columns(e, flow))
            .collect();
        let good = all.iter().all(|(_, expr)| expr.is_some());
        // A pseudo-column stays what it is; the file says so with its own name.
        let (kept, named): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| is_pseudo(name));
        let mut made = Columns::default();
        let mut passes = BTreeSet::new();
        if spec.keep.is_some() {
            for (i, field) in flow.schema.fields().iter().enumerate() {
                match named.iter().find(|(name, _)| *name == field.name) {
                    Some((name, expr)) => made.compute(name, expr.as_ref()),
                    None => {
                        passes.insert(field.name.clone());
                        if self.live.any(outputs, &field.name) {
                            made.keep(i, field);
                        }
                    }
                }
            }
            made.poisoned.extend(
                flow.poisoned
                    .iter()
                    .filter(|p| !named.iter().any(|(name, _)| name == *p))
                    .cloned(),
            );
        }
        for (name, expr) in &named {
            if spec.keep.is_none() || flow.find(name).is_none() {
                made.compute(name, expr.as_ref());
            }
        }
        for (name, _) in kept.iter().filter(|_| spec.keep.is_none()) {
            if let Some(i) = flow.find(name).filter(|_| self.live.any(outputs, name)) {
                made.keep(i, flow.field(i));
            }
        }
        let copies: Vec<Option<usize>> = made.columns.iter().map(|c| copied(c, flow)).collect();
        let keyed = flow.keyed_after(|from| copies.iter().position(|c| *c == Some(from)));
        let Columns {
            columns,
            fields,
            poisoned,
        } = made;
        let mut behind = Flow::new(fields, keyed, poisoned);
        behind.follow(flow);
        if spec.keep.is_none() {
            behind.incomplete = false;
            behind.lose_all(id, |name| {
                format!(
                    "keep it there, `{name}: {name}`, or under a name that sinks write, `{}: {name}`",
                    &name[1..]
                )
            });
        }
        Outcome {
            verb: good.then_some(Verb::Map(columns.into())),
            flow: Some(behind),
            uses,
            passes,
        }
    }

    fn flat_map(&mut self, array: &Node, name: &Node, flow: &Flow, outputs: &[Port]) -> Outcome {
        let expr = self.expr(array, flow);
        let element = expr.as_ref().and_then(|expr| match expr.ty() {
            Type::Array(of) => Some(Type::clone(of)),
            other => {
                let message = format!("`{}` is {other}, not an array", array.text);
                self.report.at(
                    array,
                    message,
                    "name a column such as `tags: [string]`, or make an array of a text: `split(line, ' ')`",
                );
                None
            }
        });
        let taken = flow.find(&name.text).is_some() || flow.poisoned.contains(&name.text);
        if taken {
            self.report.at(
                name,
                format!("the row has a column `{}` already", name.text),
                "give the element another name",
            );
        }
        let kept = flow
            .schema
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| self.live.any(outputs, &f.name));
        let keep: Vec<usize> = kept.map(|(i, _)| i).collect();
        let shown = keep.iter().filter(|i| **i < flow.shown).count();
        let mut fields: Vec<Field> = keep.iter().map(|i| flow.field(*i).clone()).collect();
        let mut poisoned = flow.poisoned.clone();
        match &element {
            Some(ty) => fields.insert(
                shown,
                Field {
                    name: name.text.clone(),
                    ty: ty.clone(),
                },
            ),
            None => poisoned.push(name.text.clone()),
        }
        let moved = |from: usize| {
            keep.iter()
                .position(|i| *i == from)
                .map(|at| if at < shown { at } else { at + 1 })
        };
        let mut behind = Flow::new(fields, flow.keyed_after(moved), poisoned);
        behind.follow(flow);
        let uses = expr.iter().flat_map(|e| Self::columns(e, flow)).collect();
        let planned = expr.filter(|_| element.is_some() && !taken);
        Outcome {
            verb: planned.map(|array| Verb::FlatMap { array, keep, shown }),
            flow: Some(behind),
            uses,
            passes: names(flow),
        }
    }

    /// The columns of the key that rows have by a `key_by`.
    fn keyed(&mut self, at: &Node, flow: &Flow, does: &str) -> Option<Vec<usize>> {
        match &flow.keyed {
            Keyed::By {
                columns: Some(columns), ..
            } => Some(columns.clone()),
            // In the second pass a column of the key is there if somebody reads it.
            Keyed::By { columns: None, .. } if !self.live.is_everything() => Some(Vec::new()),
            Keyed::By { columns: None, step } => {
                let message = format!("the rows have lost a column of the key that step {step} gave them");
                self.report.at(at, message, "keep it, or give this step a `key_by`");
                None
            }
            Keyed::Record | Keyed::Mixed => {
                let message = format!("the step {does}, and nothing says by which");
                self.report.at(
                    at,
                    message,
                    "add `key_by: some_column`, or `key_by: _key` for the record's own key",
                );
                None
            }
        }
    }

    fn aggregate(
        &mut self,
        id: &str,
        (at, calls, emit): (&Node, &[(&'y Node, &'y Node)], Emit),
        flow: &Flow,
        outputs: &[Port],
    ) -> Outcome {
        let key = self.keyed(at, flow, "folds the rows of each key");
        let calls: Vec<_> = calls
            .iter()
            .map(|(name, call)| (*name, self.compiled(call, flow, Aggregate::compile)))
            .collect();
        let key_names: Vec<String> = key.iter().flatten().map(|i| flow.field(*i).name.clone()).collect();
        let mut row = Vec::new();
        let mut fields = Vec::new();
        for i in key
            .iter()
            .flatten()
            .filter(|i| self.live.any(outputs, &flow.field(**i).name))
        {
            row.push(Made::Key(*i));
            fields.push(flow.field(*i).clone());
        }
        let mut poisoned: Vec<String> = flow.poisoned.clone();
        let mut good = key.is_some();
        for (i, (name, call)) in calls.iter().enumerate() {
            if key_names.contains(&name.text) {
                self.report.at(
                    name,
                    format!("the key has a column `{}` already", name.text),
                    "give the aggregate another name",
                );
                good = false;
                continue;
            }
            match call {
                Some(call) if self.live.any(outputs, &name.text) => {
                    row.push(Made::Value(i));
                    fields.push(Field {
                        name: name.text.clone(),
                        ty: call.ty().clone(),
                    });
                }
                Some(_) => {}
                None => poisoned.push(name.text.clone()),
            }
        }
        // Pseudo-columns go behind the others, as in every flow.
        row.sort_by_key(|made| matches!(made, Made::Key(i) if is_pseudo(&flow.field(*i).name)));
        let keyed = match &flow.keyed {
            Keyed::By { step, .. } => Keyed::By {
                columns: None,
                step: step.clone(),
            },
            other => other.clone(),
        };
        let mut behind = Flow::new(fields, keyed, poisoned);
        let now = key_names.iter().map(|name| behind.find(name)).collect();
        if let Keyed::By { columns, .. } = &mut behind.keyed {
            *columns = now;
        }
        behind.follow(flow);
        // Without a key that is understood nobody knows its columns; in the second pass there is one.
        behind.incomplete = self.live.is_everything() && key.as_ref().is_none_or(Vec::is_empty);
        behind.lose_all(id, |name| match name {
            "_key" => "a `key_by: _key` there keeps it".to_owned(),
            name => format!("aggregate it there, such as `{}: last({name})`", &name[1..]),
        });
        let uses = calls
            .iter()
            .filter_map(|(_, c)| c.as_ref())
            .flat_map(|c| c.columns().iter().map(|i| flow.field(*i).name.clone()))
            .collect();
        let calls: Option<Vec<(String, Aggregate)>> = calls
            .into_iter()
            .map(|(name, call)| Some((name.text.clone(), call?)))
            .collect();
        Outcome {
            verb: calls.filter(|_| good).map(|calls| {
                Verb::Aggregate(AggregatePlan {
                    calls: calls.into(),
                    row: row.into(),
                    emit,
                })
            }),
            flow: Some(behind),
            uses,
            passes: key_names.into_iter().collect(),
        }
    }
}

/// The column of the row before that a column of a map is.
fn copied(column: &Column, flow: &Flow) -> Option<usize> {
    match column {
        Column::Keep(i) => Some(*i),
        Column::Compute(expr) => plain(expr.text(), flow),
    }
}

/// What a map makes, as it is collected.
#[derive(Default)]
struct Columns {
    columns: Vec<Column>,
    fields: Vec<Field>,
    poisoned: Vec<String>,
}

impl Columns {
    fn keep(&mut self, i: usize, field: &Field) {
        self.columns.push(Column::Keep(i));
        self.fields.push(field.clone());
    }

    fn compute(&mut self, name: &str, expr: Option<&Expr>) {
        let Some(expr) = expr else {
            self.poisoned.push(name.to_owned());
            return;
        };
        // Before the pseudo-columns that are kept, as in every flow.
        let at = self
            .fields
            .iter()
            .position(|f| is_pseudo(&f.name))
            .unwrap_or(self.fields.len());
        self.columns.insert(at, Column::Compute(expr.clone()));
        self.fields.insert(
            at,
            Field {
                name: name.to_owned(),
                ty: expr.ty().clone(),
            },
        );
    }
}

/// A verb that leaves rows as they are.
fn passing(verb: Option<Verb>, flow: &Flow, uses: BTreeSet<String>) -> Outcome {
    Outcome {
        verb,
        flow: Some(flow.clone()),
        uses,
        passes: names(flow),
    }
}

fn names(flow: &Flow) -> BTreeSet<String> {
    flow.schema.fields().iter().map(|f| f.name.clone()).collect()
}
