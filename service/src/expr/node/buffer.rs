//! Texts and bytes while they are evaluated.
use std::ops::Deref;
use std::sync::Arc;

/// Longest text, and most bytes, that an expression makes. Kafka's default for a record is 1 MiB, and few raise it above this; without a bound
/// `concat(a, a, ..)` of a large field could take the memory of the whole process.
pub(in crate::expr) const TEXT_MAX: usize = 16 << 20;

/// A text or bytes. What stands in the row as it is stays shared, and becomes a value again without a copy.
#[derive(Debug)]
pub(in crate::expr) enum Buffer<'a, T: ?Sized, O> {
    Shared(&'a Arc<T>),
    Part(&'a T),
    Owned(O),
}

impl<T: ?Sized, O: AsRef<T>> Deref for Buffer<'_, T, O> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Buffer::Shared(all) => all,
            Buffer::Part(part) => part,
            Buffer::Owned(own) => own.as_ref(),
        }
    }
}

impl<T: ?Sized, O> Buffer<'_, T, O>
where
    O: Into<Arc<T>>,
    for<'b> &'b T: Into<Arc<T>>,
{
    /// As it is kept in a value.
    pub fn keep(self) -> Arc<T> {
        match self {
            Buffer::Shared(all) => all.clone(),
            Buffer::Part(part) => part.into(),
            Buffer::Owned(own) => own.into(),
        }
    }
}
