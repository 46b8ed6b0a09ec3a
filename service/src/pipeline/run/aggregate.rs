//! Aggregates of a key as one state.
use crate::expr::{Accumulator, Aggregate, Change};
use crate::pipeline::plan::{AggregatePlan, Made};
use crate::value::{Row, Value};
use keyfold::operator::Refused;
use keyfold::types::Codec;
use keyfold::types::codec::CodecError;
use std::cell::RefCell;
use std::sync::Arc;

/// What the schema of an aggregate's state begins with; its parts follow, with `; ` between them.
pub(crate) const AGGREGATES_SCHEMA: &str = "aggregates/1 ";

/// The accumulators of a key, in the order of the calls.
#[derive(Clone)]
pub struct Totals(Box<[Accumulator]>);

/// Folds rows.
pub struct Folding {
    calls: Arc<[(String, Aggregate)]>,
    row: Arc<[Made]>,
}

impl Folding {
    /// As the plan says.
    pub fn new(plan: &AggregatePlan) -> Folding {
        Folding {
            calls: plan.calls.clone(),
            row: plan.row.clone(),
        }
    }

    /// Adds a row to the totals of its key, and makes the row that comes out. The totals are as before when it refuses.
    pub fn add(&self, totals: &mut Option<Totals>, row: &Row) -> Result<Row, Refused> {
        match totals {
            Some(totals) => self.change(totals, row)?,
            None => {
                let mut fresh = Totals(self.calls.iter().map(|(_, call)| call.start()).collect());
                self.change(&mut fresh, row)?;
                *totals = Some(fresh);
            }
        }
        Ok(self.made(totals.as_ref(), row))
    }

    /// All aggregates are asked before the first is changed.
    fn change(&self, totals: &mut Totals, row: &Row) -> Result<(), Refused> {
        CHANGES.with_borrow_mut(|changes| {
            changes.clear();
            for ((_, call), accumulator) in self.calls.iter().zip(&totals.0) {
                changes.push(call.change(accumulator, row)?);
            }
            for (((_, call), accumulator), change) in self.calls.iter().zip(&mut totals.0).zip(changes.drain(..)) {
                call.apply(accumulator, change);
            }
            Ok(())
        })
    }

    fn made(&self, totals: Option<&Totals>, row: &Row) -> Row {
        let totals = totals.map(|t| &*t.0).unwrap_or_default();
        let value = |made: &Made| match *made {
            Made::Key(i) => row.get(i).clone(),
            Made::Value(i) => match (self.calls.get(i), totals.get(i)) {
                (Some((_, call)), Some(accumulator)) => call.value(accumulator),
                _ => Value::Null,
            },
        };
        Row(self.row.iter().map(value).collect())
    }
}

thread_local! {
    /// The changes of a row while it is folded: nothing is allocated for each.
    static CHANGES: RefCell<Vec<Change>> = const { RefCell::new(Vec::new()) };
}

/// The bytes of [`Totals`]: each accumulator's own, one after the other.
pub struct TotalsCodec {
    calls: Arc<[(String, Aggregate)]>,
}

impl TotalsCodec {
    /// For these aggregates.
    pub fn new(plan: &AggregatePlan) -> TotalsCodec {
        TotalsCodec {
            calls: plan.calls.clone(),
        }
    }

    fn error(&self, reason: impl ToString) -> CodecError {
        CodecError {
            codec: self.schema(),
            reason: reason.to_string(),
        }
    }
}

impl Codec<Totals> for TotalsCodec {
    fn encode(&self, totals: &Totals, out: &mut Vec<u8>) -> Result<(), CodecError> {
        for ((_, call), accumulator) in self.calls.iter().zip(&totals.0) {
            call.encode(accumulator, out);
        }
        Ok(())
    }

    fn decode(&self, mut bytes: &[u8]) -> Result<Totals, CodecError> {
        let all: Result<Box<[Accumulator]>, String> =
            self.calls.iter().map(|(_, call)| call.decode(&mut bytes)).collect();
        let all = all.map_err(|e| self.error(e))?;
        match bytes.len() {
            0 => Ok(Totals(all)),
            left => Err(self.error(format!("{left} bytes left over"))),
        }
    }

    fn weight(&self, totals: &Totals) -> Option<usize> {
        Some(totals.0.iter().map(Accumulator::weight).sum())
    }

    /// Names each aggregate, what it computes and how it is kept: a job whose aggregates have changed is refused with the difference.
    fn schema(&self) -> String {
        let each = |(name, call): &(String, Aggregate)| {
            format!("{name}: {} as {}", without_spaces(call.text()), call.state_schema())
        };
        let all: Vec<String> = self.calls.iter().map(each).collect();
        format!("{AGGREGATES_SCHEMA}{}", all.join("; "))
    }
}

/// An expression without white space that means nothing, so that it may be written in another way.
pub(super) fn without_spaces(text: &str) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut space = false;
    for c in text.chars() {
        if quote.is_none() && c.is_whitespace() {
            space = true;
            continue;
        }
        if std::mem::take(&mut space) && word(c) && out.ends_with(word) {
            out.push(' ');
        }
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_that_means_nothing_is_left_out() {
        assert_eq!(without_spaces(" sum ( a  +\n b )"), "sum(a+b)");
        assert_eq!(without_spaces("count( DISTINCT  a )"), "count(DISTINCT a)");
        assert_eq!(without_spaces("last(a || ' x  y ')"), "last(a||' x  y ')");
    }
}
