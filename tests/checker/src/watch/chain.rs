//! Judges one look at the committed pointers after the other.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::WatchReport;
use crate::object::{Link, Object};
use crate::pointer::{Digest, EpochName, Pointer};

/// How many links are followed back at most between two looks.
const LINKS_MAX: usize = 100_000;

/// A committed offset and its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The metadata.
    pub pointer: String,
}

/// A committed section: who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    sequence: u64,
    epoch: EpochName,
    digest: Digest,
}

impl From<&Link> for Place {
    fn from(link: &Link) -> Place {
        Place {
            sequence: link.sequence,
            epoch: link.epoch,
            digest: link.digest,
        }
    }
}

#[derive(Deserialize)]
struct StoreFile {
    format: u32,
    id: String,
}

/// What is known of a stage's committed history.
pub struct Chain {
    store: PathBuf,
    job: String,
    stage: String,
    job_hash: String,
    store_id: Option<String>,
    objects: HashMap<EpochName, Rc<Object>>,
    named: HashSet<EpochName>,
    shards: BTreeMap<u32, Place>,
    seen: HashMap<(String, i32), i64>,
}

impl Chain {
    /// Nothing known yet.
    #[must_use]
    pub fn new(store: &Path, job: &str, stage: &str) -> Chain {
        Chain {
            store: store.to_owned(),
            job: job.to_owned(),
            stage: stage.to_owned(),
            job_hash: Pointer::job_hash_of(job, stage),
            store_id: None,
            objects: HashMap::new(),
            named: HashSet::new(),
            shards: BTreeMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Judges one look at all partitions.
    pub fn observe(&mut self, committed: &[Committed], report: &mut WatchReport) {
        for error in self.offsets(committed) {
            report.violate(error);
        }
        let mut pointers: Vec<&str> = committed.iter().map(|c| c.pointer.as_str()).collect();
        pointers.sort_unstable();
        pointers.dedup();
        for text in &pointers {
            report.checks += 1;
            let of_this = committed.iter().filter(|c| c.pointer == **text);
            if let Err(error) = self.check(text, of_this, pointers.len() == 1) {
                report.violate(format!("pointer {text:?}: {error:#}"));
            }
        }
        report.epochs = self.named.len() as u64;
        report.objects = self.objects.len() as u64;
    }

    /// Committed offsets neither vanish nor go back.
    fn offsets(&mut self, committed: &[Committed]) -> Vec<String> {
        let mut errors = Vec::new();
        let now: HashMap<(String, i32), i64> = committed
            .iter()
            .map(|c| ((c.topic.clone(), c.partition), c.offset))
            .collect();
        for (place, before) in &self.seen {
            match now.get(place) {
                None => errors.push(format!("the committed offset of {}/{} has vanished", place.0, place.1)),
                Some(offset) if offset < before => {
                    errors.push(format!(
                        "the committed offset of {}/{} went from {before} to {offset}",
                        place.0, place.1
                    ));
                }
                Some(_) => {}
            }
        }
        self.seen.extend(now);
        errors
    }

    fn check<'a>(&mut self, text: &str, of: impl Iterator<Item = &'a Committed>, only: bool) -> Result<()> {
        let pointer = Pointer::parse(text)?;
        ensure!(pointer.job_hash == self.job_hash, "of another job or stage");
        ensure!(pointer.store_id == self.store_id()?, "of another store");
        // Verified once; that it is still there is looked at each time.
        let object = self.object(pointer.epoch, &pointer.digest)?;
        ensure!(self.path(pointer.epoch).is_file(), "the object is gone");
        for committed in of {
            check_position(&object, committed)?;
        }
        self.named.insert(pointer.epoch);
        self.advance(&object, only)
    }

    /// Sequences only grow, along the links.
    fn advance(&mut self, object: &Object, only: bool) -> Result<()> {
        let mut reached: BTreeMap<u32, (Place, Option<Link>)> = object
            .last_committed
            .iter()
            .map(|(shard, link)| (*shard, (Place::from(link), Some(*link))))
            .collect();
        for (shard, section) in &object.sections {
            let place = Place {
                sequence: section.sequence,
                epoch: object.epoch,
                digest: object.digest,
            };
            reached.insert(*shard, (place, section.parent));
        }
        if only && let Some(shard) = self.shards.keys().find(|s| !reached.contains_key(s)) {
            bail!("shard {shard} had a committed section and cannot be reached any more");
        }
        for (shard, (place, next)) in reached {
            if let Some(before) = self.shards.get(&shard).copied() {
                self.walk(shard, before, place, next)
                    .with_context(|| format!("shard {shard}"))?;
            } else {
                self.walk_to_genesis(shard, next)
                    .with_context(|| format!("shard {shard}"))?;
            }
            self.shards.insert(shard, place);
        }
        Ok(())
    }

    /// From `place` back to what was committed before; every link on the way leads to a verified section.
    fn walk(&mut self, shard: u32, before: Place, place: Place, mut next: Option<Link>) -> Result<()> {
        ensure!(
            place.sequence >= before.sequence,
            "sequence went back from {} ({}) to {} ({})",
            before.sequence,
            before.epoch,
            place.sequence,
            place.epoch
        );
        let mut at = place;
        for _ in 0..LINKS_MAX {
            if at.sequence == before.sequence {
                ensure!(
                    at == before,
                    "sequence {} is {} now and was {}",
                    at.sequence,
                    at.epoch,
                    before.epoch
                );
                return Ok(());
            }
            let link = next.with_context(|| format!("sequence {} has no parent", at.sequence))?;
            (at, next) = self.follow(shard, &at, &link)?;
        }
        bail!("more than {LINKS_MAX} links since the last look")
    }

    fn walk_to_genesis(&mut self, shard: u32, mut next: Option<Link>) -> Result<()> {
        let mut at: Option<Place> = None;
        for _ in 0..LINKS_MAX {
            let Some(link) = next else { return Ok(()) };
            let from = at.unwrap_or(Place {
                sequence: link.sequence + 1,
                ..Place::from(&link)
            });
            let (reached, parent) = self.follow(shard, &from, &link)?;
            (at, next) = (Some(reached), parent);
        }
        bail!("more than {LINKS_MAX} links to the first section")
    }

    /// One link; what it names, and that section's own parent. A link to the very section that it comes from (an
    /// entry of "last committed") stays in place.
    fn follow(&mut self, shard: u32, from: &Place, link: &Link) -> Result<(Place, Option<Link>)> {
        let same = Place::from(link) == *from;
        ensure!(
            same || link.sequence + 1 == from.sequence,
            "sequence {} has the parent {}",
            from.sequence,
            link.sequence
        );
        let object = self
            .object(link.epoch, &link.digest)
            .with_context(|| format!("link to {}", link.epoch))?;
        let section = object
            .sections
            .get(&shard)
            .with_context(|| format!("{} has no section of it", link.epoch))?;
        ensure!(
            section.sequence == link.sequence,
            "{} has another sequence than its link",
            link.epoch
        );
        let place = (section.offset, section.length);
        ensure!(
            place == (link.offset, link.length),
            "{} has the section in another place",
            link.epoch
        );
        Ok((Place::from(link), section.parent))
    }

    fn object(&mut self, epoch: EpochName, expected: &Digest) -> Result<Rc<Object>> {
        if let Some(object) = self.objects.get(&epoch) {
            ensure!(
                object.digest == *expected,
                "the digest of {epoch} is not that of its footer"
            );
            return Ok(object.clone());
        }
        let path = self.path(epoch);
        let bytes = std::fs::read(&path).with_context(|| format!("the object {epoch} cannot be read"))?;
        let object = Object::verify(&bytes).with_context(|| format!("the object {epoch}"))?;
        ensure!(
            object.digest == *expected,
            "the digest of {epoch} is not that of its footer"
        );
        ensure!(
            object.epoch == epoch,
            "the object {epoch} says that it is {}",
            object.epoch
        );
        ensure!(
            (&object.job, &object.stage) == (&self.job, &self.stage),
            "{epoch} belongs to another job or stage"
        );
        let object = Rc::new(object);
        self.objects.insert(epoch, object.clone());
        Ok(object)
    }

    fn path(&self, epoch: EpochName) -> PathBuf {
        self.store
            .join("jobs")
            .join(&self.job)
            .join(&self.stage)
            .join("epochs")
            .join(epoch.to_string())
    }

    fn store_id(&mut self) -> Result<String> {
        if let Some(id) = &self.store_id {
            return Ok(id.clone());
        }
        let text = std::fs::read(self.store.join("store.json")).context("store.json")?;
        let file: StoreFile = serde_json::from_slice(&text).context("store.json")?;
        ensure!(file.format == 1, "store.json has format {}", file.format);
        self.store_id = Some(file.id.clone());
        Ok(file.id)
    }
}

/// Where the named object says how far a partition was read, it says what was committed.
fn check_position(object: &Object, committed: &Committed) -> Result<()> {
    let Committed {
        topic,
        partition,
        offset,
        ..
    } = committed;
    let positions = object.sections.values().flat_map(|s| &s.positions);
    let mut of_this = positions.filter(|p| p.topic == *topic && p.partition == *partition);
    if let Some(other) = of_this.find(|p| p.offset != *offset) {
        bail!(
            "{topic}/{partition} was committed at {offset}, its object says {}",
            other.offset
        );
    }
    Ok(())
}
