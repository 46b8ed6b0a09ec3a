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
