//! Whether the topic is still the one that a running source was opened on. Decides without I/O: the source asks, and tells what it heard.
use crate::ffi::Described;
use keyfold::types::TopicInfo;
use std::time::{Duration, Instant};

/// How often the cluster is asked while all is well. What is read from another topic of the same name before that is noticed is taken for
/// the former topic's, so not more rarely; each question costs the controller a look into its metadata, so not all the time.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long after an answer that tells of a change the next question is asked. A broker that restarts may not know for a moment what its
/// cluster knows: shorter would ask it three times within that moment, longer would go on reading from the wrong topic.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// So many answers in a row tell of the same change before it is believed.
const ANSWERS: u32 = 3;
/// "There is no such topic" is what a broker says that has learned nothing yet, and nothing can be read wrongly meanwhile: it is believed
/// only when it was answered for this long.
const UNKNOWN_FOR: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Anew([u8; 16]),
    Partitions(u32),
    Deleted,
}

struct Suspicion {
    change: Change,
    since: Instant,
    answers: u32,
}

/// Collects answers about one topic.
pub(crate) struct TopicWatch {
    known: TopicInfo,
    asked: Instant,
    suspicion: Option<Suspicion>,
    /// The client has reported a sign of a change.
    doubted: bool,
}

impl TopicWatch {
    /// `known` is the topic as the job was started on it, `now` when that was asked.
    pub(crate) fn new(known: TopicInfo, now: Instant) -> TopicWatch {
        TopicWatch {
            known,
            asked: now,
            suspicion: None,
            doubted: false,
        }
    }

    pub(crate) fn topic(&self) -> &str {
        &self.known.topic
    }

    /// The client was told that the topic, or a partition, is unknown: the next question comes early.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Whether the cluster is to be asked now; counts as asked then.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let hurry = self.doubted || self.suspicion.is_some();
        let wait = if hurry { ASK_AGAIN } else { ASK_EVERY };
        let due = now.saturating_duration_since(self.asked) >= wait;
        if due {
            self.asked = now;
            self.doubted = false;
        }
        due
    }

    /// Takes an answer; says what has changed once it is certain. An answer that is not complete says nothing, and what was suspected
    /// has to be answered anew: a cluster that is not itself is not believed.
    pub(crate) fn heard(&mut self, answer: &Described, now: Instant) -> Option<String> {
        let Some(change) = self.change(answer) else {
            self.suspicion = None;
            return None;
        };
        let same = self.suspicion.take().filter(|s| s.change == change);
        let mut suspicion = same.unwrap_or(Suspicion {
            change,
            since: now,
            answers: 0,
        });
        suspicion.answers += 1;
        let lasted = now.saturating_duration_since(suspicion.since);
        let certain = suspicion.answers >= ANSWERS && (change != Change::Deleted || lasted >= UNKNOWN_FOR);
        if suspicion.answers == 1 {
            tracing::warn!(
                topic = self.known.topic,
                ?change,
                "the topic seems to have changed, asking again"
            );
        }
        self.suspicion = Some(suspicion);
        certain.then(|| self.in_words(change))
    }

    fn change(&self, answer: &Described) -> Option<Change> {
        let unknown = [0; 16];
        match *answer {
            Described::Unclear | Described::Topic { led: false, .. } => None,
            Described::Unknown => Some(Change::Deleted),
            Described::Topic { id, .. } if id != self.known.id && id != unknown && self.known.id != unknown => {
                Some(Change::Anew(id))
            }
            Described::Topic { partitions, .. } => {
                (partitions != self.known.partitions).then_some(Change::Partitions(partitions))
            }
        }
    }

    fn in_words(&self, change: Change) -> String {
        let TopicInfo { topic, id, partitions } = &self.known;
        let hex = |id: &[u8; 16]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
        match change {
            Change::Anew(now) => format!(
                "kafka topic {topic} was made anew while the job ran: its id was {}, now it is {}, and its offsets are not those that the \
                 state was made from; start a new job id on this one",
                hex(id),
                hex(&now)
            ),
            Change::Partitions(now) => format!(
                "kafka topic {topic} has {now} partitions, the job was started with {partitions}: keys may have moved to partitions that \
                 the job does not read; start a new job id on the topic as it is"
            ),
            Change::Deleted => format!(
                "kafka topic {topic} with id {} was deleted while the job ran: the cluster does not know it; create it again only for a \
                 new job id",
                hex(id)
            ),
        }
    }
}

#[cfg(test)]
mod tests;
