//! Ends what a program has started, however the program itself ends.
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The root of this repository.
#[must_use]
pub fn repo_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Another program of this workspace, beside the one that runs.
///
/// # Errors
/// When it is not there: it has not been built.
pub fn sibling(name: &str) -> io::Result<PathBuf> {
    let me = std::env::current_exe()?;
    let mut places = me.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("the program {name} is not beside {}", me.display()),
        )
    })
}

/// A shell that waits until this process is gone (or the guard dropped) and then runs a command.
#[derive(Debug)]
pub struct Guard {
    // Held open: its end is what the shell waits for.
    child: Child,
}

impl Guard {
    /// Arms a guard. The command's environment is that of `command`, its arguments follow `--`.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn arm(script: &str, environment: &[(&str, &str)]) -> io::Result<Guard> {
        let child = Command::new("sh")
            .args(["-c", &format!("cat >/dev/null; {script}")])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: Ctrl-C at the terminal ends the test, not its guard.
            .process_group(0)
            .spawn()?;
        Ok(Guard { child })
    }

    /// Runs the command now and waits for it.
    ///
    /// # Errors
    /// When the shell cannot be waited for.
    pub fn fire(&mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().map(drop)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.fire();
    }
}

/// The child gets SIGKILL when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe and takes plain integers.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Sends a signal to a process that we have started.
///
/// # Errors
/// When there is no such process.
pub fn signal(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    if pid <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: takes plain integers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
