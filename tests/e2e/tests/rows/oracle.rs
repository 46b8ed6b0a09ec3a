//! The fold of the worker's job, made anew from its input topic; for inputs that the checker does not allow.
use std::collections::HashMap;

use crate::records::{Found, read};
use crate::scene::Scene;

/// What is expected, or was found, of one output: key, value without padding, timestamp.
pub type Line = (Vec<u8>, String, i64);

/// The value that a record has for the job; none for one that it cannot decode.
pub fn amount(record: &Found) -> Option<i64> {
    record.key.as_ref()?;
    std::str::from_utf8(record.value.as_ref()?).ok()?.parse().ok()
}

/// The outputs of the good records, sorted.
pub fn fold(inputs: &[Found], good: impl Fn(&Found) -> bool) -> Vec<Line> {
    let mut totals: HashMap<Vec<u8>, (u64, i64)> = HashMap::new();
    let mut lines = Vec::new();
    for record in inputs.iter().filter(|r| good(r)) {
        let (Some(key), Some(amount)) = (record.key.clone(), amount(record)) else {
            continue;
        };
        let (seq, sum) = totals.entry(key.clone()).or_default();
        *seq += 1;
        *sum += amount;
        let Found { partition, offset, .. } = record;
        let value = format!(r#"{{"seq":{seq},"sum":{sum},"p":{partition},"o":{offset}}}"#);
        lines.push((key, value, record.timestamp));
    }
    lines.sort();
    lines
}

/// The outputs that are there, sorted, without their padding.
pub fn lines(outputs: &[Found]) -> Vec<Line> {
    let line = |record: &Found| {
        let text = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
        let value = match text.split_once(r#","pad""#) {
            Some((head, _)) => format!("{head}}}"),
            None => text,
        };
        (record.key.clone().unwrap_or_default(), value, record.timestamp)
    };
    let mut lines: Vec<Line> = outputs.iter().map(line).collect();
    lines.sort();
    lines
}

/// The output topic holds the fold of the good records, nothing more and nothing less; no transaction is open.
pub fn assert_exact(scene: &Scene<'_>, good: impl Fn(&Found) -> bool) {
    let inputs = read(scene.broker, &scene.input);
    let outputs = read(scene.broker, &scene.output);
    assert_eq!(lines(&outputs), fold(&inputs, good));
    scene.committed();
}

/// What is committed is exactly the fold of what lies before the committed offsets.
pub fn assert_prefix(scene: &Scene<'_>, good: impl Fn(&Found) -> bool) {
    let committed = scene.committed();
    let before = |r: &Found| {
        committed
            .iter()
            .any(|c| c.partition == r.partition && r.offset < c.offset)
    };
    assert_exact(scene, |r| before(r) && good(r));
}
