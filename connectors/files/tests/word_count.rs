//! The example is run: its outputs are exact, over a restart as well.
#[path = "../examples/word_count.rs"]
#[allow(dead_code)] // Its `main` is for the command line.
mod word_count;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs the job until it has committed `lines` lines, then stops it.
fn run(dir: &Path, lines: u64) {
    let runtime = word_count::job(dir).expect("a job");
    let (stop, progress) = (runtime.stop_handle(), runtime.progress());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| runtime.run());
        let began = Instant::now();
        while progress.committed() < lines && !running.is_finished() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.stop();
        running.join().expect("no panic").expect("ended well");
    });
    assert_eq!(progress.committed(), lines);
}

/// The lines of all output files, without their timestamps, sorted.
fn outputs(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir.join("out")).expect("outputs") {
        let entry = entry.expect("an entry");
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("text");
        lines.extend(text.lines().map(|line| line.replace(",\"timestamp\":-1}", "}")));
    }
    lines.sort();
    lines
}

fn counted(word: &str, counts: std::ops::RangeInclusive<u64>) -> Vec<String> {
    counts
        .map(|n| format!("{{\"key\":\"{word}\",\"value\":{n}}}"))
        .collect()
}

#[test]
fn words_are_counted_exactly_over_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("in")).expect("made");
    fs::write(dir.path().join("in/0.jsonl"), "To be or not to be\n\nthat is\n").expect("written");
    fs::write(dir.path().join("in/1.jsonl"), "the question\n").expect("written");
    run(dir.path(), 4);
    let first = [
        ("be", 2),
        ("is", 1),
        ("not", 1),
        ("or", 1),
        ("question", 1),
        ("that", 1),
        ("the", 1),
        ("to", 2),
    ];
    let expected =
        |words: &[(&str, u64)]| -> Vec<String> { words.iter().flat_map(|(w, n)| counted(w, 1..=*n)).collect() };
    assert_eq!(outputs(dir.path()), expected(&first));

    let more = "To be or not to be\n\nthat is\nnot the end\n";
    fs::write(dir.path().join("in/0.jsonl"), more).expect("written");
    run(dir.path(), 1);
    let second = [
        ("be", 2),
        ("end", 1),
        ("is", 1),
        ("not", 2),
        ("or", 1),
        ("question", 1),
        ("that", 1),
        ("the", 2),
        ("to", 2),
    ];
    assert_eq!(outputs(dir.path()), expected(&second));
}
