//! Every block of YAML in the documentation is a pipeline, or steps of one.
use crate::support::{environment, load, root};
use keyfold::operator::BadReason;
use keyfold_service::yaml::{Kind, Source};

/// What steps of an example are put into.
const AROUND: &str = "\
job: example
sources:
  orders:
    connector: kafka
    topic: orders
    value:
      format: json
      schema: { customer: string, amount: decimal(18,2), at: timestamp, tags: [string], address: { city: string, zip: string } }
steps:
";

/// The blocks of a language, with the line of each.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        match (&mut open, text.trim_start().strip_prefix("```")) {
            (None, Some(name)) => open = Some((line + 1, name == language, String::new())),
            (Some(_), Some(_)) => {
                if let Some((line, true, block)) = open.take() {
                    found.push((line, block));
                }
            }
            (Some((_, _, block)), None) => {
                block.push_str(text);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// A pipeline around steps; their last one is written, or each of its branches.
fn around(steps: &str) -> String {
    let tree = Source::new("steps.yaml", steps).parse().expect("YAML");
    let Kind::List(all) = &tree.kind else {
        panic!("a list of steps")
    };
    let last = all.last().expect("a step");
    let sink =
        |n: usize, from: &str| format!("  out{n}: {{ connector: kafka, topic: out{n}, value: json, from: {from} }}\n");
    let id = &last.get("id").expect("an id").text;
    let sinks: String = match last.get("branch").map(|branch| &branch.kind) {
        Some(Kind::Map(arms)) => arms
            .iter()
            .enumerate()
            .map(|(n, (arm, _))| sink(n, &format!("{id}.{}", arm.text)))
            .collect(),
        _ => sink(0, id),
    };
    let indented: String = steps.lines().map(|line| format!("  {line}\n")).collect();
    format!("{AROUND}{indented}sinks:\n{sinks}")
}

#[test]
fn every_pipeline_in_the_documentation_is_good() {
    let mut documents = vec![root().join("README.md")];
    for entry in std::fs::read_dir(root().join("docs")).expect("docs") {
        documents.push(entry.expect("an entry").path());
    }
    let mut seen = 0;
    for document in documents
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
    {
        let text = std::fs::read_to_string(document).expect("a document");
        for (line, block) in blocks(&text, "yaml") {
            let pipeline = match block.as_str() {
                block if block.starts_with("- ") => around(block),
                block if block.lines().any(|line| line.starts_with("job:")) => block.to_owned(),
                // Settings, and files of other programs.
                _ => continue,
            };
            seen += 1;
            if let Err(errors) = load(&pipeline, &environment()) {
                panic!("{}:{line}: {errors}", document.display());
            }
        }
    }
    assert!(seen >= 10, "{seen} blocks");
}

#[test]
fn the_guide_shows_the_files_as_they_are() {
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).expect("the guide");
    let shown: Vec<String> = blocks(&guide, "yaml").into_iter().map(|(_, block)| block).collect();
    let mut files = 0;
    for entry in std::fs::read_dir(root().join("config/pipelines")).expect("the pipelines") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a pipeline");
        assert!(
            shown.contains(&text),
            "{} is not in docs/guide.md as it is",
            path.display()
        );
        files += 1;
    }
    assert_eq!((files, shown.len()), (4, 4));
}

/// Every word that bad records can be counted under is explained; a function of a program that embeds the engine is no pipeline's.
#[test]
fn every_reason_of_a_bad_record_is_documented() {
    let text = std::fs::read_to_string(root().join("docs/pipelines.md")).expect("docs/pipelines.md");
    let section = text.split("## Bad records").nth(1).expect("a section on bad records");
    for reason in BadReason::ALL.map(BadReason::label) {
        assert!(reason == "user" || section.contains(&format!("`{reason}`")), "{reason}");
    }
}
