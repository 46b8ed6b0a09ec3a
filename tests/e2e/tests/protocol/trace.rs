//! What a worker asks of the system, in order, by strace.
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A system call that succeeded.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    /// The arguments as strace writes them, strings decoded, byte by byte as characters.
    pub arguments: String,
    /// The line at which it began.
    pub begin: usize,
    /// The line at which it had returned.
    pub end: usize,
}

impl Call {
    /// The path behind the file descriptor that is its first argument.
    pub fn file(&self) -> &str {
        let inside = self.arguments.split_once('<').map_or("", |(_, rest)| rest);
        inside.split_once('>').map_or("", |(path, _)| path)
    }

    /// The kind of Kafka request that it sends: the frame begins with its length, two bytes each of api key and version.
    pub fn api_key(&self) -> Option<u16> {
        let frame = self.arguments.split_once("iov_base=\"").map(|(_, rest)| rest)?;
        let bytes: Vec<char> = frame.chars().take(6).collect();
        let byte = |at: usize| bytes.get(at).and_then(|c| u8::try_from(*c).ok());
        Some(u16::from_be_bytes([byte(4)?, byte(5)?]))
    }
}

/// A program that runs `worker` under strace, with the worker's own process id, and writes to `output`.
pub fn program(dir: &Path, worker: &Path, output: &Path) -> PathBuf {
    let script = dir.join("traced.sh");
    // -D: the tracer is the grandchild, so the signals for the worker reach the worker.
    let text = format!(
        "#!/bin/sh\nexec strace -D -f -q -y -xx -s 2048 -o {} -e trace=fsync,fdatasync,rename,renameat,renameat2,sendmsg,sendto {} \"$@\"\n",
        output.display(),
        worker.display()
    );
    std::fs::write(&script, text).expect("script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
    script
}

/// The calls that a trace tells of.
pub fn read(path: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(path).expect("a trace");
    let mut open: HashMap<String, (String, usize)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((pid, rest)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            open.insert(pid.to_owned(), (begun.to_owned(), number));
        } else if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|r| r.split_once(" resumed>")) {
            let begun = open.remove(pid);
            calls.extend(begun.and_then(|(begun, begin)| call(&(begun + end), begin, number)));
        } else {
            calls.extend(call(rest, number, number));
        }
    }
    calls.sort_by_key(|c| c.begin);
    calls
}

fn call(text: &str, begin: usize, end: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    (!result.starts_with('-')).then(|| Call {
        name: name.to_owned(),
        arguments: decode(arguments),
        begin,
        end,
    })
}

/// `\x41` becomes `A`.
fn decode(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        out.push(u8::from_str_radix(digits, 16).map_or('?', char::from));
        out.push_str(rest);
    }
    out
}

#[test]
fn a_trace_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("trace");
    let text = "7  fsync(3<\\x2f\\x61> <unfinished ...>\n\
                8  sendmsg(5<\\x73>, {msg_iov=[{iov_base=\"\\x00\\x00\\x00\\x09\\x00\\x1a\\x00\", iov_len=7}]}, 0) = 7\n\
                7  <... fsync resumed>) = 0\n\
                7  rename(\"\\x61\", \"\\x62\") = -1 EEXIST (File exists)\n";
    std::fs::write(&path, text).expect("written");
    let calls = read(&path);
    let names: Vec<&str> = calls.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["fsync", "sendmsg"]);
    assert_eq!((calls[0].file(), calls[0].begin, calls[0].end), ("/a", 0, 2));
    assert_eq!(calls[1].api_key(), Some(26));
}
