//! What has become of each record of one pipeline. Says what is wrong with it, and goes on: one fault shows the others.
use std::collections::BTreeMap;

use serde::Deserialize;

use super::PARTITIONS;
use super::record::{Fate, Format, Made, Place, Source, VALUE_BYTES_MAX, make};
use super::topic;

/// Faults that are told; there may be millions.
const FAULTS_TOLD: usize = 20;
/// A letter may leave the original out when that, with what the letter adds, is beyond the topic's limit: it adds less than this.
const LETTER_ADDS: usize = 4096;

/// A row of one of the sinks. The other columns are of no interest.
#[derive(Debug, Deserialize)]
struct Row {
    id: Option<i64>,
    source: String,
    partition: u32,
    offset: u64,
}

/// A dead letter, as it is read.
#[derive(Debug, Default)]
pub struct Letter {
    /// The original's.
    pub key: Option<Vec<u8>>,
    /// The original's.
    pub value: Option<Vec<u8>>,
    /// Its headers that are text.
    pub headers: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    None,
    Output,
    Letter,
}

/// The account of one pipeline.
#[derive(Debug)]
pub struct Ledger {
    format: Format,
    seed: u64,
    /// By source and partition.
    traces: Vec<Vec<Trace>>,
    /// Letters by the labels that the metrics have for them.
    letters: BTreeMap<String, u64>,
    outputs: u64,
    faults: u64,
    told: Vec<String>,
}

impl Ledger {
    /// `numbers` records in each partition of each topic, and nothing known of them.
    #[must_use]
    pub fn new(format: Format, seed: u64, numbers: u64) -> Ledger {
        let partition = || vec![Trace::None; numbers as usize];
        Ledger {
            format,
            seed,
            traces: (0..Source::ALL.len() * PARTITIONS as usize)
                .map(|_| partition())
                .collect(),
            letters: BTreeMap::new(),
            outputs: 0,
            faults: 0,
            told: Vec::new(),
        }
    }

    /// Notes a fault.
    pub fn fault(&mut self, what: String) {
        self.faults += 1;
        if self.told.len() < FAULTS_TOLD {
            self.told.push(what);
        }
    }

    /// Takes a row of a sink.
    pub fn output(&mut self, value: &[u8]) {
        self.outputs += 1;
        let row: Row = match serde_json::from_slice(value) {
            Ok(row) => row,
            Err(error) => return self.fault(format!("an output is not what was asked for: {error}")),
        };
        let Some(made) = self.take(&row.source, row.partition, row.offset, Trace::Output) else {
            return;
        };
        let at = format!("{}-{} offset {}", row.source, row.partition, row.offset);
        match made.fate {
            Fate::Output | Fate::Summed if row.id != i64::try_from(row.offset).ok() => {
                self.fault(format!("{at}: the output has the id {:?}", row.id));
            }
            Fate::Divided | Fate::Refused => {
                self.fault(format!("{at}: an output, of a record that is {:?}", made.fate))
            }
            Fate::Output | Fate::Summed | Fate::Any => {}
        }
    }

    /// Takes a dead letter.
    pub fn letter(&mut self, letter: &Letter) {
        let header = |name: &str| {
            letter
                .headers
                .get(&format!("keyfold.{name}"))
                .map_or("", String::as_str)
        };
        let (step, reason) = (header("step"), header("reason"));
        *self.letters.entry(labels(reason, step)).or_default() += 1;
        let at = format!(
            "{}-{} offset {}",
            header("topic"),
            header("partition"),
            header("offset")
        );
        let place = (header("partition").parse::<u32>(), header("offset").parse::<u64>());
        let (Ok(partition), Ok(offset)) = place else {
            return self.fault(format!(
                "a letter does not say where its record lies: {:?}",
                letter.headers
            ));
        };
        if header("error").is_empty() || header("time").parse::<i64>().is_err() || reason.is_empty() {
            self.fault(format!("{at}: a letter lacks headers: {:?}", letter.headers));
        }
        let Some(made) = self.take(header("topic"), partition, offset, Trace::Letter) else {
            return;
        };
        let of_source = header("topic") == topic(self.format, Source::Letters.id());
        let (from_source, from_totals) = (step == Source::Letters.id(), matches!(step, "totals" | "totals--key"));
        let right = match made.fate {
            Fate::Refused => of_source && from_source,
            Fate::Summed => from_totals,
            // A step whose policy is its own, or what holds for all that its source sends.
            Fate::Any => from_totals || (of_source && step != "shares"),
            Fate::Output | Fate::Divided => false,
        };
        if !right {
            self.fault(format!(
                "{at}: a letter of the step {step}, of a record that is {:?}: {}",
                made.fate,
                header("error")
            ));
        }
        if !is_original(letter, &made, header("omitted")) {
            self.fault(format!(
                "{at}: a letter without the original's bytes: {:?}",
                letter.headers
            ));
        }
    }

    fn take(&mut self, of: &str, partition: u32, offset: u64, trace: Trace) -> Option<Made> {
        let found = Source::ALL.into_iter().find(|s| topic(self.format, s.id()) == of);
        let slot = found.filter(|_| partition < PARTITIONS).and_then(|source| {
            let traces = &mut self.traces[index(source, partition)];
            let slot = traces.get_mut(usize::try_from(offset).ok()?)?;
            Some((source, std::mem::replace(slot, trace)))
        });
        let Some((source, before)) = slot else {
            self.fault(format!("{of}-{partition} offset {offset}: there is no such record"));
            return None;
        };
        if before != Trace::None {
            self.fault(format!(
                "{of}-{partition} offset {offset}: {trace:?}, and it had {before:?} before"
            ));
        }
        let place = Place {
            format: self.format,
            source,
            partition,
        };
        Some(make(self.seed, place, offset))
    }

    /// Goes through what has left no trace: it must have been skipped, and may have been. Returns how many there are.
    pub fn untraced(&mut self) -> u64 {
        let mut untraced = 0;
        for source in Source::ALL {
            for partition in 0..PARTITIONS {
                let place = Place {
                    format: self.format,
                    source,
                    partition,
                };
                let traces = std::mem::take(&mut self.traces[index(source, partition)]);
                for (offset, _) in traces.iter().enumerate().filter(|(_, trace)| **trace == Trace::None) {
                    untraced += 1;
                    let fate = make(self.seed, place, offset as u64).fate;
                    // Letters become nothing else, but for what the step `shares` skips.
                    let may = match fate {
                        Fate::Divided | Fate::Any => true,
                        Fate::Refused => source == Source::Skips,
                        Fate::Output | Fate::Summed => false,
                    };
                    if !may {
                        self.fault(format!("{place:?} offset {offset}: lost, a record that is {fate:?}"));
                    }
                }
            }
        }
        untraced
    }

    /// Rows.
    #[must_use]
    pub fn outputs(&self) -> u64 {
        self.outputs
    }

    /// Letters by the labels that metrics have for them.
    #[must_use]
    pub fn letters(&self) -> &BTreeMap<String, u64> {
        &self.letters
    }

    /// How many faults there are, and the first of them.
    #[must_use]
    pub fn faults(&self) -> (u64, &[String]) {
        (self.faults, &self.told)
    }
}

fn index(source: Source, partition: u32) -> usize {
    source as usize * PARTITIONS as usize + partition as usize
}

/// As `/metrics` writes them.
fn labels(reason: &str, step: &str) -> String {
    format!("reason=\"{reason}\",step=\"{step}\"")
}

fn is_original(letter: &Letter, made: &Made, omitted: &str) -> bool {
    let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    match omitted {
        "" => (&letter.key, &letter.value) == (&made.key, &made.value),
        _ => letter.value.is_none() && size(&made.key) + size(&made.value) > VALUE_BYTES_MAX - LETTER_ADDS,
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
