//! A member of a consumer group and what it was given (group mode).

/// Who commits: the identity under which a group's coordinator gave out an assignment. Captured with the assignment and sent with every
/// offset that is committed for it, so that the coordinator refuses what a stale assignment commits (KIP-447, EP-7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The group's generation, 0 or more: a classic group would accept -1 without a look.
    pub generation: i32,
    /// The member's id, not empty: a classic group would accept none without a look.
    pub id: String,
    /// `group.instance.id`, the instance's name (static membership, KIP-345).
    pub instance: String,
}

/// What a member was given in one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Under which identity.
    pub member: GroupMember,
    /// Partitions by topic; may be empty.
    pub partitions: Vec<(String, i32)>,
}
