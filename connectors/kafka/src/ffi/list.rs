//! Lists of topic partitions with offset, leader epoch and metadata as raw bytes.
use super::{Code, Failure, bytes, c_string, sys, text};

/// One element of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub metadata: Option<Vec<u8>>,
    pub code: Code,
}

/// An owned list.
pub(crate) struct List {
    pointer: *mut sys::rd_kafka_topic_partition_list_t,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for List {}

impl List {
    pub(crate) fn new(capacity: usize) -> List {
        let capacity = i32::try_from(capacity).unwrap_or(0);
        // SAFETY: plain allocation; librdkafka ends the process when memory is out.
        List {
            pointer: unsafe { sys::rd_kafka_topic_partition_list_new(capacity) },
        }
    }

    /// Adds a partition. `leader_epoch` -1 is unknown; empty `metadata` is none.
    pub(crate) fn add(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        metadata: &[u8],
    ) -> Result<(), Failure> {
        let topic = c_string(topic)?;
        // SAFETY: the list is ours; the topic's name is copied by the call; the returned element is valid until the next add. The
        // metadata is allocated by librdkafka's own allocator, which frees it with the list.
        unsafe {
            let element = sys::rd_kafka_topic_partition_list_add(self.pointer, topic.as_ptr(), partition);
            (*element).offset = offset;
            if leader_epoch >= 0 {
                sys::rd_kafka_topic_partition_set_leader_epoch(element, leader_epoch);
            }
            if !metadata.is_empty() {
                let copy = sys::rd_kafka_mem_malloc(std::ptr::null_mut(), metadata.len());
                std::ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), metadata.len());
                (*element).metadata = copy;
                (*element).metadata_size = metadata.len();
            }
        }
        Ok(())
    }

    /// Copies the elements out.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        // SAFETY: the list is ours and holds `cnt` elements, each with a terminated topic and `metadata_size` bytes of metadata.
        unsafe {
            let count = usize::try_from((*self.pointer).cnt).unwrap_or(0);
            if count == 0 {
                return Vec::new();
            }
            let elements = std::slice::from_raw_parts((*self.pointer).elems, count);
            elements
                .iter()
                .map(|e| Entry {
                    topic: text(e.topic),
                    partition: e.partition,
                    offset: e.offset,
                    metadata: bytes(e.metadata, e.metadata_size).map(<[u8]>::to_vec),
                    code: e.err.into(),
                })
                .collect()
        }
    }

    /// Copies topics and partitions out of a list that somebody else owns; none for null.
    ///
    /// # Safety
    /// `pointer` is null or points at a list that lives for the call.
    pub(super) unsafe fn partitions_of(pointer: *const sys::rd_kafka_topic_partition_list_t) -> Vec<(String, i32)> {
        if pointer.is_null() {
            return Vec::new();
        }
        // SAFETY: not null, and the list holds `cnt` elements, each with a terminated topic.
        unsafe {
            let count = usize::try_from((*pointer).cnt).unwrap_or(0);
            if count == 0 {
                return Vec::new();
            }
            let elements = std::slice::from_raw_parts((*pointer).elems, count);
            elements.iter().map(|e| (text(e.topic), e.partition)).collect()
        }
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.pointer
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: ours, and destroyed once.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.pointer) }
    }
}
