//! The demonstration, as a user sees it.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn keyfold(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    command.args(arguments).arg("--dir").arg(dir.join("demo"));
    command.env_remove("KEYFOLD_LOG_LEVEL");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The words of the first line that has `mark`.
fn line<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let found = text.lines().find(|line| line.contains(mark));
    let found = found.unwrap_or_else(|| panic!("no {mark:?} in:\n{text}"));
    found.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect()
}

/// The word after `word`.
fn after<'a>(words: &[&'a str], word: &str) -> &'a str {
    let at = words.iter().position(|w| *w == word);
    at.and_then(|at| words.get(at + 1).copied())
        .unwrap_or_else(|| panic!("nothing after {word} in {words:?}"))
}

const SHORT: [&str; 5] = ["demo", "--records=40000", "--customers=50", "--pace=20000", "--seed=7"];

#[test]
fn a_killed_job_ends_with_the_right_totals_and_says_how() {
    let dir = tempfile::tempdir().expect("a directory");
    // The second run finds what the first has left.
    for _ in 0..2 {
        let output = keyfold(&SHORT, dir.path()).output().expect("run");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let (first, second) = (
            after(&line(&text, "run 1: pid"), "pid"),
            after(&line(&text, "run 2: pid"), "pid"),
        );
        assert_ne!(first, second, "{text}");
        let killed = line(&text, "killed with SIGKILL at");
        assert_eq!(after(&killed, "pid"), first);
        let percent: f64 = after(&killed, "at").parse().expect("percent");
        assert!((30.0..=71.0).contains(&percent), "{text}");
        assert!(
            after(&line(&text, "resumed from epoch"), "epoch").contains('-'),
            "{text}"
        );
        assert_ne!(after(&line(&text, "replayed:"), "replayed"), "0", "{text}");
        line(&text, "lost 0, duplicated 0, wrong 0");
        line(&text, &format!("pid {second} stopped with SIGTERM, exit code 0"));
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("demo: equal: 50 customers"), "{text}");
    }
}

/// A demonstration that takes minutes, and the pid of its worker.
fn long_demo(dir: &Path) -> (Child, String) {
    let slow = ["demo", "--records=40000", "--pace=100"];
    let mut demo = keyfold(&slow, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("run");
    let out = demo.stdout.take().expect("piped");
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    let started = lines.find(|line| line.starts_with("run 1: pid ")).expect("started");
    (demo, started.trim_start_matches("run 1: pid ").to_owned())
}

fn is_worker(pid: &str) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("demo-worker")
}

fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_demonstration_that_is_stopped_or_killed_leaves_no_worker_behind_and_can_run_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for signal in ["-TERM", "-KILL"] {
        let (mut demo, worker) = long_demo(dir.path());
        assert!(is_worker(&worker));
        let sent = Command::new("kill").args([signal, &demo.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert!(within(Duration::from_secs(20), || demo
            .try_wait()
            .expect("asked")
            .is_some()));
        assert!(
            within(Duration::from_secs(20), || !is_worker(&worker)),
            "{signal}: the worker {worker} still runs"
        );
        let code = demo.wait().expect("ended").code();
        assert_eq!(code, (signal == "-TERM").then_some(1));
    }
    let output = keyfold(&SHORT, dir.path()).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_directory_that_no_demonstration_has_made_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let precious = dir.path().join("demo/in/precious");
    std::fs::create_dir_all(precious.parent().expect("a parent")).expect("made");
    std::fs::write(&precious, "x").expect("written");
    let output = keyfold(&SHORT, dir.path()).output().expect("run");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("choose another --dir"), "{}", text(&output));
    assert!(precious.exists());
}
