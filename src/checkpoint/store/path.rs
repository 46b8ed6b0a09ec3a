//! Names of objects. Every path is built here, from parts that were checked.
use crate::types::{BaseId, EpochId};
use std::fmt;

/// In the name of an unfinished write; no object's name contains it.
pub(super) const TMP_MARK: &str = ".tmp-";

/// A name that docs/format/store.md does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is no valid {what}: 1 to 64 of a-z, 0-9, '-', '_' and '.', not beginning with '.', without \".tmp-\""
)]
pub struct PathError {
    /// The name.
    pub name: String,
    /// What it was to name.
    pub what: &'static str,
}

fn check(name: &str, what: &'static str) -> Result<(), PathError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    let ok = (1..=64).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('.')
        && !name.contains(TMP_MARK);
    if ok {
        Ok(())
    } else {
        Err(PathError {
            name: name.chars().take(80).collect(),
            what,
        })
    }
}

/// The path of an object, or of a folder of objects, inside a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPath(String);

impl ObjectPath {
    /// Joins components.
    ///
    /// # Errors
    /// A component that is not allowed, or none at all.
    pub fn new(components: &[&str]) -> Result<ObjectPath, PathError> {
        if components.is_empty() {
            return Err(PathError {
                name: String::new(),
                what: "object path",
            });
        }
        components.iter().try_for_each(|c| check(c, "part of an object path"))?;
        Ok(ObjectPath(components.join("/")))
    }
    /// The components, joined by slashes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The last component.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }
    /// The components.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
    /// An object right under this folder.
    ///
    /// # Errors
    /// A name that is not allowed.
    pub fn join(&self, name: &str) -> Result<ObjectPath, PathError> {
        check(name, "object name")?;
        Ok(ObjectPath(format!("{}/{name}", self.0)))
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the objects of one stage lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    job: String,
    stage: String,
}

impl Layout {
    /// # Errors
    /// An id that cannot be part of a path.
    pub fn new(job: &str, stage: &str) -> Result<Layout, PathError> {
        check(job, "job id")?;
        check(stage, "stage id")?;
        Ok(Layout {
            job: job.to_owned(),
            stage: stage.to_owned(),
        })
    }
    /// The job's id.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }
    /// The stage's id.
    #[must_use]
    pub fn stage(&self) -> &str {
        &self.stage
    }
    /// The folder of the epoch objects.
    #[must_use]
    pub fn epochs(&self) -> ObjectPath {
        self.folder("epochs")
    }
    /// An epoch object.
    #[must_use]
    pub fn epoch(&self, epoch: EpochId) -> ObjectPath {
        ObjectPath(format!("{}/{epoch}", self.epochs()))
    }
    /// The epoch that an object of [`Layout::epochs`] holds; None when the name is not that of an epoch object.
    #[must_use]
    pub fn epoch_of(&self, path: &ObjectPath) -> Option<EpochId> {
        path.name().parse().ok().filter(|epoch| self.epoch(*epoch) == *path)
    }
    /// The folder of the commit records.
    #[must_use]
    pub fn commits(&self) -> ObjectPath {
        self.folder("commit")
    }
    /// A commit record.
    #[must_use]
    pub fn commit(&self, number: u64) -> ObjectPath {
        ObjectPath(format!("{}/{number:020}", self.commits()))
    }
    /// The number of a commit record; None when the name is not that of one.
    #[must_use]
    pub fn commit_of(&self, path: &ObjectPath) -> Option<u64> {
        path.name().parse().ok().filter(|number| self.commit(*number) == *path)
    }
    /// The folder of all bases.
    #[must_use]
    pub fn bases(&self) -> ObjectPath {
        self.folder("bases")
    }
    /// A base's manifest.
    #[must_use]
    pub fn base_manifest(&self, base: BaseId) -> ObjectPath {
        ObjectPath(format!("{}/{base}/manifest", self.bases()))
    }
    /// A piece of a base's files.
    #[must_use]
    pub fn base_piece(&self, base: BaseId, number: u64) -> ObjectPath {
        ObjectPath(format!("{}/{base}/{number}", self.bases()))
    }
    /// The folder of the pins.
    #[must_use]
    pub fn pins(&self) -> ObjectPath {
        self.folder("pins")
    }
    /// The folder of the objects that the store's clock is read from.
    #[must_use]
    pub fn clock(&self) -> ObjectPath {
        self.folder("clock")
    }
    fn folder(&self, name: &str) -> ObjectPath {
        ObjectPath(format!("jobs/{}/{}/{name}", self.job, self.stage))
    }
}
