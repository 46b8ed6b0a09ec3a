//! The key of an entry: short ones lie in the entry itself, so that a look-up touches no other memory.
use std::ops::Deref;

/// What fits: an entry takes 24 bytes for its key, whatever it is.
const SHORT: usize = 22;

/// The bytes of a key.
pub(super) enum EntryKey {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl EntryKey {
    /// Estimate of what it takes besides its place in the entry.
    pub fn heap_bytes(&self) -> usize {
        // What the allocator adds to a block.
        const HEADER: usize = 16;
        match self {
            EntryKey::Short(..) => 0,
            EntryKey::Long(bytes) => HEADER + bytes.len(),
        }
    }
}

impl From<&[u8]> for EntryKey {
    fn from(bytes: &[u8]) -> EntryKey {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                // At most 22, as it has fitted.
                EntryKey::Short(bytes.len() as u8, short)
            }
            None => EntryKey::Long(bytes.into()),
        }
    }
}

impl Deref for EntryKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            EntryKey::Short(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            EntryKey::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_comes_back_and_short_ones_take_no_memory_of_their_own() {
        assert_eq!(std::mem::size_of::<EntryKey>(), 24);
        for len in 0..=300 {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let key = EntryKey::from(bytes.as_slice());
            assert_eq!(*key, *bytes);
            assert_eq!(key.heap_bytes(), if len <= 22 { 0 } else { 16 + len });
        }
    }
}
