//! Which local copies take the changes at a barrier. All of them is least to think about; by turns a key that changes again and again is written
//! once for several epochs, and RocksDB's part of a record's cost falls with that. What waits is pinned in the maps meanwhile, a restart after a
//! kill replays some more sections, and each key that waited is encoded once more: so turns are taken where they pay, and as few as that needs.
use crate::config::Config;
use crate::operator::LaneShare;
use crate::state::ChangeSet;
use crate::types::{Shard, Shards};

/// Barriers between two turns of a copy, at most: what a restart after a kill may have to replay beyond what was in memtables.
const ROUND_MAX: u32 = 8;
/// Writing a change costs about three times as much as encoding it (flush and compaction are most of it).
const WRITTEN_PER_ENCODED: u64 = 3;
/// Barriers until longer turns are tried again after they did not pay.
const TRIED_AGAIN_AFTER: u32 = 64;

/// What one barrier has handed over.
#[derive(Debug, Clone, Copy, Default)]
struct Handed {
    /// Changes of the epoch.
    changed: u64,
    /// Changes that copies take.
    taken: u64,
    /// Those of them that are of an earlier epoch, and so were encoded once more.
    again: u64,
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Turns {
    /// How many copies there are.
    copies: u32,
    /// See [`Config::at_once_bytes`].
    at_once_bytes: usize,
    /// Most bytes that may wait in the maps.
    waiting_max: usize,
    /// Barriers of a round, in which each copy has one turn.
    round: u32,
    at: u32,
    handed: Handed,
    /// Entries that waited when the round began, and wait now; and their bytes.
    before: u64,
    waiting: u64,
    waiting_bytes: usize,
    /// See [`crate::state::Waiting::crowded`].
    crowded: bool,
    /// Barriers until a longer round is tried.
    trial: u32,
    /// All copies were given what waits although it was not their turn.
    out_of_turn: bool,
}

impl Turns {
    /// Of so many copies, of shards that follow each other. What waits will be changes in flight, and may be as much.
    pub fn new(copies: usize, config: &Config) -> Turns {
        let round = if config.at_once_bytes == 0 { ROUND_MAX } else { 1 };
        Turns {
            copies: (copies as u32).max(1),
            at_once_bytes: config.at_once_bytes,
            waiting_max: config.budget().dirty_bytes,
            round,
            at: 0,
            handed: Handed::default(),
            before: 0,
            waiting: 0,
            waiting_bytes: 0,
            crowded: false,
            trial: 0,
            out_of_turn: false,
        }
    }

    /// Whose copies take what has changed at the next barrier; `dirty` is how many bytes have since the last one.
    pub fn next(&mut self, dirty: usize) -> Shards {
        self.out_of_turn = self.cannot_wait(dirty);
        if self.out_of_turn {
            return Shards::ALL;
        }
        let turn = self.at;
        self.at += 1;
        // With fewer copies than barriers, some have none.
        let parts = self.round.min(self.copies);
        let barriers = self.round / parts;
        match turn % barriers {
            0 if turn / barriers < parts => Shards::every(parts, turn / barriers),
            _ => Shards::NONE,
        }
    }

    /// It is little, or too much, which makes rounds shorter before it comes to that.
    fn cannot_wait(&mut self, dirty: usize) -> bool {
        if dirty + self.waiting_bytes < self.at_once_bytes {
            return true;
        }
        if self.crowded || self.waiting_bytes > self.waiting_max {
            self.shorten();
        }
        self.waiting_bytes > self.waiting_max / 2 * 3
    }

    /// Bytes that wait in the maps.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// What the lanes have handed over at a barrier with this `taking`.
    pub fn handed_over(&mut self, shares: &[LaneShare], taking: Shards) {
        self.waiting = shares.iter().map(|share| share.waiting.entries).sum();
        self.waiting_bytes = shares.iter().map(|share| share.waiting.bytes).sum();
        self.crowded = shares.iter().any(|share| share.waiting.crowded);
        for share in shares {
            for (shard, changes) in share.changes.iter().enumerate() {
                self.handed.add(changes, taking.contain(Shard(shard as u32)));
            }
        }
        self.trial = self.trial.saturating_sub(1);
        if self.at >= self.round {
            self.end_round();
        } else if self.out_of_turn {
            self.begin_round();
        }
    }

    fn begin_round(&mut self) {
        self.handed = Handed::default();
        self.before = self.waiting;
        self.at = 0;
    }

    fn end_round(&mut self) {
        let Handed { changed, taken, again } = self.handed;
        // Changed, and neither written nor waiting: changed again meanwhile.
        let saved = (self.before + changed).saturating_sub(taken + self.waiting);
        self.begin_round();
        let pays = self.at_once_bytes == 0 || saved * WRITTEN_PER_ENCODED >= again;
        if self.round > 1 && !pays {
            self.shorten();
        } else if self.trial == 0 {
            self.round = (self.round * 2).min(ROUND_MAX);
        }
    }

    fn shorten(&mut self) {
        self.round = (self.round / 2).max(1);
        self.at = 0;
        self.trial = TRIED_AGAIN_AFTER;
    }
}

impl Handed {
    fn add(&mut self, changes: &ChangeSet, taking: bool) {
        self.changed += changes.len() as u64;
        self.again += changes.earlier() as u64;
        if taking {
            self.taken += changes.all().len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Change, Waiting};
    use crate::types::Watermark;
    use std::collections::BTreeSet;

    const SHARDS: u32 = 4;
    const ENTRY_BYTES: usize = 10_000;
    const WAITING_MAX: usize = 50_000_000;

    /// A lane whose keys are numbers, each in the shard that it has modulo the number of shards.
    struct Lane {
        turns: Turns,
        waiting: BTreeSet<u32>,
    }

    impl Lane {
        fn new() -> Lane {
            Lane::of_copies(SHARDS as usize)
        }

        fn of_copies(copies: usize) -> Lane {
            let mut turns = Turns::new(copies, &Config::new("unused"));
            turns.waiting_max = WAITING_MAX;
            Lane {
                turns,
                waiting: BTreeSet::new(),
            }
        }

        /// An epoch in which these keys change; returns whose copies took them.
        fn epoch(&mut self, keys: impl Iterator<Item = u32>) -> Shards {
            let changed: BTreeSet<u32> = keys.collect();
            let taking = self.turns.next(changed.len() * ENTRY_BYTES);
            let mut share = LaneShare::new(1, SHARDS, Watermark::NONE);
            for key in &changed {
                share.changes[(key % SHARDS) as usize].push(Change {
                    key: &key.to_be_bytes(),
                    value: None,
                });
            }
            let takes = |key: &u32| taking.contain(Shard(key % SHARDS));
            for key in self.waiting.difference(&changed).filter(|key| takes(key)) {
                let added: Result<(), ()> = share.changes[(key % SHARDS) as usize].push_with(
                    crate::state::Since::Earlier,
                    |out| out.extend_from_slice(&key.to_be_bytes()),
                    |_| Ok(false),
                );
                added.expect("added");
            }
            self.waiting.extend(&changed);
            self.waiting.retain(|key| !takes(key));
            share.waiting = Waiting {
                entries: self.waiting.len() as u64,
                bytes: self.waiting.len() * ENTRY_BYTES,
                crowded: false,
            };
            self.turns.handed_over(&[share], taking);
            taking
        }
    }

    fn of(taking: Shards) -> Vec<u32> {
        (0..SHARDS).filter(|shard| taking.contain(Shard(*shard))).collect()
    }

    #[test]
    fn keys_that_change_again_and_again_are_written_once_a_round_and_each_copy_has_its_turn() {
        let mut lane = Lane::new();
        for _ in 0..60 {
            lane.epoch(0..1000);
        }
        assert_eq!(lane.turns.round, ROUND_MAX);
        let turns: Vec<u32> = (0..2 * ROUND_MAX).flat_map(|_| of(lane.epoch(0..1000))).collect();
        assert_eq!(turns.len(), 2 * SHARDS as usize, "{turns:?}");
        assert!((0..SHARDS).all(|shard| turns.contains(&shard)), "{turns:?}");
    }

    /// The turn of a lone copy is that of all copies, and was taken for one that all have at once: the round began anew with each barrier.
    #[test]
    fn a_lone_copy_has_its_turn_once_a_round() {
        let mut lane = Lane::of_copies(1);
        for _ in 0..60 {
            lane.epoch(0..1000);
        }
        let turns = (0..3 * ROUND_MAX).filter(|_| lane.epoch(0..1000).are_all());
        assert_eq!(turns.count(), 3);
    }

    /// Each of them would be encoded twice and written as often as before.
    #[test]
    fn keys_that_change_once_are_written_at_once() {
        let mut lane = Lane::new();
        let all = (0..200).filter(|n| lane.epoch(n * 1000..(n + 1) * 1000).are_all());
        assert!(all.count() > 180);
    }

    #[test]
    fn little_is_written_at_once_also_what_waited() {
        let mut lane = Lane::new();
        for _ in 0..60 {
            lane.epoch(0..1000);
        }
        while !lane.waiting.is_empty() {
            lane.epoch(0..1);
        }
        assert!(lane.epoch(0..1).are_all());
    }

    #[test]
    fn what_waits_is_bounded_however_well_it_pays() {
        let mut lane = Lane::new();
        let each = 2500 * ENTRY_BYTES;
        let most = (0..200).map(|n| {
            // Some come back each time, and others never do.
            let new = 10_000 + n * 1000;
            lane.epoch((0..1500).chain(new..new + 1000));
            lane.turns.waiting_bytes
        });
        let most = most.max().unwrap_or_default();
        assert!((WAITING_MAX / 2..WAITING_MAX / 2 * 3 + each).contains(&most), "{most}");
    }

    /// A lane may have many maps, each with a part of the memory.
    #[test]
    fn a_map_that_is_full_of_what_waits_makes_rounds_shorter() {
        let mut lane = Lane::new();
        for _ in 0..60 {
            lane.epoch(0..1000);
        }
        for shorter in [4, 2, 1] {
            lane.turns.crowded = true;
            lane.turns.next(1 << 30);
            assert_eq!(lane.turns.round, shorter);
        }
    }

    /// What is more than can be given out in a round's turn goes at once, whoever else has it.
    #[test]
    fn far_too_much_goes_to_every_copy() {
        let mut lane = Lane::new();
        for _ in 0..60 {
            lane.epoch(0..1000);
        }
        lane.turns.waiting_bytes = WAITING_MAX * 2;
        assert!(lane.epoch(0..1000).are_all());
        assert!(lane.waiting.is_empty());
    }
}
