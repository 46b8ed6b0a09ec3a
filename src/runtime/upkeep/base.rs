//! Makes one base, beside the commit path: an image of the copy, piece by piece into the store, then the manifest.
use super::chains::{Digests, Pending};
use crate::checkpoint::base::{Manifest, PIECE_BYTES, Piece, manifest_of};
use crate::checkpoint::protocol::{is_young, third};
use crate::checkpoint::store::{Layout, ObjectPath, Store, StoreError, StoreErrorKind, random};
use crate::checkpoint::store_clock;
use crate::runtime::backoff::Patience;
use crate::state::{Backend, Image, ImageFile, ImageKind, StateError};
use crate::testing::Faults;
use crate::testing::faults::Injected;
use crate::types::{BaseId, BaseLink, Digest, Shard};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two tries of a put. The driver's own back-off would be a sign of life, and is for what an epoch waits for.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);
const SLICE: Duration = Duration::from_millis(20);

/// Why there is no base.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoBase {
    #[error("nobody needs it any more")]
    Cancelled,
    #[error("it was not complete within a third of checkpoint_grace: raise that, or use a faster store")]
    TooLate,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Copy(#[from] StateError),
    #[error("{0}")]
    Other(String),
    #[error(transparent)]
    Injected(#[from] Injected),
}

/// What making a base needs.
pub(super) struct BaseTask {
    pub store: Arc<dyn Store>,
    pub layout: Layout,
    pub shard: Shard,
    pub kind: ImageKind,
    /// The base that is named by the committed section: its pieces are there, and are used again.
    pub before: Option<BaseLink>,
    /// Taken out under its lock once the image is there, so that whoever cancels can close the copy.
    pub copy: Arc<Mutex<Option<Arc<dyn Backend>>>>,
    pub cancelled: Arc<AtomicBool>,
    pub digests: Digests,
    pub grace: Duration,
    pub patience: Patience,
    pub faults: Faults,
}

/// A piece by its length and digest, and where it lies.
type Known = HashMap<(u64, Digest), (BaseId, u64)>;

impl BaseTask {
    /// Makes it; what is known of the files comes back in any case.
    pub fn run(mut self) -> (Result<Pending, NoBase>, Digests) {
        let made = self.make();
        (made, std::mem::take(&mut self.digests))
    }

    fn make(&mut self) -> Result<Pending, NoBase> {
        let until = self.patience.clock.elapsed() + third(self.grace);
        let begun_ms = self.store_now(until)?;
        let image = self.image()?;
        self.faults.at("base_imaged")?;
        if image
            .files()
            .iter()
            .any(|file| file.lasts && !self.digests.contains_key(&file.name))
        {
            image.verify()?;
        }
        let known = self.known();
        let id = BaseId(random().map_err(|e| NoBase::Other(format!("no random numbers from the system: {e}")))?);
        let mut pieces = Vec::new();
        for file in image.files() {
            self.file(image.as_ref(), file, (id, until), &known, &mut pieces)?;
        }
        self.digests
            .retain(|name, _| image.files().iter().any(|file| file.name == *name));
        let mut manifest = Manifest {
            job: self.layout.job().to_owned(),
            stage: self.layout.stage().to_owned(),
            id,
            shard: self.shard,
            kind: self.kind,
            applied: image.applied(),
            pieces,
        };
        drop(image);
        let bytes = manifest.encode().map_err(NoBase::Other)?;
        self.put(&self.layout.base_manifest(id), &bytes, until)?;
        self.faults.at("base_manifest_put")?;
        let now_ms = self.store_now(until)?;
        // EP-9: what took longer may be garbage by now, if another clock is ahead of ours.
        if !is_young(now_ms.saturating_sub(begun_ms), self.grace) && !self.faults.broken("EP-9") {
            return Err(NoBase::TooLate);
        }
        let link = BaseLink {
            id,
            digest: Digest::of(&bytes),
            sequence: manifest.applied.sequence,
            bytes: manifest.bytes(),
        };
        Ok(Pending { link, until })
    }

    fn image(&self) -> Result<Box<dyn Image>, NoBase> {
        let mut copy = self.copy.lock();
        let image = copy.as_ref().ok_or(NoBase::Cancelled)?.image();
        *copy = None;
        Ok(image?)
    }

    /// Pieces of the base in force. One that cannot be read is not built on: the new base stands by itself then.
    fn known(&self) -> Known {
        let Some(before) = &self.before else {
            return Known::new();
        };
        match manifest_of(self.store.as_ref(), &self.layout, self.shard, before) {
            Ok(manifest) => {
                let place = |p: Piece| ((p.bytes, p.digest), (p.base, p.number));
                manifest.pieces.into_iter().map(place).collect()
            }
            Err(error) => {
                tracing::warn!(shard = %self.shard, %error, "the base in force cannot be read, all of the next one is written");
                Known::new()
            }
        }
    }

    fn file(
        &mut self,
        image: &dyn Image,
        file: &ImageFile,
        (id, until): (BaseId, Duration),
        known: &Known,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), NoBase> {
        let mut digests = self
            .digests
            .remove(&file.name)
            .filter(|_| file.lasts)
            .unwrap_or_default();
        let mut offset = 0;
        let mut index = 0;
        // An empty file has one empty piece: it has to be there.
        while offset < file.bytes || index == 0 {
            self.go_on(until)?;
            let bytes = (file.bytes - offset).min(PIECE_BYTES as u64);
            let digest = digests.get(index).copied();
            let place = digest.and_then(|digest| known.get(&(bytes, digest)));
            let (digest, place) = match (digest, place) {
                (Some(digest), Some(place)) => (digest, *place),
                _ => self.piece((image, file, offset, bytes), (id, pieces.len() as u64, until), known)?,
            };
            if index == digests.len() {
                digests.push(digest);
            }
            pieces.push(Piece {
                file: file.name.clone(),
                offset,
                bytes,
                base: place.0,
                number: place.1,
                digest,
            });
            offset += bytes;
            index += 1;
        }
        if file.lasts {
            self.digests.insert(file.name.clone(), digests);
        }
        Ok(())
    }

    /// Reads a piece, and writes it unless the base in force has the same.
    fn piece(
        &self,
        (image, file, offset, bytes): (&dyn Image, &ImageFile, u64, u64),
        (id, number, until): (BaseId, u64, Duration),
        known: &Known,
    ) -> Result<(Digest, (BaseId, u64)), NoBase> {
        let read = image.read(&file.name, offset, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        if read.len() as u64 != bytes {
            return Err(NoBase::Other(format!("{} of the image is cut short", file.name)));
        }
        let digest = Digest::of(&read);
        if let Some(place) = known.get(&(bytes, digest)) {
            return Ok((digest, *place));
        }
        self.put(&self.layout.base_piece(id, number), &read, until)?;
        self.faults.at("base_piece_put")?;
        Ok((digest, (id, number)))
    }

    fn go_on(&self, until: Duration) -> Result<(), NoBase> {
        if self.cancelled.load(Ordering::SeqCst) {
            return Err(NoBase::Cancelled);
        }
        if self.patience.clock.elapsed() > until && !self.faults.broken("EP-9") {
            return Err(NoBase::TooLate);
        }
        Ok(())
    }

    fn put(&self, path: &ObjectPath, bytes: &[u8], until: Duration) -> Result<(), NoBase> {
        self.tried(until, || self.store.put_new(path, &[bytes]))?;
        self.patience.metrics.base_written(bytes.len() as u64);
        Ok(())
    }

    fn store_now(&self, until: Duration) -> Result<i64, NoBase> {
        self.tried(until, || store_clock::now_ms(self.store.as_ref(), &self.layout))
    }

    /// Calls the store again and again, as long as there is time for it.
    fn tried<T>(&self, until: Duration, call: impl Fn() -> Result<T, StoreError>) -> Result<T, NoBase> {
        let mut wait = FIRST;
        loop {
            match call() {
                Ok(done) => return Ok(done),
                Err(e) if e.kind() != StoreErrorKind::Retriable => return Err(e.into()),
                Err(why) => {
                    tracing::warn!(step = "base", backoff_ms = wait.as_millis() as u64, %why, "trying again");
                    self.patience.metrics.retry("base", wait);
                }
            }
            let mut waited = Duration::ZERO;
            while waited < wait {
                self.go_on(until)?;
                std::thread::sleep(SLICE);
                waited += SLICE;
            }
            wait = (wait * 2).min(LONGEST);
        }
    }
}
