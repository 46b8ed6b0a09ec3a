//! Two readers of one description: what the engine writes is what the checker, which shares no code with it, reads.
use keyfold::checkpoint::object::encode;
use keyfold::checkpoint::pointer::job_hash;
use keyfold::checkpoint::{Header, Pointer, Section, StateInfo};
use keyfold::state::changes::{Change, ChangeSet};
use keyfold::types::hash::Partitioner;
use keyfold::types::ids::{EpochId, Incarnation, Link, Shard};
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
        outbox_delivered: 0,
        outbox: OutputFrames::default(),
        changes,
    }
}

#[test]
fn an_epoch_object_and_its_pointer_read_the_same_on_both_sides() {
    let first = encode(&header(1, vec![]), &mut [section(0, None, 5), section(3, None, 5)]).expect("encoded");
    let parent = first.links[1].1;
    let second = encode(&header(2, first.links.clone()), &mut [section(3, Some(parent), 9)]).expect("encoded");
    let read = object::Object::verify(&second.parts.concat()).expect("verified");
    assert_eq!((read.digest, read.epoch.n, read.genesis), (second.footer.0, 2, false));
    let read_parent = read.sections[&3].parent.expect("parent");
    assert_eq!((read_parent.digest, read_parent.sequence), (first.footer.0, 0));
    assert_eq!(
        (read_parent.offset, read_parent.length),
        (parent.place.offset, parent.place.len)
    );
    assert_eq!(read.sections[&3].positions[0].offset, 9);
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
