//! What a source tells of itself: where its partitions end, and how much it has read ahead. Nothing is decided by it.
use crate::ffi::{AskedEnds, Client, End};
use keyfold::source::{PartitionEnd, Prefetch, SourceFigures};
use keyfold::types::Position;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the leaders are asked. The fetches tell it too, but not while nothing is fetched, which is when it matters.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Older answers are no answers.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How often the client tells how much it has read ahead.
pub(crate) const STATISTICS_MS: &str = "5000";

/// The two questions that are asked again and again.
struct Look {
    end: End,
    asked: Option<AskedEnds>,
    asked_at: Option<Instant>,
    answered_at: Option<Instant>,
}

/// The figures of one open source.
pub(crate) struct Figures {
    topic: String,
    /// Partitions by lane: each lane has a queue, which its partitions share.
    lanes: Vec<Vec<i32>>,
    limit_bytes: u64,
    client: Arc<Client>,
    looks: [Look; 2],
    ends: BTreeMap<i32, PartitionEnd>,
}

impl Figures {
    /// `lane_limit_bytes` is what the client keeps in one lane's queue.
    pub(crate) fn new(topic: &str, lanes: &[Vec<Position>], lane_limit_bytes: u64, client: Arc<Client>) -> Figures {
        let partitions = |lane: &Vec<Position>| lane.iter().map(|p| p.partition).collect::<Vec<_>>();
        let lanes: Vec<Vec<i32>> = lanes.iter().filter(|l| !l.is_empty()).map(partitions).collect();
        let look = |end| Look {
            end,
            asked: None,
            asked_at: None,
            answered_at: None,
        };
        Figures {
            topic: topic.to_owned(),
            limit_bytes: lane_limit_bytes * lanes.len() as u64,
            lanes,
            client,
            looks: [look(End::Stable), look(End::Log)],
            ends: BTreeMap::new(),
        }
    }

    /// Takes the answers that have come, asks what is due, tells what is known.
    pub(crate) fn now(&mut self) -> SourceFigures {
        let now = Instant::now();
        let partitions: Vec<i32> = self.lanes.iter().flatten().copied().collect();
        for look in &mut self.looks {
            if let Some(answer) = look.asked.as_ref().and_then(AskedEnds::answer) {
                look.asked = None;
                if !answer.is_empty() {
                    look.answered_at = Some(now);
                }
                take(&mut self.ends, look.end, &answer);
            }
            if look.answered_at.is_some_and(|at| now.duration_since(at) > FORGET_AFTER) {
                look.answered_at = None;
                forget(&mut self.ends, look.end);
            }
            let due = look.asked_at.is_none_or(|at| now.duration_since(at) >= ASK_EVERY);
            if look.asked.is_none() && due && !partitions.is_empty() {
                look.asked_at = Some(now);
                let asked = self.client.ask_ends(&self.topic, &partitions, look.end, ANSWER_WITHIN);
                // What cannot be asked is not known.
                look.asked = asked.ok();
            }
        }
        SourceFigures {
            ends: self.ends.values().copied().collect(),
            prefetch: Some(Prefetch {
                limit_bytes: self.limit_bytes,
                used_bytes: self
                    .client
                    .statistics(|text| prefetched(text, &self.topic, &self.lanes)),
            }),
        }
    }
}

fn take(ends: &mut BTreeMap<i32, PartitionEnd>, which: End, answer: &[(i32, i64)]) {
    for (partition, offset) in answer {
        let end = ends.entry(*partition).or_insert(PartitionEnd {
            partition: *partition,
            stable: None,
            end: None,
        });
        match which {
            End::Stable => end.stable = Some(*offset),
            End::Log => end.end = Some(*offset),
        }
    }
}

fn forget(ends: &mut BTreeMap<i32, PartitionEnd>, which: End) {
    for end in ends.values_mut() {
        match which {
            End::Stable => end.stable = None,
            End::Log => end.end = None,
        }
    }
}

/// What we read of the client's statistics.
#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: HashMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct TopicStatistics {
    #[serde(default)]
    partitions: HashMap<String, PartitionStatistics>,
}

#[derive(Deserialize)]
struct PartitionStatistics {
    #[serde(default)]
    fetchq_size: u64,
}

/// Bytes that lie in the lanes' queues. A partition whose queue is forwarded tells of the queue that it is forwarded to (rd_kafka_q_size),
/// so one partition tells of its lane.
fn prefetched(text: &str, topic: &str, lanes: &[Vec<i32>]) -> Option<u64> {
    let statistics: Statistics = serde_json::from_str(text).ok()?;
    let partitions = &statistics.topics.get(topic)?.partitions;
    let of_lane = |lane: &Vec<i32>| {
        let sizes = lane.iter().filter_map(|p| partitions.get(&p.to_string()));
        sizes.map(|p| p.fetchq_size).max()
    };
    lanes.iter().map(of_lane).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lanes_queue_is_counted_once() {
        let text = r#"{"name":"x","topics":{"in":{"partitions":{
            "0":{"fetchq_size":70,"fetchq_cnt":1},"1":{"fetchq_size":70},"2":{"fetchq_size":5},"-1":{"fetchq_size":9}}}}}"#;
        assert_eq!(prefetched(text, "in", &[vec![0, 1], vec![2]]), Some(75));
        assert_eq!(prefetched(text, "in", &[vec![0, 1], vec![3]]), None);
        assert_eq!(prefetched(text, "other", &[vec![0]]), None);
        assert_eq!(prefetched("{", "in", &[vec![0]]), None);
    }

    #[test]
    fn ends_are_put_together_and_forgotten_one_by_one() {
        let mut ends = BTreeMap::new();
        take(&mut ends, End::Stable, &[(0, 5), (1, 7)]);
        take(&mut ends, End::Log, &[(0, 9)]);
        let end = |partition, stable, end| PartitionEnd { partition, stable, end };
        let all: Vec<PartitionEnd> = ends.values().copied().collect();
        assert_eq!(all, [end(0, Some(5), Some(9)), end(1, Some(7), None)]);
        forget(&mut ends, End::Stable);
        assert_eq!(ends[&0], end(0, None, Some(9)));
    }
}
