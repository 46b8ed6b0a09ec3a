//! Rows on their way, keyed or not: the engine has a type for each.
use crate::value::Row;
use keyfold::operator::Refused;
use keyfold::operator::terminal::Output;
use keyfold::topology::{KeyedStream, Stream, Target};

/// A stream of rows.
#[derive(Clone)]
pub enum Rows {
    /// With the key of their record, or of a keyed stream that they have left.
    Free(Stream<Row>),
    /// On the lanes of their keys.
    Keyed(KeyedStream<Row>),
}

/// Calls the same method on whichever it is.
macro_rules! either {
    ($rows:expr, $stream:ident => $call:expr) => {
        match $rows {
            Rows::Free($stream) => Rows::Free($call),
            Rows::Keyed($stream) => Rows::Keyed($call),
        }
    };
}

impl Rows {
    /// Keeps some.
    pub fn filter(&self, id: &str, f: impl Fn(&Row) -> Result<bool, Refused> + Send + Sync + 'static) -> Rows {
        either!(self, stream => stream.try_filter(id, f))
    }

    /// Another row for each.
    pub fn map(&self, id: &str, f: impl Fn(Row) -> Result<Row, Refused> + Send + Sync + 'static) -> Rows {
        either!(self, stream => stream.try_map(id, f))
    }

    /// Any number of rows for each.
    pub fn flat_map(
        &self,
        id: &str,
        f: impl Fn(Row, &mut dyn FnMut(Row)) -> Result<(), Refused> + Send + Sync + 'static,
    ) -> Rows {
        either!(self, stream => stream.try_flat_map(id, f))
    }

    /// Each to one of several, or to none.
    pub fn split(
        &self,
        id: &str,
        count: usize,
        choose: impl Fn(&Row) -> Result<Option<usize>, Refused> + Send + Sync + 'static,
    ) -> Vec<Rows> {
        match self {
            Rows::Free(stream) => stream
                .try_split(id, count, choose)
                .into_iter()
                .map(Rows::Free)
                .collect(),
            Rows::Keyed(stream) => stream
                .try_split(id, count, choose)
                .into_iter()
                .map(Rows::Keyed)
                .collect(),
        }
    }

    /// Off the lanes of their keys.
    pub fn free(&self) -> Stream<Row> {
        match self {
            Rows::Free(stream) => stream.clone(),
            Rows::Keyed(stream) => stream.unkeyed(),
        }
    }

    /// Into a sink.
    pub fn to(
        &self,
        id: &str,
        target: Target,
        encode: impl Fn(&Row, &mut Output) -> Result<(), String> + Send + Sync + 'static,
    ) {
        match self {
            Rows::Free(stream) => stream.to_encoded(id, target, encode),
            Rows::Keyed(stream) => stream.to_encoded(id, target, encode),
        }
    }
}
