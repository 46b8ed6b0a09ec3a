//! Several change sets as one: what was changed more than once is there once, as it was changed last.
use super::changes::Change;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

#[cfg(test)]
mod tests;

/// The next change of one of the sets.
struct Head<'a> {
    change: Change<'a>,
    /// Its number; a later one counts.
    set: usize,
}

/// The greatest comes first in a heap: the least key, and of equal ones that of the latest set.
impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.change.key.cmp(self.change.key).then(self.set.cmp(&other.set))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

/// The changes of several sets, in order of key, each key once: with what the last of the sets says that names it. Nothing is copied.
pub struct Merged<'a, I> {
    heads: BinaryHeap<Head<'a>>,
    sets: Vec<I>,
}

impl<'a, I: Iterator<Item = Change<'a>>> Merged<'a, I> {
    /// Of these sets, the oldest first, each in order of key and with every key once.
    #[must_use]
    pub fn of(sets: impl IntoIterator<Item = I>) -> Merged<'a, I> {
        let mut sets: Vec<I> = sets.into_iter().collect();
        let first = |(set, changes): (usize, &mut I)| changes.next().map(|change| Head { change, set });
        let heads = sets.iter_mut().enumerate().filter_map(first).collect();
        Merged { heads, sets }
    }

    /// The first of what is left, superseded or not.
    fn pop(&mut self) -> Option<Change<'a>> {
        let mut head = self.heads.peek_mut()?;
        let change = head.change;
        match self.sets.get_mut(head.set).and_then(Iterator::next) {
            Some(next) => head.change = next,
            None => {
                PeekMut::pop(head);
            }
        }
        Some(change)
    }
}

impl<'a, I: Iterator<Item = Change<'a>>> Iterator for Merged<'a, I> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let change = self.pop()?;
        while self.heads.peek().is_some_and(|head| head.change.key == change.key) {
            self.pop();
        }
        Some(change)
    }
}
