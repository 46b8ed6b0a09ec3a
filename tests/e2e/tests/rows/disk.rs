//! A disk of its own for a worker: a small file system in memory that a test can fill and make read-only.
//!
//! It is mounted in a mount namespace that goes with its holder, so that nothing is left behind and nobody has to be root. The worker is started
//! in the same namespace; the test looks into it through `/proc`.
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use keyfold_e2e::guard::sibling;
use keyfold_e2e::{Worker, WorkerOptions};

use crate::scene::wait;

pub struct Disk {
    /// Ends when its standard input does, also when this process dies.
    holder: Child,
    dir: PathBuf,
    program: PathBuf,
}

const MOUNT: &str = r#"mount -t tmpfs -o size="$1" tmpfs "$0" && echo mounted && exec cat"#;

impl Disk {
    /// A disk of this many MiB, in a new folder of `parent`.
    pub fn new(parent: &Path, mib: u32) -> Disk {
        let dir = parent.join("disk");
        fs::create_dir(&dir).expect("a mount point");
        let mut holder = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", MOUNT])
            .arg(&dir)
            .arg(format!("{mib}m"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of util-linux");
        let mut said = String::new();
        let out = holder.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut said).expect("read");
        assert_eq!(
            said, "mounted\n",
            "this machine lets nobody mount in a namespace of his own"
        );
        let program = parent.join("worker-on-disk");
        let disk = Disk { holder, dir, program };
        disk.write_program();
        disk
    }

    /// Ends with the test, as every worker does: entering a namespace makes the kernel forget that.
    fn write_program(&self) {
        let enter = self.enter().join(" ");
        let worker = sibling("worker").expect("built");
        let text = format!(
            "#!/bin/sh\nexec {enter} setpriv --pdeathsig KILL '{}' \"$@\"\n",
            worker.display()
        );
        fs::write(&self.program, text).expect("written");
        fs::set_permissions(&self.program, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    fn enter(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let words = [
            "nsenter",
            "--preserve-credentials",
            "--user",
            "--mount",
            "--target",
            &target,
        ];
        words.map(str::to_owned).to_vec()
    }

    /// A folder of the disk, as the worker names it.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn worker(&self, options: &WorkerOptions) -> Worker {
        Worker::start_program(&self.program, options).expect("worker")
    }

    fn seen(&self, name: &str) -> PathBuf {
        let dir = self.dir.strip_prefix("/").expect("a full path");
        PathBuf::from(format!("/proc/{}/root", self.holder.id()))
            .join(dir)
            .join(name)
    }

    /// To the last byte, however often the worker makes room again: call it until the worker says so.
    pub fn fill(&self) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.seen("filled"))
            .expect("a file");
        for size in [1 << 16, 1 << 10, 1] {
            loop {
                match file.write(&vec![0; size]) {
                    Ok(_) => {}
                    Err(e) if e.kind() == ErrorKind::StorageFull => break,
                    Err(e) => panic!("{e}"),
                }
            }
        }
    }

    pub fn make_room(&self) {
        fs::remove_file(self.seen("filled")).expect("removed");
    }

    /// `ro` or `rw`; waits until no file is open for writing.
    pub fn remount(&self, how: &str) {
        let enter = self.enter();
        wait("the remount", || {
            let mut command = Command::new(&enter[0]);
            command
                .args(&enter[1..])
                .args(["mount", "-o", &format!("remount,{how}")]);
            let done = command.arg(&self.dir).stderr(Stdio::null()).status().expect("nsenter");
            done.success().then_some(())
        });
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
