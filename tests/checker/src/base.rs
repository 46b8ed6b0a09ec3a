//! The base of a shard, by `docs/format/base.md`: manifest and pieces are there and have the digests that they are named with.
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::object::{Base, Reader};
use crate::pointer::digest;

const HEAD: &[u8; 8] = b"KFBASEM1";

/// Reads all of a base in the folder of the stage.
///
/// # Errors
/// Says what is missing or does not fit.
pub fn verify(stage: &Path, job: (&str, &str), shard: u32, base: &Base) -> Result<()> {
    let folder = |id: u64| stage.join("bases").join(format!("{id:016x}"));
    let path = folder(base.id).join("manifest");
    let bytes = std::fs::read(&path).with_context(|| format!("the manifest {}", path.display()))?;
    ensure!(
        digest(&bytes) == base.digest,
        "the digest of the manifest is not that in the section"
    );
    let (covered, own) = bytes.split_last_chunk::<16>().context("a manifest that is cut short")?;
    ensure!(digest(covered) == *own, "the manifest's own digest does not fit");
    let rest = covered.strip_prefix(HEAD).context("no begin mark of a manifest")?;
    let mut r = Reader(rest);
    ensure!(r.u32()? as usize == rest.len() - 4, "length of the manifest");
    ensure!(
        (r.text()?.as_str(), r.text()?.as_str()) == job,
        "a base of another job or stage"
    );
    ensure!(
        (r.u64()?, r.u32()?) == (base.id, shard),
        "another base, or of another shard"
    );
    r.u8()?;
    ensure!(r.u64()? == base.sequence, "a base of another section");
    // The epoch and digest of that section.
    r.take(8 + 8 + 16)?;
    let mut total = 0;
    for _ in 0..r.u32()? {
        let (file, offset, length) = (r.text()?, r.u64()?, r.u64()?);
        let (id, number, expected) = (r.u64()?, r.u64()?, r.digest()?);
        let path = folder(id).join(number.to_string());
        let piece =
            std::fs::read(&path).with_context(|| format!("the piece of {file} at {offset}, {}", path.display()))?;
        ensure!(
            piece.len() as u64 == length && digest(&piece) == expected,
            "the piece of {file} at {offset} is not what the manifest says"
        );
        total += length;
    }
    r.end()?;
    ensure!(
        total == base.bytes,
        "the base has {total} bytes, its section says {}",
        base.bytes
    );
    Ok(())
}
