//! What gives bytes.
use super::{Buffer, BytesBuffer, Eval, Node, Text};
use crate::value::Row;

pub(in crate::expr) enum BytesOp {
    /// The UTF-8 of a text.
    OfText(Node<Text>),
}

impl BytesOp {
    pub fn eval<'a>(&'a self, row: &'a Row) -> Eval<BytesBuffer<'a>> {
        let BytesOp::OfText(text) = self;
        Ok(text.eval(row)?.map(|text| match text {
            Buffer::Shared(all) => Buffer::Part(all.as_bytes()),
            Buffer::Part(part) => Buffer::Part(part.as_bytes()),
            Buffer::Owned(own) => Buffer::Owned(own.into_bytes()),
        }))
    }
}
