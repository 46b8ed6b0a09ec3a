use super::*;
use crate::checkpoint::store::MemoryStore;
use crate::checkpoint::tests::epoch;
use crate::state::{Applied, ImageKind};
use crate::types::BaseId;
use std::path::PathBuf;

fn layout() -> Layout {
    Layout::new("orders", "count").expect("valid")
}

fn piece(file: &str, offset: u64, content: &[u8], base: u64, number: u64) -> Piece {
    Piece {
        file: file.into(),
        offset,
        bytes: content.len() as u64,
        base: BaseId(base),
        number,
        digest: Digest::of(content),
    }
}

fn sample() -> Manifest {
    Manifest {
        job: "orders".into(),
        stage: "count".into(),
        id: BaseId(0xba5e),
        shard: Shard(3),
        kind: ImageKind::RocksDb,
        applied: Applied {
            job: crate::checkpoint::pointer::job_hash("orders", "count"),
            shard: Shard(3),
            sequence: 41,
            epoch: epoch(7),
            footer: Digest::of(b"footer"),
        },
        pieces: vec![
            piece("MANIFEST-000005", 0, b"manifest", 0xba5e, 0),
            piece("000009.sst", 5, b"later", 0x01d, 4),
            piece("CURRENT", 0, b"", 0xba5e, 1),
            piece("000009.sst", 0, b"first", 0x01d, 3),
        ],
    }
}

fn link(bytes: &[u8]) -> BaseLink {
    BaseLink {
        id: BaseId(0xba5e),
        digest: Digest::of(bytes),
        sequence: 41,
        bytes: 18,
    }
}

#[test]
fn the_fixture_of_format_1_is_read_and_written_byte_by_byte() {
    let mut manifest = sample();
    let bytes = manifest.encode().expect("encodes");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1/base-manifest.bin");
    if std::env::var_os("KEYFOLD_WRITE_FIXTURES").is_some() && !path.exists() {
        std::fs::write(&path, &bytes).expect("write");
    }
    let kept = std::fs::read(&path).expect("fixture");
    let path = layout().base_manifest(BaseId(0xba5e));
    assert_eq!(Manifest::decode(&kept, &path), Ok(manifest.clone()));
    assert_eq!(kept, bytes);
    assert_eq!(manifest.bytes(), 18);
    assert_eq!(manifest.pieces[0].file, "000009.sst", "in order of file and place");
    assert_eq!(path.as_str(), "jobs/orders/count/bases/000000000000ba5e/manifest");
}

/// What is not exactly what was written is an error that names the object, whatever bit it is.
#[test]
fn ep_2_every_flipped_bit_and_every_truncation_of_a_manifest_is_an_error() {
    let bytes = sample().encode().expect("encodes");
    let (store, layout) = (MemoryStore::new(1), layout());
    let path = layout.base_manifest(BaseId(0xba5e));
    store.put_new(&path, &[&bytes]).expect("put");
    let read = || manifest_of(&store, &layout, Shard(3), &link(&bytes));
    assert_eq!(read().expect("whole").applied.sequence, 41);
    for bit in 0..bytes.len() * 8 {
        assert!(store.flip(&path, bit));
        let why = read().expect_err("flipped").to_string();
        assert!(why.contains(path.as_str()), "{why}");
        assert!(
            Manifest::decode(&store.get(&path).expect("there"), &path).is_err(),
            "bit {bit}"
        );
        assert!(store.flip(&path, bit));
    }
    for len in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..len], &path).is_err(), "{len}");
    }
    assert!(matches!(
        manifest_of(&store, &layout, Shard(2), &link(&bytes)),
        Err(BaseError::Foreign { .. })
    ));
    store.delete(&path).expect("there");
    assert!(read().expect_err("gone").to_string().contains(path.as_str()));
}

#[test]
fn a_later_format_is_named_and_not_called_damage() {
    let mut bytes = sample().encode().expect("encodes");
    bytes[7] = b'2';
    let path = layout().base_manifest(BaseId(0xba5e));
    assert!(matches!(Manifest::decode(&bytes, &path), Err(BaseError::Newer { .. })));
}

/// All parts together, when they have been verified.
fn piece_of(store: &dyn Store, layout: &Layout, piece: &Piece) -> Result<Vec<u8>, BaseError> {
    let mut bytes = Vec::new();
    let read = read_piece(store, layout, piece, |at, part| {
        bytes.truncate(usize::try_from(at).expect("small"));
        bytes.extend_from_slice(part);
        match bytes.len() as u64 > piece.bytes {
            true => Err("more than it has"),
            false => Ok(()),
        }
    });
    match read {
        Ok(()) => Ok(bytes),
        Err(PieceError::Base(error)) => Err(error),
        Err(PieceError::Taken(why)) => panic!("{why}"),
    }
}

#[test]
fn a_piece_is_verified_before_it_is_used() {
    let (store, layout) = (MemoryStore::new(1), layout());
    let piece = piece("000009.sst", 0, b"content", 7, 3);
    let path = layout.base_piece(BaseId(7), 3);
    assert!(matches!(piece_of(&store, &layout, &piece), Err(BaseError::Store(_))));
    store.put_new(&path, &[b"content"]).expect("put");
    assert_eq!(piece_of(&store, &layout, &piece), Ok(b"content".to_vec()));
    assert!(store.flip(&path, 9));
    let why = piece_of(&store, &layout, &piece).expect_err("flipped").to_string();
    assert!(why.contains(path.as_str()) && why.contains("digest"), "{why}");
    assert!(store.flip(&path, 9) && store.truncate(&path, 6));
    let why = piece_of(&store, &layout, &piece).expect_err("cut").to_string();
    assert!(why.contains(path.as_str()) && why.contains("6 bytes"), "{why}");
}

/// Parts are handed out before the digest is known: a bit that has flipped in any of them is told all the same, and none comes beyond the end.
#[test]
fn a_piece_of_many_parts_is_verified_as_a_whole() {
    let (store, layout) = (MemoryStore::new(1), layout());
    let content: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
    let whole = piece("000009.sst", 0, &content, 7, 3);
    let path = layout.base_piece(BaseId(7), 3);
    store.put_new(&path, &[&content]).expect("put");
    assert_eq!(piece_of(&store, &layout, &whole), Ok(content.clone()));
    for byte in [0, 4_095, 4_096, 12_345, 19_999] {
        assert!(store.flip(&path, byte * 8));
        let why = piece_of(&store, &layout, &whole).expect_err("flipped").to_string();
        assert!(why.contains("digest"), "{why}");
        assert!(store.flip(&path, byte * 8));
    }
    let shorter = piece("000009.sst", 0, &content[..9_000], 7, 3);
    let why = piece_of(&store, &layout, &shorter).expect_err("too long").to_string();
    assert!(why.contains("more than 9000 bytes"), "{why}");
    let mut taken = 0;
    let refused = read_piece(&store, &layout, &whole, |_, _| {
        taken += 1;
        Err("the disk is full")
    });
    assert!(
        matches!(refused, Err(PieceError::Taken("the disk is full"))),
        "{refused:?}"
    );
    assert_eq!(taken, 1, "nobody reads on");
}

/// The store was away in the middle and the read begins anew: what came before counts for nothing.
#[test]
fn a_piece_that_is_read_anew_is_verified_by_what_came_last() {
    let whole = piece("000009.sst", 0, b"content", 7, 3);
    let mut reading = Reading::of(&whole);
    assert!(reading.part(0, b"con") && reading.part(3, b"?"));
    assert!(reading.whole().is_err(), "cut short");
    assert!(reading.part(0, b"cont") && reading.part(4, b"ent"));
    assert_eq!(reading.whole(), Ok(()));
    assert!(reading.part(0, b"conTent"));
    assert!(reading.whole().is_err(), "the last reading counts");
}
