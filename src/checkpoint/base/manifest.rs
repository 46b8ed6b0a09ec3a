//! The manifest of a base as bytes.
use super::BaseError;
use crate::checkpoint::object::bytes::{Reader, Reason, put_count32, put_epoch, put_str16};
use crate::checkpoint::pointer::job_hash;
use crate::checkpoint::store::ObjectPath;
use crate::state::{Applied, ImageKind};
use crate::types::{BaseId, Digest, Shard};

const MAGIC: &[u8; 8] = b"KFBASEM1";
const DIGEST_BYTES: usize = 16;
/// An empty name, place, length, object and digest.
const PIECE_LEAST: usize = 2 + 8 + 8 + 8 + 8 + 16;

/// A part of one of a base's files, an object of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file's name in the local copy.
    pub file: String,
    /// Where it lies in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// The base that it was written for: this one, or an earlier one that had the same piece.
    pub base: BaseId,
    /// Its number among the pieces of that base.
    pub number: u64,
    /// Digest of its bytes.
    pub digest: Digest,
}

/// What a base consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The job's id.
    pub job: String,
    /// The stage's id.
    pub stage: String,
    /// The base.
    pub id: BaseId,
    /// The shard.
    pub shard: Shard,
    /// What kind of local copy it was made from.
    pub kind: ImageKind,
    /// The section that it equals.
    pub applied: Applied,
    /// All pieces, in order of file and place; the pieces of a file lie one behind the other.
    pub pieces: Vec<Piece>,
}

impl Manifest {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.bytes).sum()
    }

    /// As it lies in the store; sorts the pieces.
    ///
    /// # Errors
    /// Names or counts that the format does not take.
    pub fn encode(&mut self) -> Result<Vec<u8>, Reason> {
        self.pieces
            .sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
        let mut body = Vec::with_capacity(256 + self.pieces.len() * 80);
        put_str16(&mut body, &self.job)?;
        put_str16(&mut body, &self.stage)?;
        body.extend_from_slice(&self.id.0.to_be_bytes());
        body.extend_from_slice(&self.shard.0.to_be_bytes());
        body.push(self.kind.number());
        body.extend_from_slice(&self.applied.sequence.to_be_bytes());
        put_epoch(&mut body, &self.applied.epoch);
        body.extend_from_slice(&self.applied.footer.0);
        put_count32(&mut body, self.pieces.len(), "pieces")?;
        for piece in &self.pieces {
            put_str16(&mut body, &piece.file)?;
            for field in [piece.offset, piece.bytes, piece.base.0, piece.number] {
                body.extend_from_slice(&field.to_be_bytes());
            }
            body.extend_from_slice(&piece.digest.0);
        }
        let mut out = MAGIC.to_vec();
        put_count32(&mut out, body.len(), "bytes of a manifest")?;
        out.append(&mut body);
        let digest = Digest::of(&out);
        out.extend_from_slice(&digest.0);
        Ok(out)
    }

    /// Reads it; strict.
    ///
    /// # Errors
    /// [`BaseError::Damaged`] or [`BaseError::Newer`], naming the path.
    pub fn decode(bytes: &[u8], path: &ObjectPath) -> Result<Manifest, BaseError> {
        check_magic(bytes, path)?;
        decode(bytes).map_err(|reason| super::damaged(path, reason))
    }
}

/// The last byte is the format's number: a later one is named, anything else is damage.
pub(super) fn check_magic(bytes: &[u8], path: &ObjectPath) -> Result<(), BaseError> {
    match bytes.get(..8) {
        Some(found) if found == MAGIC => Ok(()),
        Some([stem @ .., format @ b'2'..=b'9']) if MAGIC.starts_with(stem) => Err(BaseError::Newer {
            path: path.to_string(),
            format: char::from(*format).to_string(),
        }),
        _ => Err(super::damaged(
            path,
            "it does not begin like a manifest; it may be cut short",
        )),
    }
}

fn decode(bytes: &[u8]) -> Result<Manifest, Reason> {
    let body_end = bytes.len().checked_sub(DIGEST_BYTES).ok_or("it is cut short")?;
    let (covered, digest) = bytes.split_at_checked(body_end).ok_or("it is cut short")?;
    if Digest::of(covered).0 != *digest {
        return Err("its digest does not fit its bytes".into());
    }
    let mut r = Reader::new(covered.get(MAGIC.len()..).ok_or("it is cut short")?);
    if r.u32("length")? as usize != r.left() {
        return Err("its length does not fit".into());
    }
    let (job, stage) = (r.str16("job")?, r.str16("stage")?);
    let id = BaseId(r.u64("id")?);
    let shard = Shard(r.u32("shard")?);
    let manifest = Manifest {
        id,
        shard,
        kind: ImageKind::of_number(r.u8("kind")?).ok_or("its kind is unknown")?,
        applied: Applied {
            job: job_hash(&job, &stage),
            shard,
            sequence: r.u64("sequence")?,
            epoch: r.epoch()?,
            footer: r.digest("footer digest")?,
        },
        pieces: decode_pieces(&mut r)?,
        job,
        stage,
    };
    r.end("manifest")?;
    Ok(manifest)
}

fn decode_pieces(r: &mut Reader<'_>) -> Result<Vec<Piece>, Reason> {
    let count = r.u32("pieces")?;
    let mut last: Option<(String, u64)> = None;
    r.items(count.into(), PIECE_LEAST, "pieces", |r| {
        let piece = Piece {
            file: r.str16("file")?,
            offset: r.u64("offset")?,
            bytes: r.u64("bytes")?,
            base: BaseId(r.u64("base of a piece")?),
            number: r.u64("number of a piece")?,
            digest: r.digest("digest of a piece")?,
        };
        let end = piece.offset.checked_add(piece.bytes).ok_or("a piece is too long")?;
        let begins_where = match &last {
            Some((file, end)) if *file == piece.file => *end,
            Some((file, _)) if *file > piece.file => return Err("files are not in order".into()),
            _ => 0,
        };
        if piece.offset != begins_where {
            return Err(format!("the pieces of {} do not lie one behind the other", piece.file));
        }
        last = Some((piece.file.clone(), end));
        Ok(piece)
    })
}
