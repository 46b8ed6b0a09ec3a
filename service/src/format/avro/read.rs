//! Reading a datum.
use std::sync::Arc;

use super::AvroSchema;
use super::cursor::Cursor;
use super::node::{Member, Node, Unit};
use crate::format::Limits;
use crate::format::error::{DecodeError, excerpt, registry_hint};
use crate::value::{DAY_MS, TIMESTAMP_MAX, TIMESTAMP_MIN, Value};

/// Reads datums of one schema.
#[derive(Debug)]
pub(in crate::format) struct AvroReader {
    schema: Arc<AvroSchema>,
    /// Of each field, whether it is read. None: the datum is one value.
    wanted: Option<Box<[bool]>>,
}

impl AvroReader {
    /// A column per field of a record, or one.
    pub(in crate::format) fn columns(schema: Arc<AvroSchema>, wanted: &[bool]) -> AvroReader {
        let wanted = match &schema.node {
            Node::Record(_) => Some(wanted.into()),
            _ => None,
        };
        AvroReader { schema, wanted }
    }

    /// One value.
    pub(in crate::format) fn datum(schema: Arc<AvroSchema>) -> AvroReader {
        AvroReader { schema, wanted: None }
    }

    pub(in crate::format) fn read(
        &self,
        bytes: &[u8],
        limits: Limits,
        row: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let mut cursor = Cursor::new(bytes, limits);
        self.read_all(&mut cursor, row)
            .map_err(|error| error.hint(registry_hint(bytes)))
    }

    fn read_all(&self, cursor: &mut Cursor<'_>, row: &mut Vec<Value>) -> Result<(), DecodeError> {
        match (&self.schema.node, &self.wanted) {
            (Node::Record(members), Some(wanted)) => {
                for (member, wanted) in members.iter().zip(wanted) {
                    row.push(member.read(cursor, *wanted)?);
                }
            }
            (node, _) => row.push(node.read(cursor)?),
        }
        match cursor.left() {
            0 => Ok(()),
            left => {
                let what = format!("{left} bytes are left after the datum; is it of this schema?");
                Err(DecodeError::new(what).at(cursor.at()))
            }
        }
    }
}

impl Member {
    fn read(&self, cursor: &mut Cursor<'_>, wanted: bool) -> Result<Value, DecodeError> {
        let result = match wanted {
            true => self.node.read(cursor),
            false => self.node.skip(cursor).map(|()| Value::Null),
        };
        result.map_err(|error| error.in_field(&self.name))
    }
}

impl Node {
    fn read(&self, cursor: &mut Cursor<'_>) -> Result<Value, DecodeError> {
        let start = cursor.at();
        Ok(match self {
            Node::Bool => match cursor.array()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(DecodeError::new(format!("a boolean of {other}")).at(start)),
            },
            Node::Int => Value::Int(cursor.int()?.into()),
            Node::Long => Value::Int(cursor.long()?),
            Node::Float => Value::Float(f32::from_le_bytes(cursor.array()?).into()),
            Node::Double => Value::Float(f64::from_le_bytes(cursor.array()?)),
            Node::Bytes => Value::Bytes(cursor.sized()?.into()),
            Node::String => Value::String(text(cursor)?.into()),
            Node::Uuid => {
                let text = text(cursor)?;
                if !is_uuid(text) {
                    return Err(DecodeError::new(format!("no uuid: string \"{}\"", excerpt(text))).at(start));
                }
                Value::String(text.into())
            }
            Node::Fixed(size) => Value::Bytes(cursor.take(*size)?.into()),
            Node::Enum(symbols) => Value::String(Arc::clone(symbol(cursor, symbols)?)),
            Node::Decimal { fixed, precision, .. } => decimal(cursor, *fixed, *precision)?,
            Node::Timestamp(unit) => timestamp(cursor, *unit)?,
            Node::Date => {
                let days = i64::from(cursor.int()?);
                in_range(days * DAY_MS).ok_or_else(|| beyond(days, "days").at(start))?
            }
            Node::Array { of, size_min } => array(cursor, of, *size_min)?,
            Node::Record(members) => {
                cursor.hold(members.len())?;
                // Filled in place: a vector would be copied.
                let mut values: Arc<[Value]> = std::iter::repeat_n(Value::Null, members.len()).collect();
                let unshared = Arc::get_mut(&mut values).expect("invariant: nobody else has it yet");
                for (value, member) in unshared.iter_mut().zip(members) {
                    *value = member.read(cursor, true)?;
                }
                Value::Struct(values)
            }
            Node::Nullable { null, of } => match branch(cursor, *null)? {
                true => Value::Null,
                false => return of.read(cursor),
            },
        })
    }

    /// Goes past a value that is not wanted. That it is complete is seen, that it is valid is not.
    fn skip(&self, cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
        match self {
            Node::Bool => cursor.take(1).map(|_| ()),
            Node::Float => cursor.take(4).map(|_| ()),
            Node::Double => cursor.take(8).map(|_| ()),
            Node::Int | Node::Long | Node::Enum(_) | Node::Timestamp(_) | Node::Date => cursor.long().map(|_| ()),
            Node::Bytes | Node::String | Node::Uuid | Node::Decimal { fixed: None, .. } => cursor.sized().map(|_| ()),
            Node::Fixed(size) | Node::Decimal { fixed: Some(size), .. } => cursor.take(*size).map(|_| ()),
            Node::Array { of, size_min } => skip_array(cursor, of, *size_min),
            Node::Record(members) => members
                .iter()
                .try_for_each(|member| member.read(cursor, false).map(|_| ())),
            Node::Nullable { null, of } => match branch(cursor, *null)? {
                true => Ok(()),
                false => of.skip(cursor),
            },
        }
    }
}

fn text<'b>(cursor: &mut Cursor<'b>) -> Result<&'b str, DecodeError> {
    let bytes = cursor.sized()?;
    std::str::from_utf8(bytes).map_err(|error| {
        let start = cursor.at() - bytes.len();
        DecodeError::new("not UTF-8").at(start + error.valid_up_to())
    })
}

/// Is it of the form that RFC 9562 gives, in letters of any case?
pub(super) fn is_uuid(text: &str) -> bool {
    let hyphen = |index: usize| matches!(index, 8 | 13 | 18 | 23);
    let mut bytes = text.bytes().enumerate();
    text.len() == 36
        && bytes.all(|(index, byte)| {
            if hyphen(index) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        })
}

fn symbol<'s>(cursor: &mut Cursor<'_>, symbols: &'s [Arc<str>]) -> Result<&'s Arc<str>, DecodeError> {
    let start = cursor.at();
    let index = cursor.int()?;
    let symbol = usize::try_from(index).ok().and_then(|index| symbols.get(index));
    symbol.ok_or_else(|| DecodeError::new(format!("symbol {index} of an enum of {}", symbols.len())).at(start))
}

/// Big-endian two's complement of any length, unscaled.
fn decimal(cursor: &mut Cursor<'_>, fixed: Option<usize>, precision: u8) -> Result<Value, DecodeError> {
    let start = cursor.at();
    let bytes = match fixed {
        Some(size) => cursor.take(size)?,
        None => cursor.sized()?,
    };
    let Some(first) = bytes.first() else {
        return Err(DecodeError::new("a decimal of 0 bytes").at(start));
    };
    let sign = if *first < 0x80 { 0 } else { 0xFF };
    let (ahead, last) = bytes.split_at(bytes.len().saturating_sub(8));
    let mut whole = [sign; 8];
    whole[8 - last.len()..].copy_from_slice(last);
    let value = i64::from_be_bytes(whole);
    let fits = ahead.iter().all(|byte| *byte == sign) && (value < 0) == (sign != 0);
    if !fits || value.unsigned_abs() >= 10u64.pow(precision.into()) {
        return Err(DecodeError::new(format!("a decimal of more than {precision} digits")).at(start));
    }
    Ok(Value::Decimal(value))
}

/// To milliseconds; what is finer is cut off towards the past.
fn timestamp(cursor: &mut Cursor<'_>, unit: Unit) -> Result<Value, DecodeError> {
    let start = cursor.at();
    let time = cursor.long()?;
    in_range(time.div_euclid(unit.in_one_ms())).ok_or_else(|| beyond(time, "as a timestamp").at(start))
}

fn in_range(ms: i64) -> Option<Value> {
    (TIMESTAMP_MIN..=TIMESTAMP_MAX)
        .contains(&ms)
        .then_some(Value::Timestamp(ms))
}

fn beyond(time: i64, what: &str) -> DecodeError {
    DecodeError::new(format!("{time} {what} lies before the year 0 or after 9999"))
}

/// Whether the branch of the union that comes is null.
fn branch(cursor: &mut Cursor<'_>, null: u8) -> Result<bool, DecodeError> {
    let start = cursor.at();
    match cursor.long()? {
        index @ (0 | 1) => Ok(index == i64::from(null)),
        index => Err(DecodeError::new(format!("branch {index} of a union of 2")).at(start)),
    }
}

/// Elements that are made room for before they are read: the count is the datum's claim, and arrays in arrays can claim the same bytes many times.
const RESERVED_MAX: usize = 64;

fn array(cursor: &mut Cursor<'_>, of: &Node, size_min: usize) -> Result<Value, DecodeError> {
    let mut items = Vec::new();
    while let Some(block) = cursor.block(size_min)? {
        items.reserve(block.count.min(RESERVED_MAX));
        for _ in 0..block.count {
            cursor.hold(1)?;
            let index = items.len();
            items.push(of.read(cursor).map_err(|error| error.in_element(index))?);
        }
        cursor.end_block(&block)?;
    }
    Ok(Value::Array(items.into()))
}

fn skip_array(cursor: &mut Cursor<'_>, of: &Node, size_min: usize) -> Result<(), DecodeError> {
    while let Some(block) = cursor.block(size_min)? {
        if cursor.skip_block(&block) {
            continue;
        }
        for _ in 0..block.count {
            of.skip(cursor)?;
        }
    }
    Ok(())
}
