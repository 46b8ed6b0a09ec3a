//! Puts the shares of all lanes together into an epoch, by shard.
use crate::operator::LaneShare;
use crate::sink::OutputBuffer;
use crate::state::ChangeSet;
use crate::types::output::OutputFrames;
use crate::types::{KeyGroups, Position, Shard, Shards, TimestampMs, Watermark};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an epoch changes in one shard.
#[derive(Debug)]
pub struct ShardEpoch {
    /// The shard.
    pub shard: Shard,
    /// All positions of the shard, moved or not.
    pub positions: Vec<Position>,
    /// The shard's watermark.
    pub watermark: Option<TimestampMs>,
    /// Its watermark before this epoch, which every lane has passed: what has expired before it may be removed.
    pub horizon: Option<TimestampMs>,
    /// Changes of state.
    pub changes: ChangeSet,
    /// Whether the shard's local copy takes them, and what earlier epochs have changed with them.
    pub taken: bool,
    /// Outputs for the log, in lane order.
    pub outputs: Vec<OutputBuffer>,
    /// Outputs for the outbox.
    pub outbox: OutputFrames,
}

/// An epoch before it has a name.
#[derive(Debug, Default)]
pub struct Epoch {
    /// True for the first commit of the shards' life.
    pub genesis: bool,
    /// The shards that changed.
    pub shards: Vec<ShardEpoch>,
    /// Records read in it.
    pub records: u64,
}

/// Where each partition stands, and each shard's watermark: what the next epoch is compared with.
#[derive(Debug, Clone)]
pub struct Standing {
    groups: KeyGroups,
    positions: BTreeMap<(String, i32), Position>,
    watermarks: Vec<Option<TimestampMs>>,
    /// The highest that the lanes at work have raised the watermarks to; none before their first barrier.
    raised_to: Option<TimestampMs>,
    /// By shard: whether this instance owns it.
    owned: Vec<bool>,
}

impl Standing {
    /// As restored or as of genesis.
    #[must_use]
    pub fn new(groups: KeyGroups, positions: &[Position], watermarks: Vec<Option<TimestampMs>>) -> Standing {
        let by_partition = |p: &Position| ((p.topic.clone(), p.partition), p.clone());
        Standing {
            groups,
            positions: positions.iter().map(by_partition).collect(),
            watermarks,
            raised_to: None,
            owned: vec![true; groups.shards as usize],
        }
    }

    /// Group mode: of all shards only these are this instance's.
    #[must_use]
    pub fn owning(mut self, shards: &[Shard]) -> Standing {
        self.owned.fill(false);
        for shard in shards {
            self.owned[shard.0 as usize] = true;
        }
        self
    }

    /// Group mode: this shard is this instance's, too.
    pub fn own(&mut self, shard: Shard, positions: &[Position], watermark: Option<TimestampMs>) {
        self.owned[shard.0 as usize] = true;
        self.watermarks[shard.0 as usize] = watermark;
        let by_partition = |p: &Position| ((p.topic.clone(), p.partition), p.clone());
        self.positions.extend(positions.iter().map(by_partition));
    }

    /// The lowest watermark of the shards: what the lanes begin with.
    #[must_use]
    pub fn watermark(&self) -> Watermark {
        let at = |w: &Option<TimestampMs>| w.unwrap_or(i64::MIN);
        Watermark {
            at: self.owned_watermarks().map(at).min().unwrap_or(i64::MIN),
            idle: false,
        }
    }

    /// How many shards are this instance's.
    #[must_use]
    pub fn owned(&self) -> usize {
        self.owned.iter().filter(|owned| **owned).count()
    }

    fn owned_watermarks(&self) -> impl Iterator<Item = &Option<TimestampMs>> {
        let owned = self.watermarks.iter().zip(&self.owned).filter(|(_, owned)| **owned);
        owned.map(|(watermark, _)| watermark)
    }

    /// Lanes begin: the watermark of each shard, by which its state may have expired already, `i64::MIN` for none.
    #[must_use]
    pub fn begin(&mut self) -> Arc<[TimestampMs]> {
        self.raised_to = None;
        self.watermarks.iter().map(|w| w.unwrap_or(i64::MIN)).collect()
    }

    /// What lanes that have begun need to know beside that: the watermark of the last epoch's sections (see
    /// [`crate::barrier::Cut::horizon`]).
    #[must_use]
    pub fn horizon(&self) -> TimestampMs {
        self.raised_to.unwrap_or(i64::MIN)
    }

    /// The positions of one shard.
    #[must_use]
    pub fn of_shard(&self, shard: Shard) -> Vec<Position> {
        let owned = |p: &&Position| self.groups.shard_of_partition(p.partition) == shard;
        self.positions.values().filter(owned).cloned().collect()
    }

    /// All positions.
    #[must_use]
    pub fn all(&self) -> Vec<Position> {
        self.positions.values().cloned().collect()
    }

    /// The first epoch of the owned shards: their start positions and nothing else.
    #[must_use]
    pub fn genesis(&self) -> Epoch {
        let owned = (0..self.groups.shards).filter(|s| self.owned[*s as usize]);
        let shards = owned.map(|s| self.shard_epoch(Shard(s), Shards::ALL)).collect();
        Epoch {
            genesis: true,
            shards,
            records: 0,
        }
    }

    fn shard_epoch(&self, shard: Shard, taking: Shards) -> ShardEpoch {
        ShardEpoch {
            shard,
            positions: self.of_shard(shard),
            watermark: self.watermarks.get(shard.0 as usize).copied().flatten(),
            horizon: None,
            changes: ChangeSet::default(),
            taken: taking.contain(shard),
            outputs: Vec::new(),
            outbox: OutputFrames::default(),
        }
    }

    /// Moves on by the shares of one barrier, with which the local copies of the shards in `taking` take what has changed; shards in which nothing
    /// moved, and whose copy has nothing to take, are left out.
    pub fn advance(&mut self, shares: Vec<LaneShare>, taking: Shards) -> Epoch {
        let moved = self.move_positions(&shares);
        let horizons = self.watermarks.clone();
        let raised = self.raise_watermarks(&shares);
        let records = shares
            .iter()
            .filter(|s| !s.positions.is_empty())
            .map(|s| s.records)
            .sum();
        let mut shards: Vec<ShardEpoch> = (0..self.groups.shards)
            .map(|s| self.shard_epoch(Shard(s), taking))
            .collect();
        shards
            .iter_mut()
            .zip(horizons)
            .for_each(|(shard, horizon)| shard.horizon = horizon);
        for LaneShare {
            changes,
            outputs,
            outbox,
            ..
        } in shares
        {
            for (shard, changes) in shards.iter_mut().zip(changes) {
                if shard.changes.is_empty() {
                    shard.changes = changes;
                } else {
                    shard.changes.append(&changes);
                }
            }
            shards
                .iter_mut()
                .zip(&outbox)
                .for_each(|(shard, outbox)| shard.outbox.append(outbox));
            let filled = shards
                .iter_mut()
                .zip(outputs)
                .filter(|(_, outputs)| !outputs.is_empty());
            filled.for_each(|(shard, outputs)| shard.outputs.push(outputs));
        }
        shards.retain(|s| {
            let index = s.shard.0 as usize;
            moved[index] || raised[index] || !s.changes.is_empty() || !s.outputs.is_empty() || !s.outbox.is_empty()
        });
        Epoch {
            genesis: false,
            shards,
            records,
        }
    }

    /// Gives a shard a section although nothing moved in it, in an epoch that was made with `taking`.
    pub fn add_to(&self, epoch: &mut Epoch, shard: Shard, taking: Shards) {
        if epoch.shards.iter().all(|s| s.shard != shard) {
            epoch.shards.push(self.shard_epoch(shard, taking));
        }
    }

    fn move_positions(&mut self, shares: &[LaneShare]) -> Vec<bool> {
        let mut moved = vec![false; self.groups.shards as usize];
        for position in shares.iter().flat_map(|s| &s.positions) {
            let key = (position.topic.clone(), position.partition);
            let shard = self.groups.shard_of_partition(position.partition).0 as usize;
            if self.positions.get(&key).is_none_or(|old| old.offset != position.offset) {
                moved[shard] = true;
                self.positions.insert(key, position.clone());
            }
        }
        moved
    }

    fn raise_watermarks(&mut self, shares: &[LaneShare]) -> Vec<bool> {
        let sources = shares.iter().filter(|s| !s.positions.is_empty()).map(|s| s.watermark);
        let lowest = Some(Watermark::of_inputs(sources).at).filter(|at| *at != i64::MIN);
        self.raised_to = self.raised_to.max(lowest);
        let raise = |(watermark, owned): (&mut Option<TimestampMs>, &bool)| {
            let raised = *owned && lowest.is_some() && lowest > *watermark;
            if raised {
                *watermark = lowest;
            }
            raised
        };
        self.watermarks.iter_mut().zip(&self.owned).map(raise).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Partitioner;

    fn position(partition: i32, offset: i64) -> Position {
        Position {
            topic: "in".into(),
            partition,
            offset,
            leader_epoch: -1,
        }
    }

    fn at(at: i64) -> Watermark {
        Watermark { at, idle: false }
    }

    fn standing() -> Standing {
        let groups = KeyGroups::new(240, 2, Partitioner::Murmur2).expect("valid");
        Standing::new(
            groups,
            &[position(0, 5), position(1, 7), position(2, 9)],
            vec![None, Some(3)],
        )
    }

    #[test]
    fn a_shard_in_which_nothing_moved_is_left_out() {
        let mut standing = standing();
        let mut share = LaneShare::new(1, 2, at(2));
        share.positions = vec![position(0, 5), position(1, 7), position(2, 10)];
        share.records = 1;
        let epoch = standing.advance(vec![share], Shards::ALL);
        assert_eq!((epoch.shards.len(), epoch.records), (1, 1));
        assert_eq!(epoch.shards[0].shard, Shard(0));
        assert_eq!(epoch.shards[0].positions, vec![position(0, 5), position(2, 10)]);
        assert_eq!(epoch.shards[0].watermark, Some(2));
    }

    /// What is removed with an epoch has expired for every lane: by what it began with, or by what the epoch's barrier carried.
    #[test]
    fn a_shards_horizon_is_never_ahead_of_what_its_lanes_know() {
        let mut standing = standing();
        let mut known = Vec::new();
        for (n, watermark) in [5, 5, 2, 9, 9].into_iter().enumerate() {
            // Lanes begin again in the middle.
            if n == 0 || n == 3 {
                known = standing.begin().to_vec();
            }
            let carried = standing.horizon();
            let mut share = LaneShare::new(1, 2, at(watermark));
            share.positions = vec![position(0, 10 + n as i64), position(1, 10 + n as i64)];
            for shard in standing.advance(vec![share], Shards::ALL).shards {
                let horizon = shard.horizon.unwrap_or(i64::MIN);
                assert!(horizon <= known[shard.shard.0 as usize].max(carried), "epoch {n}");
                assert!(horizon <= shard.watermark.unwrap_or(i64::MIN));
            }
        }
        assert_eq!((standing.horizon(), &known[..]), (9, &[5, 5][..]));
    }

    #[test]
    fn a_watermark_never_goes_back_and_comes_from_the_slowest_lane() {
        let mut standing = standing();
        let lane = |watermark| {
            let mut share = LaneShare::new(1, 2, at(watermark));
            share.positions = vec![position(0, 5)];
            share
        };
        let epoch = standing.advance(vec![lane(9), lane(4)], Shards::ALL);
        assert!(epoch.shards.iter().all(|s| s.watermark == Some(4)));
        assert!(standing.advance(vec![lane(1)], Shards::ALL).shards.is_empty());
    }
}
