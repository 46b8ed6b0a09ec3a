//! One value compared with several: `IN`, `BETWEEN`, `CASE a WHEN ..`. The value is evaluated once.
use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::compare::Wide;
use super::{Bool, Bytes, Eval, Fault, Float, Long, Node, Ordered, Text};
use crate::value::Row;

pub(in crate::expr) enum Probe {
    Bools(Node<Bool>, Vec<Node<Bool>>),
    Longs(Node<Long>, Vec<Node<Long>>),
    Wide(Wide, Vec<Wide>),
    Floats(Node<Float>, Vec<Node<Float>>),
    Texts(Node<Text>, Vec<Node<Text>>),
    Bytes(Node<Bytes>, Vec<Node<Bytes>>),
}

impl Probe {
    /// The first that is equal, and whether it cannot be said for one before it (NULL).
    pub fn find_equal(&self, row: &Row) -> Result<(Option<usize>, bool), Box<Fault>> {
        let mut unknown = false;
        let mut found = None;
        let known = self.each(row, |index, ordering| match ordering {
            Some(Ordering::Equal) => {
                found = Some(index);
                ControlFlow::Break(())
            }
            Some(_) => ControlFlow::Continue(()),
            None => {
                unknown = true;
                ControlFlow::Continue(())
            }
        })?;
        Ok((found, unknown || !known))
    }

    /// Whether the value is at least the first and at most the second.
    pub fn between(&self, row: &Row) -> Eval<bool> {
        let mut holds = Some(true);
        let known = self.each(row, |index, ordering| {
            let this = ordering.map(|o| if index == 0 { o.is_ge() } else { o.is_le() });
            match this {
                Some(false) => holds = Some(false),
                Some(true) => {}
                None => holds = holds.filter(|h| !h),
            }
            // What is false stays false, but an error in the other bound still is one.
            ControlFlow::Continue(())
        })?;
        Ok(holds.filter(|_| known))
    }

    /// Tells `f` how the value compares with each of the others, until it has enough. False if the value is NULL.
    fn each(&self, row: &Row, f: impl FnMut(usize, Option<Ordering>) -> ControlFlow<()>) -> Result<bool, Box<Fault>> {
        match self {
            Probe::Bools(of, others) => each(of, others, row, f),
            Probe::Longs(of, others) => each(of, others, row, f),
            Probe::Floats(of, others) => each(of, others, row, f),
            Probe::Texts(of, others) => each(of, others, row, f),
            Probe::Bytes(of, others) => each(of, others, row, f),
            Probe::Wide(of, others) => each_wide(of, others, row, f),
        }
    }
}

fn each<K: Ordered>(
    of: &Node<K>,
    others: &[Node<K>],
    row: &Row,
    mut f: impl FnMut(usize, Option<Ordering>) -> ControlFlow<()>,
) -> Result<bool, Box<Fault>> {
    let Some(value) = of.eval(row)? else {
        return Ok(false);
    };
    for (index, other) in others.iter().enumerate() {
        let ordering = other.eval(row)?.map(|other| K::compare(&value, &other));
        if f(index, ordering).is_break() {
            break;
        }
    }
    Ok(true)
}

fn each_wide(
    of: &Wide,
    others: &[Wide],
    row: &Row,
    mut f: impl FnMut(usize, Option<Ordering>) -> ControlFlow<()>,
) -> Result<bool, Box<Fault>> {
    let Some(value) = of.eval(row)? else {
        return Ok(false);
    };
    for (index, other) in others.iter().enumerate() {
        let ordering = other.eval(row)?.map(|other| value.cmp(&other));
        if f(index, ordering).is_break() {
            break;
        }
    }
    Ok(true)
}
