//! What people read.
use std::time::Duration;

use crate::cases::{Case, Pauses};

/// `1.23`: seconds.
fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn longest(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

/// `median (min..max)`.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    match (times.first(), times.get(times.len() / 2), times.last()) {
        (Some(min), Some(median), Some(max)) => {
            format!("{} ({}..{})", seconds(*median), seconds(*min), seconds(*max))
        }
        _ => "-".to_owned(),
    }
}

/// One run.
pub fn line(case: Case, number: usize, pauses: &Pauses) -> String {
    let list = |times: &[Duration]| times.iter().map(|t| seconds(*t)).collect::<Vec<_>>().join(" ");
    format!(
        "{}, run {number}: moved {}; stayed {}; assigned after {}, restored after {}",
        case.title(),
        list(&pauses.moved),
        list(&pauses.stayed),
        seconds(pauses.assigned),
        seconds(pauses.restored)
    )
}

/// All of them: the longest pause of a run, as the median of the runs, and between which.
pub fn table(cases: &[Case], found: &[(Case, Pauses)]) -> String {
    let mut lines = vec![
        "| case | pause, moved (s) | pause, stayed (s) | assigned after (s) | restored after (s) |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for case in cases {
        let of = |what: &dyn Fn(&Pauses) -> Duration| {
            spread(found.iter().filter(|(c, _)| c == case).map(|(_, p)| what(p)).collect())
        };
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            case.title(),
            of(&|p| longest(&p.moved)),
            of(&|p| longest(&p.stayed)),
            of(&|p| p.assigned),
            of(&|p| p.restored)
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_the_median_and_both_ends_of_the_longest_pause_of_each_run() {
        let run = |ms: u64| Pauses {
            moved: vec![Duration::from_millis(ms), Duration::from_millis(ms / 2)],
            stayed: Vec::new(),
            assigned: Duration::from_millis(10),
            restored: Duration::from_millis(20),
        };
        let found: Vec<_> = [9000, 1000, 4000].map(|ms| (Case::Left, run(ms))).to_vec();
        let table = table(&[Case::Left], &found);
        assert!(table.contains("| 4.00 (1.00..9.00) | 0.00 (0.00..0.00) |"), "{table}");
    }
}
