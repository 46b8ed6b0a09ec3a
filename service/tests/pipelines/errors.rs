//! Wrong pipelines, and what each is told: `errors.txt` beside this file.
//!
//! The table begins with a pipeline that is good. A case begins with `=== ` and its title; then come edits of that pipeline, `- ` a line of it and
//! `+ ` what stands there instead, or `| ` a whole file; then, behind `---`, what it gets. `WRITE_TABLE=write` writes what it gets now.
use crate::support::{environment, root};
use keyfold_service::pipeline;
use keyfold_service::yaml::Source;
use std::fmt::Write;
use std::path::PathBuf;

fn table() -> PathBuf {
    root().join("service/tests/pipelines/errors.txt")
}

struct Case {
    title: String,
    edits: Vec<String>,
    expected: String,
}

/// The good pipeline and the cases.
fn read(text: &str) -> (String, Vec<Case>) {
    let mut parts = text.split("\n=== ");
    let good = parts.next().unwrap_or_default().to_owned() + "\n";
    let case = |part: &str| {
        let (given, expected) = part.split_once("\n---\n").unwrap_or((part.trim_end(), ""));
        let mut lines = given.lines();
        Case {
            title: lines.next().unwrap_or_default().to_owned(),
            edits: lines.map(str::to_owned).collect(),
            expected: expected.trim_end().to_owned(),
        }
    };
    (good, parts.map(case).collect())
}

impl Case {
    /// The wrong file.
    fn file(&self, good: &str) -> String {
        let whole: Vec<&str> = self.edits.iter().filter_map(|line| line.strip_prefix('|')).collect();
        if !whole.is_empty() {
            return whole
                .iter()
                .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n")
                .collect();
        }
        let mut lines: Vec<Vec<String>> = good.lines().map(|line| vec![line.to_owned()]).collect();
        let mut at = None;
        for edit in &self.edits {
            let text = edit.get(2..).unwrap_or_default();
            match edit.get(..1) {
                Some("-") => {
                    let same = |line: &Vec<String>| line.len() == 1 && line[0].trim() == text.trim();
                    let found: Vec<usize> = (0..lines.len()).filter(|i| same(&lines[*i])).collect();
                    assert_eq!(
                        found.len(),
                        1,
                        "{}: {text:?} is in the good pipeline {} times",
                        self.title,
                        found.len()
                    );
                    lines[found[0]].clear();
                    at = Some(found[0]);
                }
                Some("+") => {
                    lines[at.unwrap_or_else(|| panic!("{}: nothing was taken out", self.title))].push(text.to_owned())
                }
                _ => panic!("{}: {edit:?} is no edit", self.title),
            }
        }
        lines.concat().join("\n") + "\n"
    }
}

fn told(text: &str) -> String {
    match pipeline::of_source(
        &Source::new("p.yaml", text),
        &root().join("config/pipelines"),
        &environment(),
    ) {
        Ok(_) => String::new(),
        Err(errors) => errors.to_string().replace(&root().display().to_string(), "ROOT"),
    }
}

#[test]
fn every_wrong_pipeline_is_told_its_place_and_the_way_out() {
    let text = std::fs::read_to_string(table()).expect("the table");
    let (good, cases) = read(&text);
    assert_eq!(told(&good), "", "the good pipeline");
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let mut written = good.trim_end().to_owned() + "\n";
    let mut findings = Vec::new();
    for case in &cases {
        let told = told(&case.file(&good));
        for error in told.split("\n\n") {
            if !(error.starts_with("p.yaml:") && error.contains("\nhelp: ")) {
                findings.push(format!("=== {}\nwithout a place or a way out: {error}", case.title));
            }
        }
        if told != case.expected {
            findings.push(format!("=== {}\n{told}\n--- instead of\n{}", case.title, case.expected));
        }
        let _ = write!(
            written,
            "\n=== {}\n{}\n---\n{told}\n",
            case.title,
            case.edits.join("\n")
        );
    }
    if std::env::var("WRITE_TABLE").as_deref() == Ok("write") {
        std::fs::write(table(), written).expect("written");
        return;
    }
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
    /// A line that is lost, doubled, moved or cut short gives a pipeline or errors with a place.
    #[test]
    fn no_edit_brings_it_down(line in 0usize..40, other in 0usize..40, cut in 0usize..30, kind in 0u8..4) {
        let text = std::fs::read_to_string(table()).expect("the table");
        let (good, _) = read(&text);
        let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
        let (line, other) = (line % lines.len(), other % lines.len());
        match kind {
            0 => { lines.remove(line); }
            1 => lines.insert(other, lines[line].clone()),
            2 => lines.swap(line, other),
            _ => { let at = lines[line].len().min(cut); lines[line].truncate(at); }
        }
        let told = told(&(lines.join("\n") + "\n"));
        for error in told.split("\n\n").filter(|error| !error.is_empty()) {
            assert!(error.starts_with("p.yaml:"), "{error}");
        }
    }
}
