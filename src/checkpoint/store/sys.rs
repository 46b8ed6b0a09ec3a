//! The system calls that the standard library does not have.
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Renames without replacing: `AlreadyExists` when the target is there. Where the filesystem cannot (some network filesystems), the
/// same by a hard link, which never replaces either, and removing the old name.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(from, to) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP)) => {
            link_new(from, to)
        }
        other => other,
    }
}

pub(super) fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

#[allow(unsafe_code)]
fn renameat2(from: &Path, to: &Path) -> io::Result<()> {
    let c_path =
        |p: &Path| CString::new(p.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (from, to) = (c_path(from)?, c_path(to)?);
    // SAFETY: both pointers are NUL-terminated strings that outlive the call, which only reads them.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// 64 random bits from the system, for names that must be unique: incarnations, sessions, unfinished writes.
///
/// # Errors
/// When the system has none to give.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Whether this process may make entries in a directory.
#[allow(unsafe_code)]
pub(super) fn writable(dir: &Path) -> io::Result<()> {
    let dir = CString::new(dir.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the pointer is a NUL-terminated string that outlives the call, which only reads it.
    let rc = unsafe { libc::faccessat(libc::AT_FDCWD, dir.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) };
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
