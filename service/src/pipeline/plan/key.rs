//! `key_by`: what the key of a row is, and whether rows have to go to other lanes for it.
use super::Planner;
use crate::expr::Expr;
use crate::pipeline::flow::{Flow, KEY_COLUMN, Keyed};
use crate::pipeline::spec::{KeyPart, KeySpec, plain_column};
use crate::value::{Field, Type};
use std::collections::BTreeSet;

/// Rows are sent to the lanes of their keys.
pub struct Exchange {
    /// Columns that are computed for the key, and become part of the row before its pseudo-columns.
    pub computed: Vec<Expr>,
    /// Number of the row's columns before them.
    pub before: usize,
    /// The key.
    pub key: KeyPlan,
    /// What each part of the key is computed from; none for the record's own key.
    pub made_of: Vec<String>,
}

/// What a key's bytes are made of.
pub enum KeyPlan {
    /// The record's own key bytes.
    Record,
    /// Columns, with their types.
    Columns(Vec<(usize, Type)>),
}

/// What a `key_by` does to a flow.
pub struct Keying {
    /// None when the rows have this key already.
    pub exchange: Option<Exchange>,
    /// The rows behind it.
    pub flow: Flow,
    /// Columns that it reads.
    pub uses: BTreeSet<String>,
}

impl<'y> Planner<'_, 'y> {
    /// Gives the rows of a flow a key.
    pub(super) fn key_by(&mut self, step: &str, spec: &KeySpec<'y>, flow: &Flow) -> Option<Keying> {
        // Whether the row still has the column was seen in the first pass; in the second it has it if somebody reads it.
        let has_key = flow.find(KEY_COLUMN).is_some() || !self.live.is_everything();
        if let [part] = spec.parts.as_slice()
            && part.expression.text.trim() == KEY_COLUMN
            && part.name == KEY_COLUMN
            && flow.keyed == Keyed::Record
            && has_key
        {
            return Some(of_record(step, flow));
        }
        let parts: Vec<_> = spec
            .parts
            .iter()
            .map(|part| Some((part, self.key_part(part, flow)?)))
            .collect();
        let parts: Vec<(&KeyPart<'y>, Expr)> = parts.into_iter().collect::<Option<_>>()?;
        if parts.is_empty() {
            return None;
        }
        let uses = parts.iter().flat_map(|(_, expr)| Self::columns(expr, flow)).collect();
        let (computed, columns, wide) = self.widened(&parts, flow)?;
        let same = matches!(&flow.keyed, Keyed::By { columns: Some(now), .. } if *now == columns);
        let key = columns.iter().map(|i| (*i, wide.field(*i).ty.clone())).collect();
        let mut behind = wide;
        if !same {
            behind.keyed = Keyed::By {
                columns: Some(columns),
                step: step.to_owned(),
            };
        }
        let exchange = (!same).then_some(Exchange {
            computed,
            before: flow.shown,
            key: KeyPlan::Columns(key),
            made_of: parts.iter().map(|(part, _)| made_of(part, flow)).collect(),
        });
        Some(Keying {
            exchange,
            flow: behind,
            uses,
        })
    }

    fn key_part(&mut self, part: &KeyPart<'y>, flow: &Flow) -> Option<Expr> {
        let expr = self.expr(part.expression, flow)?;
        if matches!(expr.ty(), Type::Array(_) | Type::Struct(_)) {
            let message = format!("a key cannot be {}", expr.ty());
            self.report
                .at(part.expression, message, "take a part of it, such as `address.city`");
            return None;
        }
        Some(expr)
    }

    /// The row with the columns that the key computes, and where the parts of the key are in it.
    fn widened(&mut self, parts: &[(&KeyPart<'y>, Expr)], flow: &Flow) -> Option<(Vec<Expr>, Vec<usize>, Flow)> {
        let mut computed = Vec::new();
        let mut names = Vec::new();
        let mut fields: Vec<Field> = flow.shown().to_vec();
        let mut good = true;
        for (part, expr) in parts {
            let is_column = plain(&part.expression.text, flow).is_some_and(|i| flow.field(i).name == part.name);
            if !is_column {
                if flow.find(&part.name).is_some() {
                    let message = format!("the row has a column `{}` already", part.name);
                    let help = format!(
                        "give the key another name: `key_by: {{ key: {} }}`",
                        part.expression.text
                    );
                    self.report.at(part.expression, message, help);
                    good = false;
                }
                fields.push(Field {
                    name: part.name.clone(),
                    ty: expr.ty().clone(),
                });
                computed.push(expr.clone());
            }
            names.push(part.name.clone());
        }
        fields.extend(flow.schema.fields()[flow.shown..].iter().cloned());
        let added = computed.len();
        let moved = |i: usize| Some(if i < flow.shown { i } else { i + added });
        let mut wide = Flow::new(fields, flow.keyed_after(moved), flow.poisoned.clone());
        wide.follow(flow);
        let columns = names.iter().filter_map(|name| wide.find(name)).collect();
        good.then_some((computed, columns, wide))
    }
}

/// By the record's own key: the row stays on its partition's lane in group mode.
fn of_record(step: &str, flow: &Flow) -> Keying {
    let mut behind = flow.clone();
    behind.keyed = Keyed::By {
        columns: flow.find(KEY_COLUMN).map(|i| vec![i]),
        step: step.to_owned(),
    };
    Keying {
        exchange: Some(Exchange {
            computed: Vec::new(),
            before: flow.shown,
            key: KeyPlan::Record,
            made_of: Vec::new(),
        }),
        flow: behind,
        uses: BTreeSet::new(),
    }
}

/// The text of a part of a key; a column may be written with quotes or without.
fn made_of(part: &KeyPart<'_>, flow: &Flow) -> String {
    let column = plain(&part.expression.text, flow).map(|i| flow.field(i).name.clone());
    column.unwrap_or_else(|| part.expression.text.trim().to_owned())
}

/// The column that an expression is, if it is nothing more.
pub fn plain(text: &str, flow: &Flow) -> Option<usize> {
    let text = text.trim();
    let is_path = text.contains('.') && !text.starts_with('"');
    plain_column(text)
        .filter(|_| !is_path)
        .and_then(|name| flow.find(&name))
}
