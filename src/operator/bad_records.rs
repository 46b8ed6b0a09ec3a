//! What happens to what a step refuses: it fails the job, is skipped, or becomes a dead letter.
use super::context::{LaneContext, Meta, SinkRoute};
use super::error::{BadRecord, LaneError, StepError};
use crate::types::output::{HEADER_KEY_MAX, HEADERS_MAX, encode_headers};
use crate::types::{Header, Origin, Original, OutputRef};
use std::collections::HashMap;

/// What to do with a record that a step refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRecordPolicy {
    /// Stop the job, nothing lost. The default.
    #[default]
    Fail,
    /// Drop it and count it by reason.
    Skip,
    /// Write it to this sink (index in the topology) in the same epoch, with its provenance in headers.
    DeadLetter(u16),
}

/// Policies by operator id: each holds for what that step refuses, in place of the policy of the record's source.
pub type StepPolicies = HashMap<String, BadRecordPolicy>;

impl LaneContext {
    /// Applies the policy of the step to a refusal, or else that of the record's source.
    ///
    /// # Errors
    /// Under the policy `fail`, and when the dead letter itself cannot be taken.
    pub fn refuse(&mut self, record: BadRecord, meta: &Meta<'_>) -> Result<(), LaneError> {
        let info = self.setup.sources.get(usize::from(meta.origin.source));
        let topic = info.map_or_else(String::new, |s| s.topic.clone());
        let of_source = info.map_or(BadRecordPolicy::Fail, |s| s.policy);
        let policy = self.setup.step_policies.get(&record.step).copied();
        self.setup.metrics.bad_record(record.reason.label(), &record.step);
        match policy.unwrap_or(of_source) {
            BadRecordPolicy::Skip => Ok(()),
            BadRecordPolicy::DeadLetter(sink) => {
                self.dead_letter(sink, &topic, &record, meta)?;
                self.setup.metrics.dead_letter(record.reason.label(), &record.step);
                Ok(())
            }
            BadRecordPolicy::Fail => {
                let Origin { partition, offset, .. } = meta.origin;
                Err(LaneError::Bad {
                    topic,
                    partition,
                    offset,
                    record,
                })
            }
        }
    }

    fn dead_letter(&mut self, sink: u16, topic: &str, record: &BadRecord, meta: &Meta<'_>) -> Result<(), LaneError> {
        let mut headers = meta.headers.to_vec();
        let of_record = cut_headers(&mut headers);
        let mut add = |key: &str, value: String| {
            headers.push(Header {
                key: format!("keyfold.{key}"),
                value: Some(value.into_bytes()),
            });
        };
        add("topic", topic.to_owned());
        add("partition", meta.origin.partition.to_string());
        add("offset", meta.origin.offset.to_string());
        add("step", record.step.clone());
        add("reason", record.reason.label().to_owned());
        add("error", record.message.chars().take(1024).collect());
        add("time", self.setup.clock.now_ms().to_string());
        let Original { key, value } = meta.original.unwrap_or(Original {
            key: meta.key,
            value: None,
        });
        let mut encoded = encode_headers(&headers);
        let max = match self.setup.sinks.get(usize::from(sink)) {
            Some(SinkRoute::Log { max_bytes }) => *max_bytes,
            _ => usize::MAX,
        };
        let size = |encoded: &[u8]| Original { key, value }.bytes() + encoded.len();
        // A dead letter never fails for its size: the provenance says where the original lies.
        let (key, value) = if encoded.as_ref().map_or(true, |e| size(e) > max) {
            headers.drain(..of_record);
            headers.push(Header {
                key: "keyfold.omitted".to_owned(),
                value: Some(b"too large".to_vec()),
            });
            encoded = encode_headers(&headers);
            (None, None)
        } else {
            (key, value)
        };
        let timestamp = if (0..=self.latest_allowed).contains(&meta.timestamp) {
            meta.timestamp
        } else {
            -1
        };
        let encoded = encoded.unwrap_or_default();
        let out = OutputRef {
            sink,
            timestamp,
            partition: -1,
            key,
            value,
            headers: &encoded,
        };
        match self.emit(&out, meta, &record.step) {
            Ok(()) => Ok(()),
            Err(StepError::Lane(e)) => Err(e),
            Err(StepError::Bad(record)) => Err(LaneError::Bad {
                topic: topic.to_owned(),
                partition: meta.origin.partition,
                offset: meta.origin.offset,
                record,
            }),
        }
    }
}

/// Cuts a record's headers to what can be written, with room for the provenance; returns how many are left.
fn cut_headers(headers: &mut Vec<Header>) -> usize {
    const PROVENANCE: usize = 16;
    headers.truncate(HEADERS_MAX - PROVENANCE);
    for header in headers.iter_mut() {
        let end = header.key.floor_char_boundary(HEADER_KEY_MAX);
        header.key.truncate(end);
    }
    headers.len()
}
