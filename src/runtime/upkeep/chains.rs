//! The sections of each shard behind its base, as this instance commits them.
use crate::checkpoint::chain::ShardState;
use crate::checkpoint::object::{Based, Section};
use crate::checkpoint::protocol::{ChainFacts, ChainLimits};
use crate::types::{BaseLink, Digest, Link, Sequence, Shard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Digests of the pieces of files that stay as they are, by name.
pub(super) type Digests = HashMap<String, Vec<Digest>>;

/// A base that is complete and not named by a committed section yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pending {
    pub link: BaseLink,
    /// Past this it may be garbage (EP-9).
    pub until: Duration,
}

/// One shard's chain.
#[derive(Debug, Default)]
pub(super) struct ShardChain {
    pub base: Option<BaseLink>,
    pub pending: Option<Pending>,
    /// Of the copy that is open.
    pub digests: Digests,
    tip: Sequence,
    /// Where the chain began, without a base.
    first: Sequence,
    /// Bytes of sections, in order: those before this run in one entry.
    sizes: VecDeque<(Sequence, u64)>,
}

impl ShardChain {
    fn bytes_behind(&self, base: Option<&BaseLink>) -> u64 {
        let behind = self
            .sizes
            .iter()
            .filter(|(at, _)| base.is_none_or(|base| *at > base.sequence));
        behind.map(|(_, bytes)| bytes).sum()
    }

    fn facts(&self) -> ChainFacts {
        let objects = match &self.base {
            Some(base) => self.tip.saturating_sub(base.sequence),
            None => (self.tip + 1).saturating_sub(self.first),
        };
        ChainFacts {
            objects,
            bytes: self.bytes_behind(self.base.as_ref()),
            base_bytes: self.base.map_or(0, |base| base.bytes),
        }
    }

    fn named(&mut self, base: BaseLink) {
        self.base = Some(base);
        self.pending = self.pending.filter(|pending| pending.link.id != base.id);
        self.sizes.retain(|(at, _)| *at > base.sequence);
    }
}

/// The chains of all shards of this instance.
#[derive(Debug)]
pub(super) struct Chains {
    limits: ChainLimits,
    shards: BTreeMap<Shard, ShardChain>,
}

impl Chains {
    pub fn new(limits: ChainLimits) -> Chains {
        Chains {
            limits,
            shards: BTreeMap::new(),
        }
    }

    pub fn clear(&mut self) {
        self.shards.clear();
    }

    pub fn get_mut(&mut self, shard: Shard) -> Option<&mut ShardChain> {
        self.shards.get_mut(&shard)
    }

    /// A restored shard goes on.
    pub fn resume(&mut self, shard: Shard, state: &ShardState) {
        let before = state.base.map_or(0, |based| based.chain_bytes);
        let tip = state.link.sequence;
        let chain = ShardChain {
            base: state.base.map(|based| based.base),
            tip,
            // How long it is nobody knows: a base is due, and that is all.
            first: tip.saturating_sub(self.limits.objects_max),
            sizes: VecDeque::from([(tip, before + state.link.place.len)]),
            ..ShardChain::default()
        };
        self.shards.insert(shard, chain);
    }

    /// What the next section of a shard says of its base: the new one, if there is one and `name` allows it.
    pub fn based(&self, shard: Shard, name: bool, now: Duration) -> Option<Based> {
        let chain = self.shards.get(&shard)?;
        let pending = chain.pending.filter(|pending| name && now <= pending.until);
        let base = pending.map(|pending| pending.link).or(chain.base)?;
        Some(Based {
            base,
            chain_bytes: chain.bytes_behind(Some(&base)),
        })
    }

    /// Whether a section names a base for the first time, and too late: what is past its time may be garbage (EP-9).
    pub fn names_too_late(&self, section: &Section, now: Duration) -> bool {
        let (Some(named), Some(chain)) = (section.base, self.shards.get(&section.shard)) else {
            return false;
        };
        let pending = chain.pending.filter(|pending| pending.link.id == named.base.id);
        chain.base.is_none_or(|base| base.id != named.base.id) && pending.is_none_or(|pending| now > pending.until)
    }

    /// A section was committed; true when it is the first to name its base.
    pub fn adopt(&mut self, section: &Section, link: &Link) -> bool {
        let chain = self.shards.entry(section.shard).or_insert_with(|| ShardChain {
            first: section.sequence,
            ..ShardChain::default()
        });
        chain.tip = section.sequence;
        chain.sizes.push_back((section.sequence, link.place.len));
        let fresh = section
            .base
            .map(|based| based.base)
            .filter(|base| chain.base != Some(*base));
        if let Some(base) = fresh {
            chain.named(base);
        }
        fresh.is_some()
    }

    /// Shards with a base that waits to be named.
    pub fn waiting(&self, now: Duration) -> Vec<Shard> {
        let waits = |chain: &ShardChain| chain.pending.is_some_and(|pending| now <= pending.until);
        let waiting = self.shards.iter().filter(|(_, chain)| waits(chain));
        waiting.map(|(shard, _)| *shard).collect()
    }

    /// Drops bases that were not named in time; how many.
    pub fn expire(&mut self, now: Duration) -> usize {
        let late = |chain: &&mut ShardChain| chain.pending.is_some_and(|pending| now > pending.until);
        let late = self.shards.values_mut().filter(late);
        late.map(|chain| chain.pending = None).count()
    }

    /// The shard that needs a base most.
    pub fn most_due(&self) -> Option<Shard> {
        let due = self.shards.iter().filter(|(_, chain)| chain.pending.is_none());
        let due = due.map(|(shard, chain)| (*shard, chain.facts()));
        let due = due.filter(|(_, facts)| self.limits.due(facts));
        let load = |facts: &ChainFacts| self.limits.load(facts);
        due.max_by(|(_, a), (_, b)| load(a).total_cmp(&load(b)))
            .map(|(shard, _)| shard)
    }

    /// A shard whose chain must not grow any more, and how long it is.
    pub fn full(&self) -> Option<(Shard, ChainFacts)> {
        let open = self.shards.iter().filter(|(_, chain)| chain.pending.is_none());
        let mut facts = open.map(|(shard, chain)| (*shard, chain.facts()));
        facts.find(|(_, facts)| self.limits.full(facts))
    }

    /// The longest, in sections and in bytes.
    pub fn longest(&self) -> Option<(u64, u64)> {
        let facts = || self.shards.values().map(ShardChain::facts);
        Some((facts().map(|f| f.objects).max()?, facts().map(|f| f.bytes).max()?))
    }
}

#[cfg(test)]
mod tests;
