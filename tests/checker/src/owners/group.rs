//! What the broker says about the group: its members by instance name, and their partitions.
use std::collections::BTreeMap;

use rdkafka::groups::GroupInfo;

/// The state in which the assignment of all members is known to them.
const STABLE: &str = "Stable";

/// The coordinator appends `-<UUID>` to a static member's name and calls it the member's id.
const SUFFIX: usize = 37;

/// The members with their partitions (of all topics alike); none while the group rebalances.
pub(super) fn members(group: &GroupInfo) -> BTreeMap<String, Vec<i32>> {
    if group.state() != STABLE {
        return BTreeMap::new();
    }
    let member = |m: &rdkafka::groups::GroupMemberInfo| {
        let partitions = m.assignment().and_then(partitions).unwrap_or_default();
        (instance(m.id()), partitions)
    };
    group.members().iter().map(member).collect()
}

/// The instance's name in a static member's id.
pub(super) fn instance(member: &str) -> String {
    let name = member.len().checked_sub(SUFFIX).and_then(|end| member.get(..end));
    name.unwrap_or(member).to_owned()
}

/// The partitions in a member's assignment, by the consumer protocol: version, topics * { name, partitions }, user data.
pub(super) fn partitions(assignment: &[u8]) -> Option<Vec<i32>> {
    let mut rest = assignment;
    let mut found = Vec::new();
    take::<2>(&mut rest)?;
    for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
        let name = i16::from_be_bytes(take(&mut rest)?);
        rest = rest.get(usize::try_from(name).ok()?..)?;
        for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
            found.push(i32::from_be_bytes(take(&mut rest)?));
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (front, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*front)
}
