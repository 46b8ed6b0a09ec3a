use super::bytes::Reader;
use super::*;
use crate::checkpoint::store::Layout;
use crate::checkpoint::tests::{History, changes, epoch, header, outbox, section};
use crate::checkpoint::{ObjectPath, Store};
use crate::state::Change;
use crate::types::{Partitioner, Place};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn link(n: u64, sequence: Sequence) -> Link {
    Link {
        epoch: epoch(n),
        footer: Digest::of(b"before"),
        sequence,
        place: Place { offset: 300, len: 80 },
    }
}

/// An object with everything that format 1 can hold.
fn sample() -> (Header, Vec<Section>) {
    let last: BTreeMap<Shard, Link> = (0..4).map(|s| (Shard(s), link(6, 8))).collect();
    let mut first = section(1, Some(link(6, 8)), 1000);
    first.positions.push(Position {
        topic: "also".into(),
        partition: 5,
        offset: 0,
        leader_epoch: -1,
    });
    first.watermark = Some(1_700_000_000_000);
    first.operator_state = vec![1, 2, 3];
    first.outbox_delivered = 7;
    first.outbox = outbox(&["one", "two", "two", "two", "two", "two", "two", "two", "two", "two"]);
    first.changes = changes(&[
        ("b", Some("")),
        ("a", None),
        ("c", Some("sea sea sea sea sea sea sea sea sea sea sea sea")),
    ]);
    (header(7, &last), vec![section(3, Some(link(6, 8)), 12), first])
}

fn sample_bytes() -> (Vec<u8>, EncodedObject) {
    let (header, mut sections) = sample();
    let object = encode(&header, &mut sections).expect("encodes");
    (object.parts.concat(), object)
}

fn list(changes: &ChangeSet) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    changes
        .iter()
        .map(|c| (c.key.to_vec(), c.value.map(<[u8]>::to_vec)))
        .collect()
}

/// Reads everything there is in an object.
fn read_all(bytes: &[u8], expected: Option<Digest>) -> Result<Vec<Section>, ObjectError> {
    let reader = ObjectReader::from_bytes(bytes, "test", expected)?;
    let mut out = Vec::new();
    for entry in reader.sections() {
        out.extend(reader.section(entry.shard)?);
        reader.section_without_changes(entry.shard)?;
    }
    Ok(out)
}

#[test]
fn what_is_encoded_comes_back() {
    let (want_header, want) = sample();
    let (bytes, object) = sample_bytes();
    assert_eq!(object.len(), bytes.len() as u64);
    let reader = ObjectReader::from_bytes(&bytes, "test", Some(object.footer)).expect("opens");
    assert_eq!(reader.header(), &want_header);
    assert_eq!(
        reader.sections().iter().map(|e| (e.shard, e.link)).collect::<Vec<_>>(),
        object.links
    );
    let back = reader.section(Shard(1)).expect("verifies").expect("is there");
    let first = &want[1];
    assert_eq!(
        (back.sequence, back.parent, back.watermark),
        (9, first.parent, first.watermark)
    );
    assert_eq!(
        (back.operator_state, back.outbox_delivered, back.outbox),
        (vec![1, 2, 3], 7, first.outbox.clone())
    );
    assert_eq!(
        back.positions.iter().map(|p| p.topic.as_str()).collect::<Vec<_>>(),
        ["also", "in"]
    );
    let mut sorted = first.changes.clone();
    sorted.sort();
    assert_eq!(list(&back.changes), list(&sorted));
    assert!(reader.section(Shard(0)).expect("no error").is_none());
    assert_eq!(
        reader.link(Shard(0)),
        Some(link(6, 8)),
        "found through the table of last committed sections"
    );
    assert_eq!(reader.link(Shard(1)), Some(object.links[0].1));
    let without = reader
        .section_without_changes(Shard(1))
        .expect("verifies")
        .expect("is there");
    assert_eq!((without.changes.len(), without.sequence), (0, 9));
}

#[test]
fn changes_over_several_blocks_come_back_sorted() {
    let mut set = ChangeSet::default();
    for i in (0..3000u32).rev() {
        set.push(Change {
            key: &i.to_be_bytes(),
            value: Some(&i.to_le_bytes().repeat(200)),
        });
    }
    set.push(Change {
        key: b"zz",
        value: Some(&vec![9; 3 << 20]),
    });
    let sections = &mut [Section {
        changes: set,
        ..section(0, Some(link(6, 8)), 1)
    }];
    let object = encode(&sample().0, sections).expect("encodes");
    let back = read_all(&object.parts.concat(), Some(object.footer)).expect("reads");
    assert_eq!(list(&back[0].changes), list(&sections[0].changes));
    assert_eq!(back[0].changes.len(), 3001);
}

#[test]
fn the_same_pieces_are_read_from_a_store() {
    let mut history = History::new();
    let next = history.next(2, 9, &[("k", Some("v"))]);
    let object = history.put(vec![next]);
    let path = history.layout.epoch(epoch(2));
    let reader = ObjectReader::open(&history.store, &path, Some(object.footer)).expect("opens");
    let section = reader.section(Shard(2)).expect("verifies").expect("is there");
    assert_eq!(list(&section.changes), vec![(b"k".to_vec(), Some(b"v".to_vec()))]);
    let elsewhere = ObjectReader::open(&history.store, &path, Some(Digest::of(b"other")));
    let text = elsewhere.err().expect("refused").to_string();
    assert!(
        text.contains(path.as_str()) && text.contains("the link to it says"),
        "{text}"
    );
    let missing = history.layout.epoch(epoch(99));
    assert!(matches!(
        ObjectReader::open(&history.store, &missing, None),
        Err(ObjectError::Store(_))
    ));
}

#[test]
fn ep_2_every_flipped_bit_is_an_error() {
    let (bytes, object) = sample_bytes();
    assert!(read_all(&bytes, Some(object.footer)).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read_all(&damaged, Some(object.footer)).is_err(), "bit {bit}");
    }
}

#[test]
fn ep_2_every_truncation_and_every_surplus_byte_is_an_error() {
    let (bytes, object) = sample_bytes();
    for len in 0..bytes.len() {
        assert!(read_all(&bytes[..len], Some(object.footer)).is_err(), "{len} bytes");
        assert!(read_all(&bytes[..len], None).is_err(), "{len} bytes, no digest known");
    }
    assert!(read_all(&[&bytes[..], &[0]].concat(), Some(object.footer)).is_err());
    assert!(read_all(&[&[0], &bytes[..]].concat(), Some(object.footer)).is_err());
    let footer_at = bytes.len() - object.parts.last().expect("footer").len();
    let (before, footer) = bytes.split_at(footer_at);
    assert!(
        read_all(&[before, &[0], footer].concat(), Some(object.footer)).is_err(),
        "a gap before the footer"
    );
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (bytes, object) = sample_bytes();
    let at = bytes.len() - 1;
    for place in [7, at] {
        let mut newer = bytes.clone();
        newer[place] = b'2';
        let refused = read_all(&newer, Some(object.footer)).expect_err("refused");
        assert!(refused.to_string().contains("has format 2"), "{refused}");
    }
}

/// Builds the digests anew, so that what lies behind them is reached: a writer with a bug, or an attacker.
fn resealed(change: impl Fn(&mut Vec<u8>)) -> Result<Vec<Section>, ObjectError> {
    let (_, object) = sample_bytes();
    let [head, body, tail, footer] = <[Vec<u8>; 4]>::try_from(object.parts).expect("two sections");
    let mut changed = body.clone();
    change(&mut changed);
    let mut footer_body = footer[..footer.len() - TRAILER_BYTES as usize].to_vec();
    let entry = 1 + 8 + 16 + 4;
    let len = changed.len() as u64;
    footer_body[entry + 20..entry + 28].copy_from_slice(&len.to_be_bytes());
    footer_body[entry + 28..entry + 44].copy_from_slice(&Digest::of(&changed).0);
    let second = head.len() as u64 + len;
    footer_body[entry + 56..entry + 64].copy_from_slice(&second.to_be_bytes());
    let trailer = [&(footer_body.len() as u32).to_be_bytes()[..], END_MAGIC].concat();
    read_all(&[head, changed, tail, footer_body, trailer].concat(), None)
}

#[test]
fn counts_and_lengths_that_do_not_fit_are_errors() {
    assert!(resealed(|_| ()).is_ok());
    let (bytes, object) = (sample_bytes().1.parts[1].clone(), sample_bytes().1);
    assert_eq!(object.parts[1], bytes);
    for at in 0..bytes.len() - 3 {
        let _ = resealed(|b| b[at..at + 4].copy_from_slice(&[0xff; 4]));
        let _ = resealed(|b| b[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]));
    }
    let positions = 4 + 8 + 1 + 56;
    assert!(resealed(|b| b[positions..positions + 4].copy_from_slice(&[0xff; 4])).is_err());
    assert!(resealed(|b| b.truncate(b.len() - 1)).is_err());
    assert!(resealed(|b| b.push(0)).is_err());
    assert!(resealed(|b| b[11] += 1).is_err(), "another sequence than the footer's");
    let base = bytes.windows(3).position(|w| w == [1, 2, 3]).expect("operator state") + 3;
    assert!(resealed(|b| b[base] = 1).is_err(), "a base");
}

/// The byte behind `S` in the header, as docs/format has it.
#[test]
fn partitioners_have_their_numbers_and_others_are_refused() {
    let known = [Partitioner::Murmur2, Partitioner::Crc32, Partitioner::Unknown];
    for (number, partitioner) in (0u8..).zip(known) {
        let (mut header, mut sections) = sample();
        header.groups.partitioner = partitioner;
        let object = encode(&header, &mut sections).expect("encodes");
        let groups = [&960u32.to_be_bytes()[..], &4u32.to_be_bytes(), &[number]].concat();
        let bytes = object.parts.concat();
        assert!(bytes.windows(groups.len()).any(|w| w == groups), "{partitioner:?}");
        let reader = ObjectReader::from_bytes(&bytes, "sample", Some(object.footer)).expect("opens");
        assert_eq!(reader.header().groups, header.groups);
        let decode = |number: u8| {
            let bytes = [&groups[..groups.len() - 1], &[number]].concat();
            decode::decode_groups(&mut Reader::new(&bytes))
        };
        assert_eq!(decode(number), Ok(header.groups));
        assert_eq!(decode(3), Err("partitioner 3 is unknown".to_owned()));
    }
}

proptest! {
    #[test]
    fn random_bytes_in_a_section_never_panic(at in 0usize..400, patch in prop::collection::vec(any::<u8>(), 1..24)) {
        let _ = resealed(|b| {
            let end = (at + patch.len()).min(b.len());
            let start = at.min(end);
            b[start..end].copy_from_slice(&patch[..end - start]);
        });
    }

    #[test]
    fn random_bytes_are_no_object(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_all(&bytes, None).is_err());
    }
}

#[test]
fn what_breaks_a_rule_is_not_written() {
    let parent = Some(link(6, 8));
    let refuse = |header: &Header, mut sections: Vec<Section>, why: &str| {
        let refused = encode(header, &mut sections).expect_err(why).to_string();
        assert!(refused.contains(why), "{refused}");
    };
    let (header, _) = sample();
    refuse(
        &header,
        vec![section(1, parent, 0), section(1, parent, 0)],
        "section of shard 1 twice",
    );
    refuse(&header, vec![section(4, parent, 0)], "shard 4 of 4");
    refuse(
        &header,
        vec![Section {
            sequence: 12,
            ..section(0, parent, 0)
        }],
        "does not follow its parent",
    );
    refuse(
        &header,
        vec![Section {
            watermark: Some(i64::MIN),
            ..section(0, parent, 0)
        }],
        "means none",
    );
    let twice = changes(&[("k", None), ("k", Some("v"))]);
    refuse(
        &header,
        vec![Section {
            changes: twice,
            ..section(0, parent, 0)
        }],
        "state key twice",
    );
    let mut positions = section(0, parent, 0);
    positions.positions.push(positions.positions[0].clone());
    refuse(&header, vec![positions], "twice");
    let genesis = Header {
        genesis: true,
        ..header.clone()
    };
    refuse(&genesis, vec![section(0, parent, 0)], "more than start positions");
    let mut states = header.clone();
    states.states[1].id = 1;
    refuse(&states, Vec::new(), "state id 1 twice");
    let long = Header {
        job: "x".repeat(70_000),
        ..header
    };
    refuse(&long, Vec::new(), "at most 65535");
}

fn fixture(name: &str, header: &Header, mut sections: Vec<Section>) {
    let object = encode(header, &mut sections).expect("encodes");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/format-1")
        .join(name);
    if std::env::var_os("KEYFOLD_WRITE_FIXTURES").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().expect("folder")).expect("create");
        std::fs::write(&path, object.parts.concat()).expect("write");
    }
    let kept = std::fs::read(&path).expect("fixture");
    let reader = ObjectReader::from_bytes(&kept, name, Some(object.footer)).expect("opens");
    assert_eq!(reader.header(), header);
    let back = read_all(&kept, Some(object.footer)).expect("verifies");
    for (found, want) in back.iter().zip(&sections) {
        assert_eq!(
            (found.shard, found.sequence, found.parent),
            (want.shard, want.sequence, want.parent)
        );
        assert_eq!(list(&found.changes), list(&want.changes));
        assert_eq!(found.outbox, want.outbox);
    }
    assert_eq!(back.len(), sections.len());
    assert!(
        kept == object.parts.concat(),
        "{name}: the encoder writes other bytes than the fixture holds"
    );
}

/// Objects of this format lie in the stores of users: this version and every later one reads them. Should a new release of the
/// compressor find other bytes for the same data, the last line of `fixture` is what may change, and only that.
#[test]
fn fixtures_of_format_1_are_read_and_written_byte_by_byte() {
    let (header_7, sections) = sample();
    fixture("epoch-object.bin", &header_7, sections);
    let genesis = header(1, &BTreeMap::new());
    fixture(
        "epoch-object-genesis.bin",
        &genesis,
        (0..4).map(|shard| section(shard, None, i64::from(shard))).collect(),
    );
}

#[test]
fn an_object_is_named_by_its_epoch_and_nothing_else() {
    let layout = Layout::new("orders", "count").expect("valid");
    let path = layout.epoch(epoch(7));
    assert_eq!(path.as_str(), "jobs/orders/count/epochs/0123456789abcdef-7");
    assert_eq!(layout.epoch_of(&path), Some(epoch(7)));
    let other = ObjectPath::new(&["jobs", "orders", "other", "epochs", path.name()]).expect("valid");
    assert_eq!(layout.epoch_of(&other), None);
    let store = History::new().store;
    assert_eq!(store.list(&layout.epochs()).expect("list").len(), 1);
}

/// A base in a section: what a store holds since there are bases.
#[test]
fn a_section_with_a_base_is_kept_in_format_1_and_its_base_must_lie_before_it() {
    use crate::checkpoint::object::Based;
    use crate::types::{BaseId, BaseLink};
    let history = History::new();
    let based = |sequence| Based {
        base: BaseLink {
            id: BaseId(0xba5e),
            digest: Digest::of(b"manifest"),
            sequence,
            bytes: 1 << 40,
        },
        chain_bytes: 77,
    };
    let mut with = history.next(1, 9, &[("k", Some("v"))]);
    with.base = Some(based(0));
    let header = header(2, &history.last);
    fixture("epoch-object-base.bin", &header, vec![with.clone()]);
    let object = encode(&header, &mut [with.clone()]).expect("encodes");
    let bytes = object.parts.concat();
    let read = read_all(&bytes, Some(object.footer)).expect("reads");
    assert_eq!(read[0].base, Some(based(0)));
    with.base = Some(based(1));
    let refused = encode(&header, &mut [with]).expect_err("itself").to_string();
    assert!(refused.contains("not before it"), "{refused}");
}
