use std::collections::HashMap;

use super::count::Owners;
use super::group::{instance, partitions};
use crate::pointer::EpochName;

/// One look at partition 0: its owner, if the group is stable, and its pointer.
fn see(owners: &mut Owners, owner: &str, incarnation: u64, n: u64) {
    let members = (!owner.is_empty()).then(|| (owner.to_owned(), vec![0]));
    owners.observe(
        members.into_iter().collect(),
        &HashMap::from([(0, EpochName { incarnation, n })]),
    );
}

/// As many looks, with a commit before each.
fn works(owners: &mut Owners, owner: &str, incarnation: u64, from: u64) {
    (from..from + 3).for_each(|n| see(owners, owner, incarnation, n));
}

fn handovers(owners: &Owners) -> Vec<String> {
    owners.handovers().iter().map(ToString::to_string).collect()
}

#[test]
fn a_handover_is_an_owner_that_commits() {
    let mut owners = Owners::default();
    works(&mut owners, "a", 7, 1);
    assert_eq!(owners.served_by("a"), [0]);
    // Assigned to another one, who has not committed yet.
    see(&mut owners, "b", 7, 3);
    see(&mut owners, "b", 7, 3);
    assert!(handovers(&owners).is_empty() && owners.served_by("b").is_empty());
    works(&mut owners, "b", 8, 1);
    works(&mut owners, "b", 8, 3);
    assert_eq!(handovers(&owners), ["0:a>b"]);
    assert_eq!((owners.served_by("a"), owners.served_by("b")), (vec![], vec![0]));
}

/// An instance came back with a new session, committed, and lost the partition before the next look: its commit was taken for the next
/// owner's, who died before it had one.
#[test]
fn a_last_commit_of_the_former_owner_is_not_the_next_ones() {
    let mut owners = Owners::default();
    works(&mut owners, "a", 7, 1);
    see(&mut owners, "b", 9, 1);
    // Sent before, and committed after the assignment.
    see(&mut owners, "b", 9, 2);
    works(&mut owners, "a", 9, 3);
    assert!(handovers(&owners).is_empty());
    assert_eq!(owners.served_by("a"), [0]);
}

#[test]
fn a_restart_or_a_new_session_of_the_same_instance_is_no_handover() {
    let mut owners = Owners::default();
    works(&mut owners, "a", 7, 1);
    works(&mut owners, "a", 9, 1);
    assert!(handovers(&owners).is_empty());
}

#[test]
fn a_rebalance_that_goes_on_has_no_members_and_changes_nothing() {
    let mut owners = Owners::default();
    works(&mut owners, "a", 7, 1);
    see(&mut owners, "", 7, 3);
    assert!(owners.members().is_empty() && owners.served_by("a").is_empty());
    see(&mut owners, "a", 7, 3);
    assert_eq!(owners.served_by("a"), [0]);
    assert!(handovers(&owners).is_empty());
}

#[test]
fn an_assignment_is_read_and_a_cut_one_refused() {
    let mut bytes = vec![0, 3, 0, 0, 0, 1, 0, 2, b'i', b'n', 0, 0, 0, 2];
    bytes.extend([0, 0, 0, 5, 0, 0, 0, 1]);
    bytes.extend([0xff; 4]);
    assert_eq!(partitions(&bytes), Some(vec![1, 5]));
    assert_eq!(partitions(&bytes[..15]), None);
}

#[test]
fn the_instance_is_the_member_id_without_what_the_coordinator_appends() {
    assert_eq!(instance("a-1b4e28ba-2fa1-11d2-883f-0016d3cca427"), "a");
    assert_eq!(instance("short"), "short");
}
