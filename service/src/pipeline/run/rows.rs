//! What steps do to a row.
use super::refused;
use crate::expr::Expr;
use crate::pipeline::plan::Column;
use crate::value::{Row, Value};
use keyfold::operator::{BadReason, Refused};

/// Bytes that the rows of one record may take together. More would lie in memory, and in one transaction, at once.
const ELEMENTS_MAX: usize = 64 << 20;

/// The row that a map makes.
pub fn mapped(mut row: Row, columns: &[Column]) -> Result<Row, Refused> {
    let mut made = Vec::with_capacity(columns.len());
    for column in columns {
        made.push(match column {
            Column::Keep(_) => Value::Null,
            Column::Compute(expr) => expr.eval(&row)?,
        });
    }
    // A column is kept at most once, so that its value can be moved.
    for (made, column) in made.iter_mut().zip(columns) {
        if let Column::Keep(i) = column
            && let Some(value) = row.0.get_mut(*i)
        {
            *made = std::mem::replace(value, Value::Null);
        }
    }
    Ok(Row(made))
}

/// The row with more columns, before its pseudo-columns.
pub fn widened(mut row: Row, computed: &[Expr], before: usize) -> Result<Row, Refused> {
    let more = computed
        .iter()
        .map(|expr| expr.eval(&row))
        .collect::<Result<Vec<Value>, _>>()?;
    let at = before.min(row.0.len());
    row.0.splice(at..at, more);
    Ok(row)
}

/// A row for each element of the array: the kept columns, with the element behind the first `shown` of them. NULL has no elements.
pub fn elements(
    row: &Row,
    array: &Expr,
    keep: &[usize],
    shown: usize,
    out: &mut dyn FnMut(Row),
) -> Result<(), Refused> {
    let Value::Array(elements) = array.eval(row)? else {
        return Ok(());
    };
    let repeated: usize = keep.iter().map(|i| row.get(*i).weight()).sum();
    let all = repeated.saturating_mul(elements.len());
    if all > ELEMENTS_MAX {
        let message = format!(
            "{} elements, each with {repeated} bytes of other columns, are more than {} MiB of rows; drop columns with a map before",
            elements.len(),
            ELEMENTS_MAX >> 20
        );
        return Err(refused(BadReason::TooLong, message));
    }
    for element in elements.iter() {
        let mut made = Vec::with_capacity(keep.len() + 1);
        made.extend(keep[..shown].iter().map(|i| row.get(*i).clone()));
        made.push(element.clone());
        made.extend(keep[shown..].iter().map(|i| row.get(*i).clone()));
        out(Row(made));
    }
    Ok(())
}

/// The columns of a row, in another order or fewer.
pub fn selected(row: &Row, columns: &[usize]) -> Row {
    Row(columns.iter().map(|i| row.get(*i).clone()).collect())
}

/// The first condition that is TRUE; None is `else`.
pub fn chosen(conditions: &[Option<Expr>], row: &Row) -> Result<Option<usize>, Refused> {
    for (i, condition) in conditions.iter().enumerate() {
        let taken = match condition {
            None => true,
            Some(condition) => condition.is_true(row)?,
        };
        if taken {
            return Ok(Some(i));
        }
    }
    Ok(None)
}
