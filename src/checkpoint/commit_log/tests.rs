use super::*;
use crate::checkpoint::store::MemoryStore;
use crate::types::Position;

fn log(store: &MemoryStore) -> StoreLog {
    let partitions = vec![("in".to_owned(), 0), ("in".to_owned(), 1)];
    StoreLog::new(
        Arc::new(store.clone()),
        Layout::new("job", "stage").expect("valid"),
        partitions,
    )
}

fn entry(partition: i32, offset: i64, pointer: &str) -> CommitEntry {
    let position = Position {
        topic: "in".into(),
        partition,
        offset,
        leader_epoch: -1,
    };
    CommitEntry {
        position,
        pointer: pointer.into(),
    }
}

fn commit(log: &mut StoreLog, entries: &[CommitEntry]) -> Result<(), LogError> {
    log.begin()?;
    log.drain()?;
    log.send_offsets(entries)?;
    log.commit()
}

fn offsets(log: &mut StoreLog) -> Vec<Option<i64>> {
    log.committed().expect("reads").iter().map(|c| c.offset).collect()
}

#[test]
fn what_was_committed_last_is_read_by_every_later_session() {
    let store = MemoryStore::new(1);
    let mut first = log(&store);
    assert_eq!(offsets(&mut first), [None, None], "needs no session");
    first.open_session().expect("opens");
    assert_eq!(offsets(&mut first), [None, None]);
    commit(&mut first, &[entry(0, 1, "p1"), entry(1, 2, "p1")]).expect("commits");
    commit(&mut first, &[entry(0, 5, "p2")]).expect("commits");
    first.close();
    let mut second = log(&store);
    assert_eq!(offsets(&mut second), [Some(5), Some(2)]);
    second.open_session().expect("opens");
    let found = second.committed().expect("reads");
    assert_eq!(found[0].metadata.as_deref(), Some(&b"p2"[..]));
    assert_eq!((found[1].topic.as_str(), found[1].partition), ("in", 1));
    commit(&mut second, &[entry(1, 7, "p3")]).expect("commits");
    assert_eq!(offsets(&mut second), [Some(5), Some(7)]);
}

#[test]
fn ep_7_a_new_session_fences_the_earlier_one() {
    let store = MemoryStore::new(1);
    let (mut old, mut new) = (log(&store), log(&store));
    old.open_session().expect("opens");
    commit(&mut old, &[entry(0, 1, "p1")]).expect("commits");
    new.open_session().expect("opens");
    let fenced = commit(&mut old, &[entry(0, 2, "p2")]).expect_err("fenced");
    assert_eq!(fenced.kind, LogErrorKind::Fenced);
    assert_eq!(
        commit(&mut old, &[entry(0, 2, "p2")]).expect_err("no session").kind,
        LogErrorKind::SessionLost
    );
    assert_eq!(offsets(&mut new)[0], Some(1));
    commit(&mut new, &[entry(0, 2, "p3")]).expect("commits");
}

#[test]
fn ep_7_of_two_sessions_that_commit_the_same_only_one_does() {
    let store = MemoryStore::new(1);
    let (mut a, mut b) = (log(&store), log(&store));
    a.open_session().expect("opens");
    b.open_session().expect("opens");
    assert_eq!(
        commit(&mut a, &[entry(0, 1, "p")]).expect_err("fenced").kind,
        LogErrorKind::Fenced
    );
    commit(&mut b, &[entry(0, 1, "p")]).expect("commits");
}

#[test]
fn ep_5_a_commit_without_an_answer_is_unknown_and_decided_by_the_next_session() {
    let store = MemoryStore::new(1);
    let mut log = log(&store);
    log.open_session().expect("opens");
    commit(&mut log, &[entry(0, 1, "p1")]).expect("commits");
    store.lose_next_acknowledgements(1);
    assert_eq!(
        commit(&mut log, &[entry(0, 2, "p2")]).expect_err("lost").kind,
        LogErrorKind::SessionLost
    );
    log.open_session().expect("opens");
    assert_eq!(offsets(&mut log)[0], Some(2), "it had been committed");
    store.fail_next_puts(1, StoreErrorKind::Retriable);
    assert_eq!(
        commit(&mut log, &[entry(0, 3, "p3")]).expect_err("failed").kind,
        LogErrorKind::SessionLost
    );
    log.open_session().expect("opens");
    assert_eq!(offsets(&mut log)[0], Some(2), "it had not");
}

#[test]
fn a_session_that_cannot_be_opened_now_is_opened_by_the_same_call_later() {
    let store = MemoryStore::new(1);
    let mut log = log(&store);
    store.fail_next_puts(1, StoreErrorKind::Retriable);
    assert_eq!(log.open_session().expect_err("full").kind, LogErrorKind::Retriable);
    store.lose_next_acknowledgements(1);
    assert_eq!(log.open_session().expect_err("lost").kind, LogErrorKind::Retriable);
    log.open_session().expect("opens");
    commit(&mut log, &[entry(0, 1, "p")]).expect("commits");
}

#[test]
fn an_aborted_or_empty_transaction_changes_nothing() {
    let store = MemoryStore::new(1);
    let mut log = log(&store);
    assert_eq!(log.begin().expect_err("no session").kind, LogErrorKind::SessionLost);
    log.open_session().expect("opens");
    log.begin().expect("begins");
    assert_eq!(log.begin().expect_err("twice").kind, LogErrorKind::Fatal);
    log.send_offsets(&[entry(0, 1, "p")]).expect("buffers");
    log.abort().expect("aborts");
    assert!(log.commit().is_err() && log.drain().is_err() && log.send_offsets(&[]).is_err());
    let puts = store.puts();
    log.open_session().expect("opens");
    log.begin().expect("begins");
    log.commit().expect("nothing to commit");
    assert_eq!((store.puts(), offsets(&mut log)), (puts + 1, vec![None, None]));
}

#[test]
fn offsets_sent_again_replace_those_of_the_same_transaction() {
    let store = MemoryStore::new(1);
    let mut log = log(&store);
    log.open_session().expect("opens");
    log.begin().expect("begins");
    log.send_offsets(&[entry(0, 1, "p")]).expect("buffers");
    log.send_offsets(&[entry(0, 1, "p")]).expect("buffers");
    log.commit().expect("commits");
    assert_eq!(log.known.len(), 1);
}

#[test]
fn a_damaged_record_is_refused_and_named() {
    let layout = Layout::new("job", "stage").expect("valid");
    let bytes = {
        let store = MemoryStore::new(1);
        let mut log = log(&store);
        log.open_session().expect("opens");
        commit(&mut log, &[entry(0, 1, "p1")]).expect("commits");
        store.get(&layout.commit(1)).expect("get")
    };
    let text = std::str::from_utf8(&bytes).expect("text");
    assert!(
        text.starts_with("{\"format\":1,\"session\":\"") && text.ends_with("\"}\n"),
        "{text}"
    );
    for bit in 0..bytes.len() * 8 {
        let store = MemoryStore::new(1);
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        store.put_new(&layout.commit(1), &[&damaged]).expect("put");
        let refused = log(&store).committed().expect_err("damaged");
        assert_eq!(refused.kind, LogErrorKind::Fatal, "bit {bit}");
        assert!(refused.to_string().contains("commit/00000000000000000001"), "{refused}");
    }
    for len in 0..bytes.len() {
        assert!(Record::decode(&bytes[..len]).is_err(), "{len}");
    }
}

#[test]
fn a_stage_without_a_kafka_source_sends_nothing_to_kafka() {
    let mut log = log(&MemoryStore::new(1));
    let out = OutputRef {
        sink: 0,
        timestamp: 0,
        partition: -1,
        key: None,
        value: None,
        headers: b"",
    };
    assert_eq!(log.send(&out).expect_err("refused").kind, LogErrorKind::Fatal);
    assert!(log.eager_sender().expect("no error").is_none());
    assert_eq!(log.group_has_members().ok(), Some(false));
    assert!(!log.session_is_suspect());
}

#[test]
fn a_committed_partition_that_the_stage_does_not_read_is_reported_too() {
    let store = MemoryStore::new(1);
    let mut log = log(&store);
    log.open_session().expect("opens");
    commit(&mut log, &[entry(0, 1, "p"), entry(7, 3, "p")]).expect("commits");
    assert_eq!(offsets(&mut log), [Some(1), None, Some(3)]);
}
