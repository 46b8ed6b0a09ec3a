//! The verdict: input and output records in, offenders out. Pure; records of one partition come in order of offset.
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// How many offenders are kept with their details.
pub const OFFENDERS_MAX: usize = 20;

/// The key of a slot that holds no record: an offset taken by a marker, an aborted record or compaction.
const GAP: u32 = u32::MAX;

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// An input record without an output.
    Lost,
    /// An output of an input record that has one already.
    Duplicated,
    /// An output that is not the fold of its key's inputs up to the offset it carries.
    Stale,
    /// An input record that the rules of the test do not allow: nothing can be judged by it.
    Input,
}

/// A record that breaks the promise, and how.
#[derive(Debug, Clone, Serialize)]
pub struct Offender {
    /// The kind of offence.
    pub verdict: Verdict,
    /// What was found where, and what was expected.
    pub detail: String,
}

impl fmt::Display for Offender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.verdict, self.detail)
    }
}

/// What an output record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Claim {
    /// Records of the key so far.
    pub seq: u64,
    /// The sum of their values.
    pub sum: i64,
    /// The source partition.
    pub p: i32,
    /// The source offset.
    pub o: i64,
}

/// The numbers so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Input records.
    pub records_in: u64,
    /// Output records.
    pub records_out: u64,
    /// Input records without output; known at the end only.
    pub lost: u64,
    /// Outputs beyond the first.
    pub duplicated: u64,
    /// Outputs that are no fold of their inputs.
    pub stale: u64,
    /// Input records against the rules.
    pub input_faults: u64,
}

impl Counts {
    /// True when nothing is wrong so far.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.stale == 0 && self.input_faults == 0
    }
}

/// The final judgement.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The numbers.
    #[serde(flatten)]
    pub counts: Counts,
    /// The first offenders.
    pub offenders: Vec<Offender>,
}

impl Report {
    /// True when nothing was lost, duplicated or stale.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.counts.ok()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            records_in,
            records_out,
            lost,
            duplicated,
            stale,
            ..
        } = self.counts;
        let verdict = if self.ok() { "OK" } else { "FAILED" };
        write!(
            f,
            "in={records_in} out={records_out} lost={lost} duplicated={duplicated} stale={stale} verdict={verdict}"
        )
    }
}

/// What the fold is after one input record; 16 bytes each, for millions of them.
#[derive(Debug, Clone, Copy)]
struct Slot {
    sum: i64,
    key: u32,
    seq: u32,
}

/// An output that waits for its input record.
#[derive(Debug)]
struct Pending {
    place: (i32, i64),
    key: u32,
    claim: Claim,
    disorder: Option<String>,
}

#[derive(Debug, Default)]
struct Partition {
    first: i64,
    slots: Vec<Slot>,
    answered: Vec<bool>,
    pending: BTreeMap<i64, Vec<Pending>>,
}

impl Partition {
    /// The offset after the last input record seen.
    fn next(&self) -> i64 {
        self.first + self.slots.len() as i64
    }

    fn index(&self, offset: i64) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(self.first)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }
}

#[derive(Debug)]
struct Key {
    name: Box<[u8]>,
    /// The input partition, once known.
    partition: Option<i32>,
    seq: u32,
    sum: i64,
    /// Where the outputs of this key are, and the largest source offset among them.
    outputs: Option<(i32, i64)>,
}

/// Folds the input itself and compares.
#[derive(Debug, Default)]
pub struct Judge {
    partitions: HashMap<i32, Partition>,
    ids: HashMap<Box<[u8]>, u32>,
    keys: Vec<Key>,
    counts: Counts,
    offenders: Vec<Offender>,
}

impl Judge {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Judge {
        Judge::default()
    }

    /// The numbers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The first offender, when there is one.
    #[must_use]
    pub fn first_offender(&self) -> Option<&Offender> {
        self.offenders.first()
    }

    /// Takes an input record. The records of a partition come in order.
    pub fn input(&mut self, partition: i32, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        let fault = |what: &str| format!("input {partition}@{offset}: {what}");
        if self
            .partitions
            .get(&partition)
            .is_some_and(|p| !p.slots.is_empty() && offset < p.next())
        {
            return self.offend(Verdict::Input, fault("read a second time"));
        }
        self.counts.records_in += 1;
        let parsed = value
            .and_then(|v| std::str::from_utf8(v).ok())
            .and_then(|v| v.parse::<i64>().ok());
        let (Some(key), Some(value)) = (key, parsed) else {
            return self.offend(Verdict::Input, fault("no key, or its value is no integer"));
        };
        let id = self.intern(key);
        let state = &mut self.keys[id as usize];
        if *state.partition.get_or_insert(partition) != partition {
            return self.offend(
                Verdict::Input,
                fault(&format!("key {} is in another partition too", text(key))),
            );
        }
        state.seq += 1;
        state.sum = state.sum.wrapping_add(value);
        let slot = Slot {
            sum: state.sum,
            key: id,
            seq: state.seq,
        };
        for waiting in self.append(partition, offset, slot) {
            self.judge(waiting);
        }
    }

    /// Takes an output record. The records of a partition come in order; `place` is where it lies.
    pub fn output(&mut self, place: (i32, i64), key: Option<&[u8]>, value: Option<&[u8]>) {
        self.counts.records_out += 1;
        let claim = value.and_then(|v| serde_json::from_slice::<Claim>(v).ok());
        let (Some(key), Some(claim)) = (key, claim) else {
            let value = value.map(text);
            return self.offend(
                Verdict::Stale,
                format!("output {}@{}: not readable: {value:?}", place.0, place.1),
            );
        };
        let key = self.intern(key);
        let disorder = self.note_order(key, place.0, &claim);
        let pending = Pending {
            place,
            key,
            claim,
            disorder,
        };
        let partition = self.partitions.entry(claim.p).or_default();
        if !partition.slots.is_empty() && claim.o < partition.next() {
            self.judge(pending);
        } else {
            partition.pending.entry(claim.o).or_default().push(pending);
        }
    }

    /// Both topics are read to their end: what is open now stays open.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let open: Vec<Pending> = self
            .partitions
            .values_mut()
            .flat_map(|p| std::mem::take(&mut p.pending))
            .flat_map(|(_, w)| w)
            .collect();
        for pending in open {
            self.judge(pending);
        }
        let mut partitions: Vec<(i32, Partition)> = std::mem::take(&mut self.partitions).into_iter().collect();
        partitions.sort_by_key(|(number, _)| *number);
        for (number, partition) in partitions {
            self.count_lost(number, &partition);
        }
        Report {
            counts: self.counts,
            offenders: self.offenders,
        }
    }

    fn count_lost(&mut self, number: i32, partition: &Partition) {
        for (index, slot) in partition.slots.iter().enumerate() {
            if slot.key == GAP || partition.answered[index] {
                continue;
            }
            let offset = partition.first + index as i64;
            let key = text(&self.keys[slot.key as usize].name);
            let expected = format!("seq {} sum {}", slot.seq, slot.sum);
            self.offend(
                Verdict::Lost,
                format!("input {number}@{offset} key {key}: no output ({expected} expected)"),
            );
        }
    }

    fn intern(&mut self, key: &[u8]) -> u32 {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        let id = self.keys.len() as u32;
        self.ids.insert(key.into(), id);
        self.keys.push(Key {
            name: key.into(),
            partition: None,
            seq: 0,
            sum: 0,
            outputs: None,
        });
        id
    }

    /// Appends a slot, with gaps before it, and takes out the outputs that waited for it.
    fn append(&mut self, partition: i32, offset: i64, slot: Slot) -> Vec<Pending> {
        let partition = self.partitions.entry(partition).or_default();
        if partition.slots.is_empty() {
            partition.first = offset;
        }
        while partition.next() < offset {
            partition.slots.push(Slot {
                sum: 0,
                key: GAP,
                seq: 0,
            });
            partition.answered.push(false);
        }
        partition.slots.push(slot);
        partition.answered.push(false);
        if partition.pending.is_empty() {
            return Vec::new();
        }
        let later = partition.pending.split_off(&(offset + 1));
        let ready = std::mem::replace(&mut partition.pending, later);
        ready.into_values().flatten().collect()
    }

    /// The outputs of a key lie in one partition and carry growing source offsets.
    fn note_order(&mut self, key: u32, partition: i32, claim: &Claim) -> Option<String> {
        let state = &mut self.keys[key as usize];
        let Some((home, last)) = state.outputs else {
            state.outputs = Some((partition, claim.o));
            return None;
        };
        state.outputs = Some((home, last.max(claim.o)));
        if home != partition {
            return Some(format!("earlier outputs of the key are in partition {home}"));
        }
        (claim.o < last).then(|| format!("after the output for source offset {last}"))
    }

    fn judge(&mut self, output: Pending) {
        let Pending {
            place,
            key,
            claim,
            disorder,
        } = output;
        let what = |judge: &Judge| {
            let key = text(&judge.keys[key as usize].name);
            let Claim { seq, sum, p, o } = claim;
            format!(
                "output {}@{} key {key} seq {seq} sum {sum} from {p}@{o}",
                place.0, place.1
            )
        };
        let partition = self.partitions.entry(claim.p).or_default();
        let Some(index) = partition.index(claim.o).filter(|i| partition.slots[*i].key != GAP) else {
            return self.offend(Verdict::Stale, format!("{}: there is no such input record", what(self)));
        };
        let slot = partition.slots[index];
        if std::mem::replace(&mut partition.answered[index], true) {
            return self.offend(
                Verdict::Duplicated,
                format!("{}: that record has an output already", what(self)),
            );
        }
        if slot.key != key {
            let other = text(&self.keys[slot.key as usize].name);
            return self.offend(Verdict::Stale, format!("{}: that record's key is {other}", what(self)));
        }
        if u64::from(slot.seq) != claim.seq || slot.sum != claim.sum {
            let expected = format!("seq {} sum {}", slot.seq, slot.sum);
            return self.offend(Verdict::Stale, format!("{}: {expected} expected", what(self)));
        }
        if let Some(disorder) = disorder {
            self.offend(Verdict::Stale, format!("{}: out of order: {disorder}", what(self)));
        }
    }

    fn offend(&mut self, verdict: Verdict, detail: String) {
        match verdict {
            Verdict::Lost => self.counts.lost += 1,
            Verdict::Duplicated => self.counts.duplicated += 1,
            Verdict::Stale => self.counts.stale += 1,
            Verdict::Input => self.counts.input_faults += 1,
        }
        if self.offenders.len() < OFFENDERS_MAX {
            self.offenders.push(Offender { verdict, detail });
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(120).collect()
}
