//! Holds the documentation to the tree: links, names of tests, make targets.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Tracked files, and new ones that are not ignored, whose name ends in `ending`.
fn files(ending: &str) -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("the documentation's test asks git for the list of files");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let known = names.split('\0').filter(|name| name.ends_with(ending));
    // Deleted but still tracked: gone with the next commit.
    known
        .filter(|name| root().join(name).exists())
        .map(str::to_owned)
        .collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The text without its fenced blocks, in which brackets are no links.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect()
}

/// What is written between single backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The anchor of a heading, as the forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.starts_with('#').then(|| anchor(line.trim_start_matches('#')));
    prose(text).lines().filter_map(heading).collect()
}

/// What is wrong with a link in `file`.
fn broken(file: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let target: PathBuf = match path {
        "" => PathBuf::from(file),
        path => folder.join(path),
    };
    if !root().join(&target).exists() {
        return Some(format!("{file}: {link} leads nowhere"));
    }
    let text = || read(&target.display().to_string());
    let has_anchor = fragment.is_empty() || anchors(&text()).contains(fragment);
    (!has_anchor).then(|| format!("{file}: {link}: there is no such heading"))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let documents = files(".md");
    assert!(documents.iter().any(|name| name == "README.md"));
    let mut findings = Vec::new();
    for file in &documents {
        let text = prose(&read(file));
        findings.extend(links(&text).into_iter().filter_map(|link| broken(file, link)));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Is this the name of a test: that of an invariant or a fault, or a sentence?
fn is_test_name(name: &str) -> bool {
    let number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let of_id = ["ep_", "row_", "rows_"]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(number));
    let words = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    // A test does not begin with an underscore, Kafka's own topics do.
    of_id || (words && !name.starts_with('_') && name.matches('_').count() >= 3)
}

#[test]
fn every_test_that_the_guarantees_name_is_there() {
    let sources: Vec<String> = files(".rs").iter().map(|name| read(name)).collect();
    let guarantees = prose(&read("docs/guarantees.md"));
    let named: BTreeSet<&str> = quoted(&guarantees).into_iter().filter(|n| is_test_name(n)).collect();
    assert!(!named.is_empty());
    let gone = |name: &&&str| {
        let function = format!("fn {name}(");
        !sources.iter().any(|text| text.contains(&function))
    };
    let gone: Vec<&&str> = named.iter().filter(gone).collect();
    assert!(
        gone.is_empty(),
        "docs/guarantees.md names tests that are gone: {gone:?}"
    );
}

#[test]
fn every_switch_that_the_guarantees_name_is_asked_for() {
    let sources: Vec<String> = files(".rs").iter().map(|name| read(name)).collect();
    let guarantees = prose(&read("docs/guarantees.md"));
    let ids = quoted(&guarantees).into_iter().filter_map(|q| q.strip_prefix("break:"));
    for id in ids.filter(|id| *id != "EP-n") {
        let asked = format!("broken(\"{id}\")");
        assert!(
            sources.iter().any(|text| text.contains(&asked)),
            "no code asks for break:{id}"
        );
    }
}

#[test]
fn every_make_target_that_is_named_is_there() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.contains(":") && !line.starts_with(['\t', '#', '.']))
        .filter_map(|line| line.split(':').next())
        .collect();
    for file in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/guarantees.md"] {
        let text = read(file);
        let shell = text.lines().filter_map(|line| line.trim().strip_prefix("make "));
        let inline = quoted(&text).into_iter().filter_map(|q| q.strip_prefix("make "));
        for command in shell.chain(inline) {
            let target = command.split_whitespace().next().unwrap_or_default();
            let is_name = !target.is_empty() && target.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(
                !is_name || targets.contains(target),
                "{file} names `make {target}`, which the Makefile does not have"
            );
        }
    }
}

#[test]
fn links_quotes_and_anchors_are_read_as_they_are_meant() {
    assert_eq!(links("a [b](c.md) d [e](f#g)"), ["c.md", "f#g"]);
    assert_eq!(quoted("a `b` c `d e`"), ["b", "d e"]);
    assert_eq!(prose("a\n```\n[b](c)\n```\nd\n"), "a\nd\n");
    assert_eq!(anchor(" Exit codes"), "exit-codes");
    assert!(broken("README.md", "no/such.md").is_some());
    assert!(broken("docs/format/pointer.md", "store.md").is_none());
    assert!(broken("README.md", "ARCHITECTURE.md#no-such-heading").is_some());
    assert!(is_test_name("ep_5_a") && is_test_name("row_47_b") && !is_test_name("epoch_1"));
    assert!(is_test_name("what_is_encoded_comes_back") && !is_test_name("keyfold_bad_records_total{reason,step}"));
}
