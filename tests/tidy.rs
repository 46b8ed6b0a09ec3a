//! Holds what the compiler does not: which module may import which, and a few rules on every file.
//!
//! The sources are read as tokens, so that a name in a comment or a string is not an import. Each rule is a function from
//! the text of a file to findings; the tests at the end give each rule a bad snippet, to show that it bites.
use std::fmt;
use std::path::Path;
use std::process::Command;

/// What a module of `src/` may import of the crate. The longest matching row counts; a module may always import itself and
/// what is below it. A new folder in `src/` needs a row here.
const EDGES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("config", &["types"]),
    ("telemetry", &["types"]),
    ("source", &["types"]),
    ("sink", &["types"]),
    ("barrier", &["types"]),
    ("exchange", &["types"]),
    ("state", &["types"]),
    (
        "operator",
        &[
            "types",
            "config",
            "telemetry",
            "source",
            "sink",
            "barrier",
            "exchange",
            "state",
        ],
    ),
    // The commit log is a log sink.
    ("checkpoint", &["types", "state", "sink"]),
    // Facts in, a decision out.
    (
        "checkpoint::protocol",
        &[
            "types",
            "checkpoint::pointer",
            "checkpoint::link",
            "checkpoint::refusal",
            // Facts of the header of an object, and of the log; what reads and writes them stays outside.
            "checkpoint::object::Header",
            "checkpoint::object::StateInfo",
            "sink::Committed",
        ],
    ),
    (
        "topology",
        &[
            "types", "config", "source", "sink", "barrier", "exchange", "state", "operator",
        ],
    ),
    ("runtime", ANYTHING),
    ("testing", ANYTHING),
    // Fail points are called from everywhere, so they lean on nothing.
    ("testing::faults", &[]),
];

/// In [`EDGES`]: every module.
const ANYTHING: &[&str] = &["*"];

/// Modules that every other may import.
const FOR_EVERYONE: &[&str] = &["testing::faults", "testing::Faults"];

/// What `checkpoint::protocol` must not name, so that it can run in a simulation: it reads no file, socket or clock, and
/// starts nothing.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Lines that a file of the product may have.
const LINES_MAX: usize = 600;

/// Macros and attributes of unfinished work.
const UNFINISHED: &[(&str, &[&str])] = &[
    ("todo!", &["todo", "!"]),
    ("unimplemented!", &["unimplemented", "!"]),
    ("dbg!", &["dbg", "!"]),
    ("#[ignore]", &["#", "[", "ignore"]),
];

/// Folders of somebody's machine.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

// ---------------------------------------------------------------------------------------------------------------------
// Findings

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// One tracked file.
struct File {
    /// Relative to the repository, with `/`.
    name: String,
    text: String,
}

impl File {
    fn finding(&self, line: usize, rule: impl Into<String>) -> Finding {
        Finding {
            file: self.name.clone(),
            line,
            rule: rule.into(),
        }
    }

    fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// A file or folder named `tests`, at any depth.
    fn is_test(&self) -> bool {
        self.name.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// The module that a file of the engine is: `src/state/backend/mod.rs` is `state::backend`. None for other files.
    fn module(&self) -> Option<Vec<&str>> {
        let path = self.name.strip_prefix("src/")?.strip_suffix(".rs")?;
        let mut parts: Vec<&str> = path.split('/').collect();
        if matches!(parts.last(), Some(&("mod" | "lib"))) {
            parts.pop();
        }
        Some(parts)
    }

    /// The name of the connector that this file belongs to.
    fn connector(&self) -> Option<&str> {
        self.name.strip_prefix("connectors/")?.split('/').next()
    }
}

/// All tracked text files, and new ones that are not ignored.
fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("the tidy test asks git for the list of files");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let mut files = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // Deleted but still tracked: gone with the next commit.
        let Ok(bytes) = std::fs::read(root.join(name)) else {
            continue;
        };
        // Images and fixtures of binary formats.
        if bytes.contains(&0) {
            continue;
        }
        files.push(File {
            name: name.to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        });
    }
    files
}

// ---------------------------------------------------------------------------------------------------------------------
// Tokens: identifiers, `::`, and every other character for itself. Comments, literals and white space are left out.

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

impl Token {
    fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Reads `text` from its `at`-th character on.
struct Lexer {
    text: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek(0) == '\n' {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn done(&self) -> bool {
        self.at >= self.text.len()
    }

    fn line_comment(&mut self) {
        while !self.done() && self.peek(0) != '\n' {
            self.skip(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while !self.done() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.skip(1);
                    continue;
                }
            }
            self.skip(2);
            if depth == 0 {
                return;
            }
        }
    }

    /// From the opening quote on; a backslash hides the next character.
    fn quoted(&mut self, quote: char) {
        self.skip(1);
        while !self.done() && self.peek(0) != quote {
            self.skip(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.skip(1);
    }

    /// From the first `#` or the quote of a raw string on.
    fn raw_string(&mut self) {
        let mut hashes = 0;
        while self.peek(0) == '#' {
            hashes += 1;
            self.skip(1);
        }
        self.skip(1);
        while !self.done() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|n| self.peek(n) == '#');
            self.skip(1);
            if closes {
                self.skip(hashes);
                return;
            }
        }
    }

    /// A character or a lifetime.
    fn tick(&mut self) {
        if self.peek(1) == '\\' || self.peek(2) == '\'' {
            self.quoted('\'');
        } else {
            self.skip(1);
        }
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            self.skip(1);
        }
        self.text[start..self.at].iter().collect()
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        text: text.chars().collect(),
        at: 0,
        line: 1,
    };
    let mut tokens = Vec::new();
    while !lexer.done() {
        let line = lexer.line;
        let text = match (lexer.peek(0), lexer.peek(1)) {
            ('/', '/') => {
                lexer.line_comment();
                continue;
            }
            ('/', '*') => {
                lexer.block_comment();
                continue;
            }
            ('"', _) => {
                lexer.quoted('"');
                continue;
            }
            ('\'', _) => {
                lexer.tick();
                continue;
            }
            (':', ':') => {
                lexer.skip(2);
                "::".to_owned()
            }
            (c, _) if c.is_whitespace() => {
                lexer.skip(1);
                continue;
            }
            (c, _) if c.is_alphabetic() || c == '_' => {
                let name = lexer.name();
                match (name.as_str(), lexer.peek(0), lexer.peek(1)) {
                    ("r" | "br" | "cr", '"', _) | ("r" | "br" | "cr", '#', '"' | '#') => {
                        lexer.raw_string();
                        continue;
                    }
                    ("b" | "c", '"', _) => {
                        lexer.quoted('"');
                        continue;
                    }
                    _ => name,
                }
            }
            (c, _) => {
                lexer.skip(1);
                c.to_string()
            }
        };
        tokens.push(Token { text, line });
    }
    tokens
}

fn matches(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() >= pattern.len() && tokens.iter().zip(pattern).all(|(token, text)| token.text == *text)
}

/// Leaves out every item under `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !matches(&tokens[at..], &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // To the end of the item: its `;`, or the brace that closes its first one.
        let mut depth = 0;
        while at < tokens.len() {
            let text = tokens[at].text.as_str();
            at += 1;
            match text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && (text == "}" || text == ";") {
                break;
            }
        }
    }
    kept
}

/// A path as written, with its braces resolved: `a::{b, c::d}` is two.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    parts: Vec<String>,
}

/// All paths of two parts or more, and single names after `use` or `extern crate`.
fn paths(tokens: &[Token]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let imported = at > 0 && matches!(tokens[at - 1].text.as_str(), "use" | "crate") && tokens[at].is_name();
        let starts = tokens[at].is_name();
        let next = if starts {
            path(tokens, at, &[], &mut found, imported)
        } else {
            at + 1
        };
        at = next.max(at + 1);
    }
    found
}

/// Reads the path that starts at `at`, after `prefix`; returns where it ends.
fn path(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Named>, single: bool) -> usize {
    let line = tokens[at].line;
    let mut parts = prefix.to_vec();
    parts.push(tokens[at].text.clone());
    at += 1;
    while at + 1 < tokens.len() && tokens[at].text == "::" {
        let next = &tokens[at + 1];
        if next.text == "{" {
            return group(tokens, at + 2, &parts, found);
        }
        if next.text == "*" {
            parts.push("*".to_owned());
            at += 2;
            break;
        }
        if !next.is_name() {
            break;
        }
        parts.push(next.text.clone());
        at += 2;
    }
    if single || parts.len() > 1 {
        found.push(Named { line, parts });
    }
    at
}

/// Reads the alternatives of `prefix::{..}` from behind the brace; returns the place behind the closing one.
fn group(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
    while at < tokens.len() && tokens[at].text != "}" {
        if tokens[at].text == "self" {
            found.push(Named {
                line: tokens[at].line,
                parts: prefix.to_vec(),
            });
            at += 1;
        } else if tokens[at].text == "as" {
            at += 2;
        } else if tokens[at].is_name() {
            at = path(tokens, at, prefix, found, true);
        } else {
            at += 1;
        }
    }
    at + 1
}

/// The paths of a file that are in effect outside of tests.
fn product_paths(file: &File) -> Vec<Named> {
    paths(&without_tests(&tokens(&file.text)))
}

// ---------------------------------------------------------------------------------------------------------------------
// Rules on imports

/// A path of the engine from the crate's root on; None when it is not of this crate.
fn absolute(module: &[&str], parts: &[String]) -> Option<Vec<String>> {
    let mut base: Vec<String> = module.iter().map(|&part| part.to_owned()).collect();
    let mut rest = parts;
    match parts.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &parts[1..];
        }
        "self" => rest = &parts[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        _ => return None,
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// Is `path` the module `prefix` or something in it?
fn within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn check_edges(file: &File, findings: &mut Vec<Finding>) {
    let Some(module) = file.module() else { return };
    // lib.rs names all modules.
    if module.is_empty() || file.is_test() {
        return;
    }
    let from = module.join("::");
    let row = EDGES
        .iter()
        .filter(|(name, _)| within(&from, name))
        .max_by_key(|(name, _)| name.len());
    let Some((owner, allowed)) = row else {
        findings.push(file.finding(1, format!("module `{from}` has no row in EDGES of tests/tidy.rs")));
        return;
    };
    if *allowed == ANYTHING {
        return;
    }
    for named in product_paths(file) {
        let Some(to) = absolute(&module, &named.parts).map(|parts| parts.join("::")) else {
            continue;
        };
        let fine = within(&to, owner)
            || allowed.iter().any(|prefix| within(&to, prefix))
            || FOR_EVERYONE.iter().any(|prefix| within(&to, prefix));
        if !fine {
            let allowed = if allowed.is_empty() {
                "nothing of the crate".to_owned()
            } else {
                allowed.join(", ")
            };
            findings.push(file.finding(named.line, format!("`{owner}` imports `{to}`; it may import {allowed}")));
        }
    }
}

fn check_purity(file: &File, findings: &mut Vec<Finding>) {
    if !file
        .module()
        .is_some_and(|module| within(&module.join("::"), "checkpoint::protocol"))
        || file.is_test()
    {
        return;
    }
    for named in product_paths(file) {
        let path = named.parts.join("::");
        if let Some(impure) = IMPURE.iter().find(|impure| within(&path, impure)) {
            findings.push(file.finding(
                named.line,
                format!("`checkpoint::protocol` is pure and must not name `{impure}`"),
            ));
        }
    }
}

/// Which files may name which crates.
fn check_crates(file: &File, findings: &mut Vec<Finding>) {
    if !file.is_rust() {
        return;
    }
    let tokens = tokens(&file.text);
    let engine = file.name.starts_with("src/");
    let rocksdb_home = file.name.starts_with("src/state/backend/rocksdb");
    // Beside `mod rocksdb;` the name means that module.
    let rocksdb_module = tokens.windows(2).any(|pair| matches(pair, &["mod", "rocksdb"]));
    for named in paths(&tokens) {
        let name = named.parts[0].as_str();
        let rule = match name {
            "rocksdb" if engine && !rocksdb_home && !rocksdb_module => {
                "only state/backend/rocksdb names the crate `rocksdb`"
            }
            "serde_saphyr" if !file.name.starts_with("service/src/yaml/") => {
                "only service/src/yaml names the crate `serde_saphyr`"
            }
            "librocksdb_sys" if !rocksdb_home => "only state/backend/rocksdb names the crate `librocksdb_sys`",
            "rdkafka" | "rdkafka_sys" if engine => "the engine names no Kafka client",
            _ if engine && name.starts_with("keyfold_") => "the engine names no crate that is built on it",
            _ if is_other_connector(file, name) => "connectors do not import each other",
            "keyfold_checker" => continue,
            _ if file.name.starts_with("tests/checker/") && (name == "keyfold" || name.starts_with("keyfold_")) => {
                "the checker shares no code with what it checks"
            }
            _ => continue,
        };
        findings.push(file.finding(named.line, rule));
    }
}

fn is_other_connector(file: &File, name: &str) -> bool {
    match (
        file.connector(),
        name.strip_prefix("keyfold_").or_else(|| name.strip_prefix("keyfold-")),
    ) {
        (Some(own), Some(other)) => own != other,
        _ => false,
    }
}

/// The same for the dependencies that a manifest lists.
fn check_manifest(file: &File, findings: &mut Vec<Finding>) {
    if !file.name.ends_with("Cargo.toml") {
        return;
    }
    let mut section = "";
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            continue;
        }
        if !section.ends_with("dependencies]") || section == "[workspace.dependencies]" {
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        let rule = if file.name == "Cargo.toml" && name.starts_with("rdkafka") {
            "the engine depends on no Kafka client"
        } else if file.name == "Cargo.toml" && name.starts_with("keyfold-") {
            "the engine depends on no crate that is built on it"
        } else if is_other_connector(file, name) {
            "connectors do not depend on each other"
        } else if file.name == "tests/checker/Cargo.toml" && name.starts_with("keyfold") && name != "keyfold-checker" {
            "the checker shares no code with what it checks"
        } else {
            continue;
        };
        findings.push(file.finding(index + 1, rule));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rules on text

fn check_text(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        if let Some(c) = line.chars().find(|c| !c.is_ascii()) {
            findings.push(file.finding(
                index + 1,
                format!("files are ASCII, this line has {c:?} (U+{:04X})", c as u32),
            ));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| has_path(line, path)) {
            findings.push(file.finding(index + 1, format!("a path of one machine: {path}")));
        }
    }
}

/// Does `line` name `path` from the root of the file system on?
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})".contains(c))
    })
}

fn check_length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if file.is_rust() && !file.is_test() && lines > LINES_MAX {
        findings.push(file.finding(
            lines,
            format!("{lines} lines; a file has at most {LINES_MAX}, tests go to a file of their own"),
        ));
    }
}

fn check_unfinished(file: &File, findings: &mut Vec<Finding>) {
    if !file.is_rust() {
        return;
    }
    let all = tokens(&file.text);
    for at in 0..all.len() {
        for (name, pattern) in UNFINISHED {
            if matches(&all[at..], pattern) {
                findings.push(file.finding(all[at].line, format!("`{name}` is left over")));
            }
        }
    }
    if file.is_test() {
        return;
    }
    let product = without_tests(&all);
    for at in 0..product.len() {
        if matches(&product[at..], &[".", "unwrap", "(", ")"]) {
            let rule = "`.unwrap()` outside of tests; return an error, or say `expect(\"invariant: ..\")`";
            findings.push(file.finding(product[at].line, rule));
        }
    }
}

fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in [
        check_edges,
        check_purity,
        check_crates,
        check_manifest,
        check_text,
        check_length,
        check_unfinished,
    ] {
        rule(file, &mut findings);
    }
    findings
}

// ---------------------------------------------------------------------------------------------------------------------
// The tests

#[test]
fn the_repository_is_tidy() {
    let findings: Vec<String> = files()
        .iter()
        .flat_map(check)
        .map(|finding| finding.to_string())
        .collect();
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn every_row_names_a_module_once() {
    for (index, (name, allowed)) in EDGES.iter().enumerate() {
        assert!(
            !EDGES[..index].iter().any(|(other, _)| other == name),
            "{name} has two rows"
        );
        for target in allowed.iter().filter(|target| **target != "*") {
            assert!(
                EDGES.iter().any(|(row, _)| within(target, row)),
                "{name} may import {target}, which has no row"
            );
        }
    }
}

/// `line: rule` of what is found in a file of this name and text.
fn found(name: &str, text: &str) -> Vec<String> {
    let file = File {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    check(&file)
        .into_iter()
        .map(|finding| format!("{}: {}", finding.line, finding.rule))
        .collect()
}

/// Asserts one finding, on this line and with this in its rule.
#[track_caller]
fn assert_found(name: &str, text: &str, line: usize, rule: &str) {
    let found = found(name, text);
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{line}: ")) && found[0].contains(rule),
        "expected one finding `{line}: ..{rule}..` in\n{text}\nbut found {found:#?}"
    );
}

#[track_caller]
fn assert_clean(name: &str, text: &str) {
    let found = found(name, text);
    assert!(found.is_empty(), "expected nothing in\n{text}\nbut found {found:#?}");
}

#[test]
fn forbidden_edges_are_found_however_they_are_written() {
    assert_found(
        "src/types/ids.rs",
        "\nuse crate::state::Map;\n",
        2,
        "`types` imports `state::Map`",
    );
    assert_found(
        "src/source/mod.rs",
        "use super::sink::Sink;",
        1,
        "`source` imports `sink::Sink`",
    );
    assert_found(
        "src/source/lane.rs",
        "use super::super::sink;",
        1,
        "`source` imports `sink`",
    );
    assert_found(
        "src/sink/mod.rs",
        "use crate::{types::Shard,\n state::{Map as M}};",
        2,
        "`sink` imports `state::Map`",
    );
    assert_found(
        "src/exchange/mod.rs",
        "fn f() -> crate::barrier::Barrier { g() }",
        1,
        "`exchange` imports `barrier::Barrier`",
    );
    assert_found(
        "src/state/backend/mod.rs",
        "use crate::config::*;",
        1,
        "`state` imports `config::*`",
    );
    assert_found(
        "src/barrier.rs",
        "pub(crate) use crate::source::A;",
        1,
        "`barrier` imports `source::A`",
    );
    assert_found(
        "src/testing/faults.rs",
        "use crate::types::Shard;",
        1,
        "nothing of the crate",
    );
    assert_found("src/news/mod.rs", "", 1, "no row in EDGES");
}

#[test]
fn allowed_edges_pass() {
    assert_clean(
        "src/state/map.rs",
        "use super::StateError; use crate::types::Shard; use crate::testing::faults::hit;",
    );
    assert_clean("src/state/map.rs", "pub(crate) fn f(self) -> Self { self.g(Self::h) }");
    assert_clean("src/runtime/mod.rs", "use crate::{sink, source, state};");
    assert_clean(
        "src/sink/mod.rs",
        "//! See [`crate::state::Map`].\n/* use crate::state; /* */ */ const A: &str = r#\"crate::state\"#;",
    );
    assert_clean(
        "src/sink/mod.rs",
        "#[cfg(test)]\nmod tests;\n#[cfg(test)] mod t { use crate::state::Map; }",
    );
    assert_clean("src/sink/tests.rs", "use crate::state::Map;");
    assert_clean("src/lib.rs", "pub use crate::state::Map;");
}

#[test]
fn what_follows_a_test_module_is_looked_at_again() {
    let text = "#[cfg(test)]\nmod tests { fn a() { x.unwrap(); } }\nfn b() { x.unwrap(); }";
    assert_found("src/sink/mod.rs", text, 3, ".unwrap()");
}

#[test]
fn the_protocol_is_pure() {
    let name = "src/checkpoint/protocol.rs";
    assert_found(name, "use std::fs::File;", 1, "`std::fs`");
    assert_found(
        name,
        "use std::{collections::BTreeMap, time::{Duration, Instant}};",
        1,
        "`std::time::Instant`",
    );
    assert_found(name, "fn f() { std::thread::spawn(g); }", 1, "`std::thread`");
    assert_found(
        name,
        "use super::store::Store;",
        1,
        "imports `checkpoint::store::Store`",
    );
    assert_found(name, "use crate::state::Map;", 1, "imports `state::Map`");
    assert_clean(
        name,
        "use super::pointer::Pointer; use super::link::Link; use crate::types::Shard; use std::time::Duration;",
    );
    assert_clean(
        "src/checkpoint/store.rs",
        "use std::fs::File; use super::protocol::Decision;",
    );
}

#[test]
fn crates_stay_where_they_belong() {
    assert_found("src/state/map.rs", "use rocksdb::DB;", 1, "the crate `rocksdb`");
    assert_found("src/state/map.rs", "use rocksdb as r;", 1, "the crate `rocksdb`");
    assert_found(
        "src/runtime/mod.rs",
        "fn f(db: &::rocksdb::DB) {}",
        1,
        "the crate `rocksdb`",
    );
    assert_found("service/src/main.rs", "use librocksdb_sys::x;", 1, "`librocksdb_sys`");
    assert_found(
        "service/src/pipeline/mod.rs",
        "use serde_saphyr::from_str;",
        1,
        "service/src/yaml",
    );
    assert_clean("service/src/yaml/build.rs", "use serde_saphyr::granit_parser::Event;");
    assert_found("src/source/mod.rs", "use rdkafka::Message;", 1, "no Kafka client");
    assert_found("src/runtime/mod.rs", "use keyfold_kafka::Source;", 1, "built on it");
    assert_found(
        "connectors/files/src/sink.rs",
        "use keyfold_kafka::Source;",
        1,
        "each other",
    );
    assert_found(
        "tests/checker/src/main.rs",
        "use keyfold::types::Shard;",
        1,
        "shares no code",
    );
    assert_clean(
        "src/state/backend/rocksdb/ffi.rs",
        "use rocksdb::DB; use librocksdb_sys as ffi;",
    );
    assert_clean(
        "src/state/backend/mod.rs",
        "pub mod rocksdb; pub use self::rocksdb::Rocks; use rocksdb::Options;",
    );
    assert_clean(
        "connectors/kafka/src/sink.rs",
        "use keyfold::types::Shard; use rdkafka::Message; use keyfold_kafka::A;",
    );
    assert_clean("service/src/registry.rs", "use keyfold_kafka::A; use keyfold_files::B;");
}

#[test]
fn manifests_are_held_to_the_same() {
    assert_found(
        "Cargo.toml",
        "[dependencies]\nrdkafka.workspace = true\n",
        2,
        "no Kafka client",
    );
    assert_found(
        "Cargo.toml",
        "[dev-dependencies]\nkeyfold-kafka = { path = \"x\" }\n",
        2,
        "built on it",
    );
    assert_found(
        "connectors/files/Cargo.toml",
        "[dependencies]\nkeyfold-kafka.workspace = true\n",
        2,
        "each other",
    );
    assert_found(
        "tests/checker/Cargo.toml",
        "[dependencies]\nkeyfold.workspace = true\n",
        2,
        "shares no code",
    );
    assert_clean(
        "Cargo.toml",
        "[workspace.dependencies]\nrdkafka = \"1\"\n[features]\nrdkafka = []\n",
    );
    assert_clean(
        "connectors/kafka/Cargo.toml",
        "[package]\nname = \"keyfold-kafka\"\n[dependencies]\nkeyfold.workspace = true\n",
    );
}

#[test]
fn unfinished_work_is_found() {
    assert_found("src/sink/mod.rs", "fn f() { todo!() }", 1, "`todo!`");
    assert_found(
        "tests/e2e/src/lib.rs",
        "fn f() {\n    unimplemented!()\n}",
        2,
        "`unimplemented!`",
    );
    assert_found("service/src/main.rs", "fn f() { dbg!(1); }", 1, "`dbg!`");
    assert_found(
        "src/sink/tests.rs",
        "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
        2,
        "`#[ignore]`",
    );
    assert_found(
        "connectors/kafka/src/sink.rs",
        "fn f() { a()\n    .unwrap() }",
        2,
        ".unwrap()",
    );
    assert_clean("src/sink/tests.rs", "fn f() { a().unwrap(); }");
    assert_clean(
        "src/sink/mod.rs",
        "fn f() { a().unwrap_or(b'\"'); } // todo!() x.unwrap()\nfn g<'a>(x: &'a str) -> char { '\\'' }",
    );
}

#[test]
fn text_is_ascii_short_and_of_no_machine() {
    assert_found("README.md", "a\nb \u{2014} c\n", 2, "U+2014");
    for path in MACHINE_PATHS {
        assert_found("docs/a.md", &format!("see {path}x"), 1, "a path of one machine");
        assert_found("Makefile", &format!("A={path}x"), 1, "a path of one machine");
        assert_clean("docs/a.md", &format!("see net{path}x and $HOME.{path}"));
    }
    let long = "\n".repeat(LINES_MAX + 1);
    assert_found("src/sink/mod.rs", &long, LINES_MAX + 1, "lines; a file has at most");
    assert_clean("src/sink/tests.rs", &long);
    assert_clean("docs/a.md", &long);
}
