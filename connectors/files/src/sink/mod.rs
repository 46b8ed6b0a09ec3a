//! Writes outputs to files, one per section of a shard.
use crate::config::FilesSinkConfig;
use crate::error::{FilesError, io_error};
use crate::line::write_line;
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::types::{OutputRef, Sequence, Shard};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Says whose outputs the directory holds.
const OWNER: &str = ".owner";

/// Delivers the outputs of section `sequence` of `shard` as `<dir>/<shard>-<sequence, 20 digits>.jsonl`, or not at all.
///
/// **A line** is `{"key":..,"value":..,"timestamp":..}`. Bytes that are a valid JSON text are embedded as they are (line breaks between
/// tokens become spaces), other UTF-8 is written as a JSON string, anything else as `{"base64":".."}`; null is `null`. A reader that must tell
/// the text `7` from the number uses a codec that writes JSON. An output that has headers has them at the end of its line, in their order,
/// `"headers":{"name":..}`: strings (`{"base64":".."}` for what is no UTF-8) and nulls. Names may repeat, and most readers keep the last one
/// then. Partition and the number of the sink are not written. A section without outputs makes no file.
///
/// **Exactly once.** A file is staged under `.<name>.tmp`, synced and renamed, and the directory synced; a name that exists is never
/// written again. A section whose sequence is not greater than the highest file of its shard is taken for delivered: whoever removes
/// output files must leave the last one of each shard.
///
/// **One owner.** The file `.owner` in the directory names the job, the stage, the sink and the checkpoint store whose sequences lie there. Another
/// sink would find its sequences taken and lose its outputs, so it is refused at the start.
#[derive(Debug)]
pub struct FilesSink {
    dir: PathBuf,
    /// Highest sequence delivered per shard.
    delivered: HashMap<u32, Sequence>,
    /// Whether `delivered` holds what the directory shows.
    is_listed: bool,
    /// Whose directory it must be; None before [`OutboxSink::open`].
    owner: Option<String>,
}

impl FilesSink {
    /// Files in `dir`, which is created, and listed, at the start.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        FilesSink {
            dir: dir.into(),
            delivered: HashMap::new(),
            is_listed: false,
            owner: None,
        }
    }
    /// As the settings say.
    #[must_use]
    pub fn from_config(config: FilesSinkConfig) -> Self {
        Self::new(config.dir)
    }

    fn deliver_once(
        &mut self,
        shard: Shard,
        sequence: Sequence,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), FilesError> {
        self.list()?;
        let path = self.dir.join(file_name(shard, sequence));
        if self.delivered.get(&shard.0).is_some_and(|highest| sequence <= *highest) {
            if !path.exists() && outputs.next().is_some() {
                tracing::warn!(shard = shard.0, sequence, dir = %self.dir.display(), "taken for delivered, but its file is gone");
            }
            return Ok(());
        }
        let Some(first) = outputs.next() else {
            return Ok(());
        };
        write_file(&self.dir, &path, first, outputs)?;
        self.delivered.insert(shard.0, sequence);
        Ok(())
    }

    /// Looks at what was delivered before. The directory is synced, so that what is seen stays.
    fn list(&mut self) -> Result<(), FilesError> {
        if self.is_listed {
            return Ok(());
        }
        let dir = &self.dir;
        create_dir(dir)?;
        if let Some(owner) = &self.owner {
            claim(dir, owner)?;
        }
        for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
            let name = entry.map_err(io_error("list", dir))?.file_name();
            if let Some((shard, sequence)) = name.to_str().and_then(parse_file_name) {
                let highest = self.delivered.entry(shard).or_insert(sequence);
                *highest = sequence.max(*highest);
            }
        }
        sync_dir(dir)?;
        self.is_listed = true;
        Ok(())
    }
}

impl OutboxSink for FilesSink {
    fn describe(&self) -> String {
        format!("files {}", self.dir.display())
    }
    fn open(&mut self, owner: &str) -> Result<(), SinkError> {
        self.owner = Some(owner.to_owned());
        self.is_listed = false;
        Ok(self.list()?)
    }
    fn deliver(
        &mut self,
        shard: Shard,
        sequence: Sequence,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError> {
        let delivered = self.deliver_once(shard, sequence, outputs);
        self.is_listed &= delivered.is_ok();
        Ok(delivered?)
    }
}

/// Makes the directory `owner`'s, unless it is another's. The name is given to a whole file, so that a crash leaves none or all of it.
fn claim(dir: &Path, owner: &str) -> Result<(), FilesError> {
    let path = dir.join(OWNER);
    let staged = dir.join(format!("{OWNER}.{}.tmp", std::process::id()));
    if !path.exists() {
        fs::write(&staged, owner).map_err(io_error("write", &staged))?;
        File::open(&staged)
            .and_then(|f| f.sync_all())
            .map_err(io_error("sync", &staged))?;
        let linked = fs::hard_link(&staged, &path);
        fs::remove_file(&staged).map_err(io_error("remove", &staged))?;
        match linked {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(io_error("name", &path)(e)),
            _ => {}
        }
    }
    let found = fs::read_to_string(&path).map_err(io_error("read", &path))?;
    if found == owner {
        return Ok(());
    }
    Err(FilesError::Owned {
        dir: dir.to_path_buf(),
        owner: found.escape_debug().to_string(),
        sink: owner.to_owned(),
    })
}

fn file_name(shard: Shard, sequence: Sequence) -> String {
    format!("{shard}-{sequence:020}.jsonl")
}

fn parse_file_name(name: &str) -> Option<(u32, Sequence)> {
    let (shard, sequence) = name.strip_suffix(".jsonl")?.split_once('-')?;
    let (shard, sequence) = (shard.parse().ok()?, sequence.parse().ok()?);
    (file_name(Shard(shard), sequence) == name).then_some((shard, sequence))
}

/// Stages the outputs and gives them their name. The lock on the staged file keeps a second process (a former owner of the shard that
/// does not know yet) from writing into it; it ends with the file handle.
fn write_file(
    dir: &Path,
    path: &Path,
    first: OutputRef<'_>,
    rest: &mut dyn Iterator<Item = OutputRef<'_>>,
) -> Result<(), FilesError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let staged = dir.join(format!(".{name}.tmp"));
    let file = open_staged(&staged)?;
    if path.exists() {
        fs::remove_file(&staged).map_err(io_error("remove", &staged))?;
        return sync_dir(dir);
    }
    file.set_len(0).map_err(io_error("empty", &staged))?;
    let mut out = BufWriter::with_capacity(64 << 10, &file);
    write_line(&mut out, &first).map_err(io_error("write", &staged))?;
    for output in rest {
        write_line(&mut out, &output).map_err(io_error("write", &staged))?;
    }
    out.flush().map_err(io_error("write", &staged))?;
    drop(out);
    file.sync_all().map_err(io_error("sync", &staged))?;
    fs::rename(&staged, path).map_err(io_error("rename", &staged))?;
    sync_dir(dir)
}

/// Opens and locks the staged file, as a crash may have left it. After the lock the path must still name this file.
fn open_staged(staged: &Path) -> Result<File, FilesError> {
    let options = OpenOptions::new().write(true).create(true).truncate(false).open(staged);
    let file = options.map_err(io_error("create", staged))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(FilesError::Busy {
                path: staged.to_path_buf(),
            });
        }
        Err(TryLockError::Error(e)) => return Err(io_error("lock", staged)(e)),
    }
    let open = file.metadata().map_err(io_error("inspect", staged))?;
    match fs::metadata(staged) {
        Ok(named) if (named.dev(), named.ino()) == (open.dev(), open.ino()) => Ok(file),
        _ => Err(FilesError::Busy {
            path: staged.to_path_buf(),
        }),
    }
}

fn create_dir(dir: &Path) -> Result<(), FilesError> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(io_error("create", dir))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

fn sync_dir(dir: &Path) -> Result<(), FilesError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(io_error("sync", dir))
}
