use super::builder::{Part, build};
use super::*;

fn sample() -> Vec<u8> {
    let first = build(
        "job",
        "stage",
        1,
        &[],
        &[Part {
            shard: 2,
            sequence: 0,
            parent: None,
            offset: 0,
        }],
    );
    let parent = Some(first.links[0].1);
    let parts = [
        Part {
            shard: 0,
            sequence: 0,
            parent: None,
            offset: 5,
        },
        Part {
            shard: 2,
            sequence: 1,
            parent,
            offset: 9,
        },
    ];
    build("job", "stage", 2, &first.links, &parts).bytes
}

#[test]
fn a_right_object_verifies() {
    let object = Object::verify(&sample()).expect("valid");
    assert_eq!(
        (object.job.as_str(), object.stage.as_str(), object.epoch.n),
        ("job", "stage", 2)
    );
    assert_eq!(object.last_committed[&2].epoch.n, 1);
    assert_eq!(object.sections[&2].parent.map(|p| p.sequence), Some(0));
    let position = Position {
        topic: "in".into(),
        partition: 2,
        offset: 9,
    };
    assert_eq!(object.sections[&2].positions, vec![position]);
}

#[test]
fn every_flipped_byte_is_found_or_changes_the_footers_digest() {
    let bytes = sample();
    let right = Object::verify(&bytes).expect("valid").digest;
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        if let Ok(object) = Object::verify(&bad) {
            assert_ne!(object.digest, right, "byte {at}");
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let bytes = sample();
    for length in 0..bytes.len() {
        assert!(Object::verify(&bytes[..length]).is_err(), "{length} bytes");
    }
}
