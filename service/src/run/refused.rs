//! What the engine's refusals mean for a pipeline and its settings: the engine knows neither.
use super::{RunError, RunnableJob};
use crate::pipeline::AGGREGATES_SCHEMA;
use keyfold::checkpoint::RestoreError;
use keyfold::checkpoint::protocol::Refusal;
use keyfold::runtime::RuntimeError;

/// How the job was started.
pub(super) struct Mode {
    group: bool,
    single_because: Option<String>,
}

impl Mode {
    pub(super) fn new(group: bool, job: &RunnableJob) -> Mode {
        Mode {
            group,
            single_because: job.single_because.clone(),
        }
    }

    /// What a job does that has begun in the other mode.
    fn way_out(&self) -> String {
        let (now, other, shards) = match self.group {
            true => ("group", "single", "one for each partition"),
            false => ("single", "group", "as many as the setting shards says"),
        };
        let begin_anew =
            "no command moves a job from one mode to the other, so another id of the job (`job:`) begins anew";
        let way = match &self.single_because {
            Some(why) if !self.group => format!("{other} mode cannot run this pipeline, {why}; {begin_anew}"),
            _ => format!("--mode {other} goes on with it; {begin_anew}"),
        };
        format!("this start is in {now} mode, with {shards}. If the job has begun in {other} mode: {way}")
    }
}

/// The error with what it means here.
pub(super) fn explained(error: RuntimeError, mode: &Mode) -> RunError {
    // At the start of single mode, or for the shards of an assignment.
    let (RuntimeError::Refused(refusal) | RuntimeError::Restore(RestoreError::Refused(refusal))) = &error else {
        return RunError::Runtime(error);
    };
    let Refusal::ObjectDiffers {
        what, found, expected, ..
    } = refusal
    else {
        return RunError::Runtime(error);
    };
    let message = if matches!(what.as_str(), "max parallelism" | "number of shards") {
        Some(format!("{error}. {}", mode.way_out()))
    } else {
        changed(what, found, expected)
    };
    match message {
        Some(message) => RunError::Refused {
            message,
            code: error.exit_code(),
        },
        None => RunError::Runtime(error),
    }
}

/// The aggregates that differ, without those that do not.
fn changed(what: &str, found: &str, expected: &str) -> Option<String> {
    let parts =
        |schema| -> Option<Vec<&str>> { Some(str::strip_prefix(schema, AGGREGATES_SCHEMA)?.split("; ").collect()) };
    let (before, now) = (parts(found)?, parts(expected)?);
    let only = |these: &[&str], others: &[&str]| {
        let only = these.iter().filter(|part| !others.contains(part));
        only.map(|part| format!("`{part}`")).collect::<Vec<_>>().join(", ")
    };
    let difference = match (only(&before, &now), only(&now, &before)) {
        (gone, new) if gone.is_empty() && new.is_empty() => "they stand in another order".to_owned(),
        (gone, new) if gone.is_empty() => format!("{new} is new"),
        (gone, new) if new.is_empty() => format!("{gone} is gone"),
        (gone, new) => format!("{gone} is now {new}"),
    };
    let state = what.trim_end_matches(" with schema");
    Some(format!(
        "the aggregates of {state} are not those that its job has kept: {difference}. Start with the former ones, or give the job another id (`job:`) to begin anew"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyfold::types::{EpochId, Incarnation};

    fn differs(what: &str, found: &str, expected: &str) -> RuntimeError {
        RuntimeError::Refused(Refusal::ObjectDiffers {
            epoch: EpochId {
                incarnation: Incarnation(1),
                n: 1,
            },
            what: what.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
            way_out: "start with the former setting",
        })
    }

    /// A pipeline whose keys have become the records' own runs in group mode under `mode: auto`; the refusal spoke of max parallelism alone.
    #[test]
    fn another_mode_is_named_with_the_way_back() {
        let told = |group, single_because: Option<&str>| {
            let single_because = single_because.map(str::to_owned);
            let error = explained(
                differs("max parallelism", "960", "240"),
                &Mode { group, single_because },
            );
            assert_eq!(error.exit_code() as i32, 13);
            error.to_string()
        };
        let group = told(true, None);
        assert!(
            group.contains("this start is in group mode") && group.contains("--mode single goes on"),
            "{group}"
        );
        let single = told(false, Some("step a gives rows another key"));
        assert!(
            single.contains("group mode cannot run this pipeline, step a gives"),
            "{single}"
        );
        assert!(!single.contains("--mode group"), "{single}");
        assert!(told(false, None).contains("--mode group goes on"));
    }

    /// Two long schemas that differ in one aggregate: only that one is told.
    #[test]
    fn of_aggregates_that_have_changed_the_difference_is_told() {
        let told = |found: &str, expected: &str| {
            let schema = |parts: &str| format!("{AGGREGATES_SCHEMA}{parts}");
            let error = differs("state totals/value with schema", &schema(found), &schema(expected));
            explained(
                error,
                &Mode {
                    group: false,
                    single_because: None,
                },
            )
            .to_string()
        };
        let (a, b, c) = (
            "n: count() as count/1",
            "s: sum(a) as sum(int64)/1",
            "s: sum(b) as sum(int64)/1",
        );
        let changed = told(&format!("{a}; {b}"), &format!("{a}; {c}"));
        assert!(
            changed.contains(&format!(
                "state totals/value are not those that its job has kept: `{b}` is now `{c}`. "
            )),
            "{changed}"
        );
        assert!(!changed.contains("count()"), "{changed}");
        assert!(told(a, &format!("{a}; {b}")).contains(&format!("`{b}` is new")));
        assert!(told(&format!("{a}; {b}"), &format!("{b}; {a}")).contains("another order"));
    }
}
