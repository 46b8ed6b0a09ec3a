//! Two readers of one description: what the engine writes is what the checker, which shares no code with it, reads.
use keyfold::checkpoint::object::{Based, encode};
use keyfold::checkpoint::pointer::job_hash;
use keyfold::checkpoint::{Header, Pointer, Section, StateInfo};
use keyfold::state::changes::{Change, ChangeSet};
use keyfold::types::hash::Partitioner;
use keyfold::types::ids::{BaseId, BaseLink, Digest, EpochId, Incarnation, Link, Shard};
use keyfold::types::key_groups::KeyGroups;
use keyfold::types::output::OutputFrames;
use keyfold::types::position::{Position, TopicInfo};
use keyfold_checker::{object, pointer};

fn header(n: u64, last: Vec<(Shard, Link)>) -> Header {
    Header {
        job: "job".into(),
        stage: "stage".into(),
        epoch: EpochId {
            incarnation: Incarnation(0xab),
            n,
        },
        genesis: last.is_empty(),
        topology: 7,
        groups: KeyGroups::new(960, 4, Partitioner::Murmur2).expect("groups"),
        topics: vec![TopicInfo {
            topic: "in".into(),
            id: [3; 16],
            partitions: 4,
        }],
        states: vec![StateInfo {
            id: 1,
            operator: "sum".into(),
            name: "total".into(),
            schema: "i64".into(),
        }],
        outbox_sinks: vec![(1, "out".into())],
        last_committed: last,
    }
}

fn section(shard: u32, parent: Option<Link>, offset: i64) -> Section {
    let mut changes = ChangeSet::default();
    // A first section holds start positions and nothing else.
    let changed: &[(&str, Option<&str>)] = if parent.is_some() {
        &[("b", Some("2")), ("a", None)]
    } else {
        &[]
    };
    for (key, value) in changed {
        changes.push(Change {
            key: key.as_bytes(),
            value: value.map(str::as_bytes),
        });
    }
    Section {
        shard: Shard(shard),
        sequence: parent.map_or(0, |p| p.sequence + 1),
        parent,
        positions: vec![Position {
            topic: "in".into(),
            partition: 2,
            offset,
            leader_epoch: 0,
        }],
        watermark: None,
        operator_state: Vec::new(),
        base: None,
        outbox_delivered: 0,
        outbox: OutputFrames::default(),
        changes,
    }
}

#[test]
fn an_epoch_object_and_its_pointer_read_the_same_on_both_sides() {
    let first = encode(&header(1, vec![]), &mut [section(0, None, 5), section(3, None, 5)]).expect("encoded");
    let parent = first.links[1].1;
    let base = BaseLink {
        id: BaseId(0xba5e),
        digest: Digest([4; 16]),
        sequence: 0,
        bytes: 12,
    };
    let mut based = section(3, Some(parent), 9);
    based.base = Some(Based { base, chain_bytes: 5 });
    let second = encode(&header(2, first.links.clone()), &mut [based]).expect("encoded");
    let read = object::Object::verify(&second.parts.concat()).expect("verified");
    assert_eq!((read.digest, read.epoch.n, read.genesis), (second.footer.0, 2, false));
    let read_parent = read.sections[&3].parent.expect("parent");
    assert_eq!((read_parent.digest, read_parent.sequence), (first.footer.0, 0));
    assert_eq!(
        (read_parent.offset, read_parent.length),
        (parent.place.offset, parent.place.len)
    );
    assert_eq!(read.sections[&3].positions[0].offset, 9);
    let read_base = read.sections[&3].base.expect("named");
    assert_eq!(
        (read_base.id, read_base.digest, read_base.sequence, read_base.bytes),
        (0xba5e, [4; 16], 0, 12)
    );
    assert_eq!(read.last_committed.keys().copied().collect::<Vec<_>>(), [0, 3]);

    let epoch = EpochId {
        incarnation: Incarnation(0xab),
        n: 2,
    };
    let written = Pointer {
        job: job_hash("job", "stage"),
        store: 0xc0ffee,
        epoch,
        footer: second.footer,
    };
    let read = pointer::Pointer::parse(&written.to_string()).expect("parsed");
    assert_eq!(read.job_hash, pointer::Pointer::job_hash_of("job", "stage"));
    assert_eq!(
        (read.epoch.to_string(), read.digest),
        (epoch.to_string(), second.footer.0)
    );
}

/// A base as a run of the engine makes it, read by the checker.
#[test]
fn a_base_reads_the_same_on_both_sides() {
    use keyfold::checkpoint::base::{Manifest, Piece};
    use keyfold::state::{Applied, ImageKind};
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join("bases/000000000000ba5e");
    std::fs::create_dir_all(&folder).expect("made");
    let piece = |number: u64, offset: u64, content: &[u8]| {
        std::fs::write(folder.join(number.to_string()), content).expect("written");
        Piece {
            file: "000009.sst".into(),
            offset,
            bytes: content.len() as u64,
            base: BaseId(0xba5e),
            number,
            digest: Digest::of(content),
        }
    };
    let mut manifest = Manifest {
        job: "job".into(),
        stage: "stage".into(),
        id: BaseId(0xba5e),
        shard: Shard(3),
        kind: ImageKind::RocksDb,
        applied: Applied {
            job: job_hash("job", "stage"),
            shard: Shard(3),
            sequence: 8,
            epoch: EpochId {
                incarnation: Incarnation(1),
                n: 2,
            },
            footer: Digest([7; 16]),
        },
        pieces: vec![piece(0, 0, b"first"), piece(1, 5, b"second")],
    };
    let bytes = manifest.encode().expect("encoded");
    std::fs::write(folder.join("manifest"), &bytes).expect("written");
    let base = object::Base {
        id: 0xba5e,
        digest: Digest::of(&bytes).0,
        sequence: 8,
        bytes: 11,
    };
    let verify = || keyfold_checker::base::verify(dir.path(), ("job", "stage"), 3, &base);
    verify().expect("the same");
    std::fs::write(folder.join("1"), b"secone").expect("written");
    assert!(verify().is_err(), "a piece that is another one");
}
