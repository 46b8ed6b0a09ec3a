use super::*;

fn failure(code: Code, fatal: bool, retriable: bool, abortable: bool) -> Failure {
    Failure {
        code,
        text: "text".into(),
        fatal,
        retriable,
        abortable,
    }
}

fn kind(code: Code, fatal: bool, retriable: bool, abortable: bool) -> LogErrorKind {
    transaction_error("commit", &failure(code, fatal, retriable, abortable)).kind
}

#[test]
fn the_three_flags_of_a_transactional_error_decide() {
    assert_eq!(
        kind(Code::OperationTimedOut, false, true, false),
        LogErrorKind::Retriable
    );
    assert_eq!(kind(Code::MessageTimedOut, false, false, true), LogErrorKind::Abortable);
    assert_eq!(
        kind(Code::InvalidTransactionalState, true, false, false),
        LogErrorKind::SessionLost
    );
    assert_eq!(kind(Code::State, false, false, false), LogErrorKind::SessionLost);
}

#[test]
fn a_fenced_producer_is_told_from_a_lost_session() {
    for code in [Code::Fenced, Code::ProducerFenced, Code::InvalidProducerEpoch] {
        assert_eq!(kind(code, true, false, false), LogErrorKind::Fenced);
    }
    assert_eq!(
        kind(Code::InvalidProducerEpoch, false, false, true),
        LogErrorKind::Abortable
    );
}

#[test]
fn errors_that_abort_for_ever_are_fatal_and_name_the_remedy() {
    let error = transaction_error(
        "send offsets",
        &failure(Code::OffsetMetadataTooLarge, false, false, true),
    );
    assert_eq!(error.kind, LogErrorKind::Fatal);
    assert!(error.reason.contains("offset.metadata.max.bytes"), "{error}");
    let error = transaction_error("send offsets", &failure(Code::UnknownMemberId, false, false, true));
    assert_eq!(error.kind, LogErrorKind::Fatal);
    assert!(error.reason.contains("another consumer is a member"), "{error}");
    assert_eq!(
        kind(Code::GroupAuthorizationFailed, false, false, true),
        LogErrorKind::Fatal
    );
}

#[test]
fn a_refused_output_is_named_and_any_other_failed_delivery_can_be_aborted() {
    let mut failed = DeliveryFailure {
        code: Code::MessageSizeTooLarge,
        text: "too large".into(),
        topic: "totals".into(),
        partition: 3,
        key: Some(b"total".to_vec()),
        value_len: 2_000_000,
    };
    let error = delivery_error(&failed, 1);
    assert_eq!(error.kind, LogErrorKind::OutputRefused);
    let text = error.to_string();
    assert!(
        text.contains("totals") && text.contains("5 bytes") && text.contains("2000000 bytes"),
        "{text}"
    );
    failed.code = Code::MessageTimedOut;
    assert_eq!(delivery_error(&failed, 1).kind, LogErrorKind::Abortable);
    failed.code = Code::UnknownTopic;
    assert_eq!(delivery_error(&failed, 1).kind, LogErrorKind::Fatal);
}

#[test]
fn what_waiting_does_not_cure_stops_a_source() {
    let fatal = |code| {
        matches!(
            source_error("poll", &failure(code, false, false, false)),
            SourceError::Fatal(_)
        )
    };
    assert!(fatal(Code::TopicAuthorizationFailed) && fatal(Code::Authentication));
    assert!(!fatal(Code::BrokerTransportFailure) && !fatal(Code::AllBrokersDown) && !fatal(Code::SSL));
    let mut wrong_ca = failure(Code::SSL, false, false, false);
    wrong_ca.text = "error:0A000086:SSL routines::certificate verify failed".into();
    assert!(matches!(source_error("poll", &wrong_ca), SourceError::Fatal(_)));
    assert_eq!(
        read_error("pointers", &failure(Code::UnstableOffsetCommit, false, false, false)).kind,
        LogErrorKind::Retriable
    );
    assert_eq!(
        read_error(
            "pointers",
            &failure(Code::GroupAuthorizationFailed, false, false, false)
        )
        .kind,
        LogErrorKind::Fatal
    );
}

/// EP-7: to a member, a refused generation is an assignment of the past; to the only owner it is somebody else's consumer in the group.
#[test]
fn a_refused_generation_is_stale_in_group_mode_and_fatal_in_single_mode() {
    for code in [
        Code::IllegalGeneration,
        Code::UnknownMemberId,
        Code::RebalanceInProgress,
        Code::StaleMemberEpoch,
    ] {
        let refused = failure(code, false, false, true);
        let member = member_transaction_error("send offsets", &refused, "i");
        assert_eq!(member.kind, LogErrorKind::StaleAssignment, "{code:?}");
        let single = transaction_error("send offsets", &refused).kind;
        let expected = match code {
            Code::RebalanceInProgress => LogErrorKind::Abortable,
            _ => LogErrorKind::Fatal,
        };
        assert_eq!(single, expected, "{code:?}");
    }
    let taken = failure(Code::FencedInstanceId, false, false, true);
    let member = member_transaction_error("send offsets", &taken, "i-1");
    assert_eq!(member.kind, LogErrorKind::NameTaken);
    assert!(
        member.reason.contains("i-1") && member.reason.contains("`instance`"),
        "{member}"
    );
    assert_eq!(transaction_error("send offsets", &taken).kind, LogErrorKind::Fatal);
    let fenced = failure(Code::Fenced, true, false, false);
    let member = member_transaction_error("commit", &fenced, "i");
    assert_eq!(member.kind, LogErrorKind::Fenced, "all else as in single mode");
}

#[test]
fn what_happens_to_a_membership_is_sorted_by_what_there_is_to_do() {
    let of = |code, fatal| membership_error("member i of group g", &failure(code, fatal, false, false), "i");
    assert!(of(Code::PollExceeded, false).is_none(), "a rebalance follows");
    let Some(MembershipError::NameTaken(text)) = of(Code::FencedInstanceId, true) else {
        panic!("the name is taken");
    };
    assert!(
        text.contains("member i of group g") && text.contains("`instance`"),
        "{text}"
    );
    for code in [Code::GroupAuthorizationFailed, Code::SaslAuthenticationFailed] {
        assert!(matches!(of(code, false), Some(MembershipError::Fatal(_))), "{code:?}");
    }
    for (code, way_out) in [
        (Code::InvalidSessionTimeout, "group.min.session.timeout.ms"),
        (Code::InconsistentGroupProtocol, "another consumer"),
    ] {
        let Some(MembershipError::Fatal(text)) = of(code, false) else {
            panic!("{code:?} does not pass");
        };
        assert!(text.contains(way_out), "{text}");
    }
    assert!(matches!(of(Code::Unknown, true), Some(MembershipError::Fatal(_))));
    for code in [
        Code::AllBrokersDown,
        Code::BrokerTransportFailure,
        Code::UnknownTopicOrPartition,
    ] {
        assert!(
            matches!(of(code, false), Some(MembershipError::Retriable(_))),
            "{code:?}"
        );
    }
}
