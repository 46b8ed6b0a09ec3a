//! Stands for the local copies of shards that other instances own (group mode).
use super::{Applied, Backend, Image, Swept};
use crate::state::StateError;
use crate::state::changes::Change;
use crate::types::Shard;

/// Answers every access with an error: a record of a shard that is not ours must never find a state that looks empty.
#[derive(Debug, Clone, Copy)]
pub struct Unowned {
    shard: Shard,
}

impl Unowned {
    /// In place of this shard's copy.
    #[must_use]
    pub fn new(shard: Shard) -> Unowned {
        Unowned { shard }
    }

    fn refused<T>(&self) -> Result<T, StateError> {
        Err(StateError::NotOwned { shard: self.shard.0 })
    }
}

impl Backend for Unowned {
    fn get_many(&self, _: &[&[u8]], _: &mut Vec<Option<Vec<u8>>>) -> Result<(), StateError> {
        self.refused()
    }
    fn apply(&self, _: &mut dyn Iterator<Item = Change<'_>>, _: &Applied) -> Result<(), StateError> {
        self.refused()
    }
    fn sweep(&self, _: &[u8], _: &[u8], _: usize, _: &dyn Fn(&[u8]) -> bool) -> Result<Swept, StateError> {
        self.refused()
    }
    fn applied(&self) -> Result<Option<Applied>, StateError> {
        self.refused()
    }
    fn scan(&self, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StateError> {
        self.refused()
    }
    fn damaged(&self, _: String) -> StateError {
        StateError::NotOwned { shard: self.shard.0 }
    }
    fn image(&self) -> Result<Box<dyn Image>, StateError> {
        self.refused()
    }
    fn flush(&self) -> Result<(), StateError> {
        // There is nothing to write.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::section;
    use super::*;

    /// An "absent" here would start a key that another instance holds from nothing.
    #[test]
    fn every_access_is_refused_by_the_name_of_the_shard() {
        let copy = Unowned::new(Shard(7));
        let refused = [
            copy.get_many(&[b"k"], &mut Vec::new()),
            copy.apply(&mut std::iter::empty(), &section(0)),
            copy.applied().map(|_| ()),
            copy.sweep(b"a", b"b", 1, &|_| true).map(|_| ()),
            copy.scan(&mut |_, _| ()),
            copy.image().map(|_| ()),
            Err(copy.damaged("odd".to_owned())),
        ];
        for result in refused {
            let error = result.expect_err("refused");
            assert!(matches!(error, StateError::NotOwned { shard: 7 }), "{error}");
            assert!(error.to_string().contains("shard 7"), "{error}");
        }
        assert!(copy.flush().is_ok());
    }
}
