//! Reads orders and outputs from files.
use super::{Ledger, Order, OrderText, Output};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A line of an output file.
#[derive(Deserialize)]
struct OutputLine {
    key: String,
    value: Output,
}

/// Takes down the orders of `<dir>/<partition>.jsonl`.
///
/// # Errors
/// When a file cannot be read or holds something else.
pub fn read_orders(dir: &Path, ledger: &mut Ledger) -> Result<()> {
    for path in sorted_files(dir)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let partition = name
            .parse()
            .with_context(|| format!("{} is no partition", path.display()))?;
        each_line(&path, &mut |offset, line| {
            let text: OrderText = serde_json::from_slice(line)?;
            ledger.order(Order {
                partition,
                offset,
                customer: text.customer,
                amount: text.amount,
            });
            Ok(())
        })?;
    }
    Ok(())
}

/// Judges the lines of `<dir>/<shard>-<sequence>.jsonl`, in the order of their sequences.
///
/// # Errors
/// When a file cannot be read. What it holds is judged.
pub fn read_outputs(dir: &Path, ledger: &mut Ledger) -> Result<()> {
    for path in sorted_files(dir)? {
        each_line(&path, &mut |offset, line| {
            let whole: Result<OutputLine, _> = serde_json::from_slice(line);
            match whole {
                Ok(line) if line.key == line.value.customer => ledger.output(&line.value),
                Ok(line) => ledger.unreadable(format!("{:?} under the key {}", line.value, line.key)),
                Err(error) => ledger.unreadable(format!("{} at byte {offset}: {error}", path.display())),
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// How many lines of a file lie before a byte offset.
///
/// # Errors
/// When the file cannot be read, or ends before.
pub fn lines_before(dir: &Path, partition: i32, offset: i64) -> Result<u64> {
    let path = dir.join(format!("{partition}.jsonl"));
    let context = || format!("reading {}", path.display());
    let offset = u64::try_from(offset).with_context(context)?;
    let mut bytes = Vec::new();
    let file = File::open(&path).with_context(context)?;
    file.take(offset).read_to_end(&mut bytes).with_context(context)?;
    if bytes.len() as u64 != offset {
        bail!("{} ends before byte {offset}", path.display());
    }
    Ok(bytes.iter().filter(|b| **b == b'\n').count() as u64)
}

fn sorted_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("listing {}", dir.display());
    let entries = fs::read_dir(dir).with_context(context)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths.with_context(context)?;
    // Files that are still being written are hidden.
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".jsonl") && !name.starts_with('.')
    });
    paths.sort();
    Ok(paths)
}

fn each_line(path: &Path, f: &mut dyn FnMut(i64, &[u8]) -> Result<()>) -> Result<()> {
    let context = || format!("reading {}", path.display());
    let mut file = BufReader::new(File::open(path).with_context(context)?);
    let (mut line, mut offset) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = file.read_until(b'\n', &mut line).with_context(context)?;
        if read == 0 {
            return Ok(());
        }
        offset += read as i64;
        // The newline's place stands for the line.
        f(offset - 1, line.strip_suffix(b"\n").unwrap_or(&line)).with_context(context)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_that_of_the_newline_and_a_tampered_line_is_judged() {
        let dir = tempfile::tempdir().expect("a directory");
        let (input, output) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir(&input).expect("made");
        fs::create_dir(&output).expect("made");
        let first = "{\"order\":\"0-0\",\"customer\":\"c1\",\"amount\":5,\"at\":1}\n";
        let second = first.replace(":5", ":70");
        fs::write(input.join("0.jsonl"), format!("{first}{second}")).expect("written");
        let start = first.len() as i64;
        assert_eq!(lines_before(&input, 0, start).expect("counted"), 1);
        let line = |key: &str, orders: u64, cents: i64, offset: i64| {
            let value = format!(
                "{{\"customer\":\"c1\",\"orders\":{orders},\"cents\":{cents},\"partition\":0,\"offset\":{offset}}}"
            );
            format!("{{\"key\":\"{key}\",\"value\":{value},\"timestamp\":1}}\n")
        };
        let judged = |text: String| {
            fs::write(output.join("0-00000000000000000001.jsonl"), text).expect("written");
            let mut ledger = Ledger::default();
            read_orders(&input, &mut ledger).expect("read");
            read_outputs(&output, &mut ledger).expect("read");
            ledger.close()
        };
        let at = start + second.len() as i64 - 1;
        let (one, two) = (line("c1", 1, 5, start - 1), line("c1", 2, 75, at));
        assert!(judged(format!("{one}{two}")).is_equal());
        assert_eq!(judged(one.clone()).lost, 1);
        assert_eq!(judged(format!("{one}{two}{two}")).duplicated, 1);
        assert_eq!(judged(format!("{one}{}", line("c1", 2, 76, at))).wrong, 1);
        assert_eq!(judged(format!("{one}{}", line("c2", 2, 75, at))).wrong, 1);
        assert_eq!(judged(format!("{one}{}", &two[..20])).wrong, 1);
    }
}
