//! Whether the outputs are right.
use super::watch::Outputs;
use crate::load::{Input, counts};
use anyhow::{Context, Result, ensure};

/// Every record of the input was counted once: the outputs of each key are 1, 2, 3 and so on, in this order, up to its number of records.
pub fn all(outputs: &Outputs, input: &Input) -> Result<()> {
    in_order(outputs, input.keys)?.are(&counts(input))
}

/// None is counted twice or left out between the first output and the last one.
pub fn in_order(outputs: &Outputs, keys: u64) -> Result<Seen> {
    let mut seen = Seen::of(keys)?;
    outputs.each(|key, count| seen.add(key, count))?;
    Ok(seen)
}

/// How many outputs each key has.
pub struct Seen(Vec<u32>);

impl Seen {
    fn of(keys: u64) -> Result<Seen> {
        Ok(Seen(vec![0; usize::try_from(keys)?]))
    }

    fn add(&mut self, key: u64, count: u64) -> Result<()> {
        let before = usize::try_from(key).ok().and_then(|key| self.0.get_mut(key));
        let before = before.context("an output has a key that no record has")?;
        *before += 1;
        ensure!(u64::from(*before) == count, "output {before} of key {key} says {count}");
        Ok(())
    }

    fn are(&self, wanted: &[u32]) -> Result<()> {
        let differs = self.0.iter().zip(wanted).position(|(seen, wanted)| seen != wanted);
        if let Some(key) = differs {
            let of = |counts: &[u32]| counts.get(key).copied().unwrap_or_default();
            let (seen, wanted) = (of(&self.0), of(wanted));
            anyhow::bail!("key {key} has {seen} outputs for {wanted} records");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_comes_twice_or_not_at_all_is_found() {
        let after = |outputs: &[(u64, u64)]| {
            let mut seen = Seen::of(2).expect("keys");
            outputs.iter().try_for_each(|(key, count)| seen.add(*key, *count))?;
            seen.are(&[2, 1])
        };
        assert!(after(&[(0, 1), (1, 1), (0, 2)]).is_ok());
        assert!(after(&[(0, 1), (0, 1), (1, 1)]).is_err());
        assert!(after(&[(0, 1), (0, 3), (1, 1)]).is_err());
        assert!(after(&[(0, 1), (0, 2)]).is_err());
        assert!(after(&[(0, 1), (0, 2), (1, 1), (1, 2)]).is_err());
        assert!(after(&[(2, 1)]).is_err());
    }
}
