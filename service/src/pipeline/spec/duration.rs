//! Times as they are written: `500ms`, `10m`.
use crate::pipeline::report::Report;
use crate::yaml::Node;
use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Longer than any bound that is meant: 100 years.
const MS_MAX: u64 = 36_500 * 86_400_000;

/// A time above zero.
pub fn read(node: &Node, report: &mut Report<'_>) -> Option<Duration> {
    let parsed = node.scalar().and_then(parse);
    if parsed.is_none() {
        report.at(
            node,
            format!("`{}` is no time", node.text),
            "write a whole number and a unit: 500ms, 10s, 10m, 1h or 7d; at least 1ms",
        );
    }
    parsed
}

fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    let ms = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    (1..=MS_MAX).contains(&ms).then(|| Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_are_above_zero() {
        let ms = |text: &str| parse(text).map(|d| d.as_millis());
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("10 m"), Some(600_000));
        assert_eq!(ms("7d"), Some(604_800_000));
        for wrong in [
            "",
            "10",
            "m",
            "-1s",
            "1.5h",
            "0s",
            "10 minutes",
            "99999999999999999999s",
            "1000000d",
        ] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }
}
