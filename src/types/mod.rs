//! Terms shared by the whole engine. Imports nothing of the engine.
pub mod clock;
pub mod codec;
pub mod group;
pub mod hash;
pub mod ids;
pub mod key_groups;
pub mod output;
pub mod position;
pub mod record;
pub mod utc;
pub mod watermark;

pub use clock::{Clock, SystemClock};
pub use codec::{Codec, CodecError};
pub use group::{Assignment, GroupMember};
pub use hash::Partitioner;
pub use ids::{BaseId, BaseLink, Digest, Digesting, EpochId, Incarnation, Link, Place, Sequence, Shard, Shards};
pub use key_groups::{KeyGroup, KeyGroups, Misplaced, Sharding};
pub use output::{OutputFrames, OutputRef};
pub use position::{Position, TopicInfo};
pub use record::{Header, Headers, NoHeaders, Origin, Original, OwnedOriginal, RecordRef, TimestampMs};
pub use utc::Utc;
pub use watermark::Watermark;
