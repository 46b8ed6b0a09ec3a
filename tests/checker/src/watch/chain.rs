//! Judges one look at the committed pointers after the other.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::WatchReport;
use crate::object::{Link, Object, Position};
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
    /// Bases that have been verified, and the one that could not be at the last look.
    bases: HashSet<u64>,
    suspect: Option<u64>,
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
            bases: HashSet::new(),
            suspect: None,
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
            let (of_this, others): (Vec<_>, Vec<_>) = committed.iter().partition(|c| c.pointer == **text);
            if let Err(error) = self.check(text, &of_this, &others) {
                report.violate(format!("pointer {text:?}: {error:#}"));
            }
        }
        report.bases = self.bases.len() as u64;
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

    fn check(&mut self, text: &str, of_this: &[&Committed], others: &[&Committed]) -> Result<()> {
        let pointer = Pointer::parse(text)?;
        ensure!(pointer.job_hash == self.job_hash, "of another job or stage");
        ensure!(pointer.store_id == self.store_id()?, "of another store");
        // Verified once; that it is still there is looked at each time.
        let object = self.object(pointer.epoch, &pointer.digest)?;
        ensure!(self.path(pointer.epoch).is_file(), "the object is gone");
        for committed in of_this {
            check_position(&object, committed)?;
        }
        self.named.insert(pointer.epoch);
        self.bases(&object)?;
        let mut reached = reached(&object);
        if others.is_empty() {
            if let Some(shard) = self.shards.keys().find(|s| !reached.contains_key(s)) {
                bail!("shard {shard} had a committed section and cannot be reached any more");
            }
        } else {
            self.keep_own(&object, &mut reached, of_this, others)?;
        }
        self.advance(reached)
    }

    /// Every base that the named object's sections name is there and verifies. It may be superseded, and collected, while it is looked at: what is
    /// wrong is one that is named at the next look still.
    fn bases(&mut self, object: &Object) -> Result<()> {
        let suspect = self.suspect.take();
        for (shard, section) in &object.sections {
            let Some(base) = section.base.filter(|base| !self.bases.contains(&base.id)) else {
                continue;
            };
            let stage = self.store.join("jobs").join(&self.job).join(&self.stage);
            match crate::base::verify(&stage, (&self.job, &self.stage), *shard, &base) {
                Ok(()) => drop(self.bases.insert(base.id)),
                Err(error) if suspect == Some(base.id) => {
                    return Err(error.context(format!("base {:016x} of shard {shard}", base.id)));
                }
                Err(_) => self.suspect = Some(base.id),
            }
        }
        Ok(())
    }

    /// With a pointer for each partition, an object speaks for the shards whose partitions name it: what else it holds or links to was
    /// true when it was written, and another instance may have gone on since.
    fn keep_own(
        &mut self,
        object: &Object,
        reached: &mut BTreeMap<u32, (Place, Option<Link>)>,
        of_this: &[&Committed],
        others: &[&Committed],
    ) -> Result<()> {
        let mut unread: Vec<&Committed> = of_this.to_vec();
        let shards: Vec<u32> = reached.keys().copied().collect();
        for shard in shards {
            // What cannot be read need not be there any more, unless it is looked for: then it is missed below.
            let positions = self.positions(object, shard);
            let read = |c: &Committed| {
                let mut positions = positions.iter().flatten();
                positions.find(|p| (&p.topic, p.partition) == (&c.topic, c.partition))
            };
            if positions.is_none() || others.iter().any(|c| read(c).is_some()) {
                reached.remove(&shard);
                continue;
            }
            let mut own = of_this.iter().filter_map(|c| Some((c, read(c)?)));
            own.try_for_each(|(committed, position)| check_offset(committed, position))?;
            unread.retain(|c| read(c).is_none());
        }
        match unread.first() {
            None => Ok(()),
            Some(c) => bail!("it leads to no section that {}/{} was read for", c.topic, c.partition),
        }
    }

    /// How far the partitions of a shard had been read, by its last section that the object knows.
    fn positions(&mut self, object: &Object, shard: u32) -> Option<Vec<Position>> {
        if let Some(section) = object.sections.get(&shard) {
            return Some(section.positions.clone());
        }
        let link = object.last_committed.get(&shard)?;
        let linked = self.object(link.epoch, &link.digest).ok()?;
        linked.sections.get(&shard).map(|s| s.positions.clone())
    }

    /// Sequences only grow, along the links.
    fn advance(&mut self, reached: BTreeMap<u32, (Place, Option<Link>)>) -> Result<()> {
        for (shard, (place, next)) in reached {
            if let Some(before) = self.shards.get(&shard).copied() {
                self.walk(shard, before, place, next)
                    .with_context(|| format!("shard {shard}"))?;
            } else {
                self.walk_to_begin(shard, place, next)
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

    /// Back to the first section, or to those that a base is in the place of.
    fn walk_to_begin(&mut self, shard: u32, place: Place, mut next: Option<Link>) -> Result<()> {
        let begin = self.begin_of(shard, &place);
        let mut at: Option<Place> = None;
        for _ in 0..LINKS_MAX {
            let Some(link) = next else { return Ok(()) };
            if begin.is_some_and(|begin| link.sequence <= begin) {
                return Ok(());
            }
            let from = at.unwrap_or(Place {
                sequence: link.sequence + 1,
                ..Place::from(&link)
            });
            let (reached, parent) = self.follow(shard, &from, &link)?;
            (at, next) = (Some(reached), parent);
        }
        bail!("more than {LINKS_MAX} links to the first section")
    }

    /// The sequence of the base that the last section names.
    fn begin_of(&mut self, shard: u32, place: &Place) -> Option<u64> {
        let object = self.object(place.epoch, &place.digest).ok()?;
        let section = object.sections.get(&shard)?;
        section.base.map(|base| base.sequence)
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

/// The shards that an object leads to: where, and what comes before.
fn reached(object: &Object) -> BTreeMap<u32, (Place, Option<Link>)> {
    let linked = object.last_committed.iter();
    let mut reached: BTreeMap<_, _> = linked
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
    reached
}

/// Where the named object says how far a partition was read, it says what was committed.
fn check_position(object: &Object, committed: &Committed) -> Result<()> {
    let positions = object.sections.values().flat_map(|s| &s.positions);
    let mut of_this = positions.filter(|p| p.topic == committed.topic && p.partition == committed.partition);
    of_this.try_for_each(|position| check_offset(committed, position))
}

fn check_offset(committed: &Committed, position: &Position) -> Result<()> {
    let Committed {
        topic,
        partition,
        offset,
        ..
    } = committed;
    ensure!(
        position.offset == *offset,
        "{topic}/{partition} was committed at {offset}, its object says {}",
        position.offset
    );
    Ok(())
}
