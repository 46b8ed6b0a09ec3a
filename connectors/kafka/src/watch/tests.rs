use super::*;

const ID: [u8; 16] = [1; 16];

fn watch() -> (TopicWatch, Instant) {
    let known = TopicInfo {
        topic: "orders".into(),
        id: ID,
        partitions: 4,
    };
    let now = Instant::now();
    (TopicWatch::new(known, now), now)
}

fn topic(id: u8, partitions: u32) -> Described {
    Described::Topic {
        id: [id; 16],
        partitions,
        led: true,
    }
}

/// Hears these answers, one each time that it asks; the seconds from its start at which each was heard, and what it made of the last.
fn hear(answers: &[Described]) -> (Vec<u64>, Option<String>) {
    let (mut watch, start) = watch();
    let (mut asked, mut last) = (Vec::new(), None);
    let mut now = start;
    for answer in answers {
        assert_eq!(last, None, "it goes on after {asked:?}");
        while !watch.is_due(now) {
            now += Duration::from_secs(1);
        }
        asked.push((now - start).as_secs());
        last = watch.heard(answer, now);
    }
    (asked, last)
}

#[test]
fn while_all_is_well_it_asks_rarely() {
    let (asked, said) = hear(&[topic(1, 4), topic(1, 4), topic(1, 4)]);
    assert_eq!((asked, said), (vec![10, 20, 30], None));
}

/// A topic was deleted and made again under a running job, longer than the job's position: it read on in the other one, silently.
#[test]
fn another_topic_of_the_same_name_is_told_after_three_answers() {
    let (asked, said) = hear(&[topic(2, 4), topic(2, 4), topic(2, 4)]);
    assert_eq!(asked, [10, 12, 14]);
    let said = said.expect("told");
    assert!(said.contains("topic orders was made anew"), "{said}");
    assert!(
        said.contains(&"01".repeat(16)) && said.contains(&"02".repeat(16)),
        "{said}"
    );
    assert!(said.contains("new job id"), "{said}");
}

/// Partitions were added under a running job: their records were never read, and those of a key no longer came in one partition.
#[test]
fn another_number_of_partitions_is_told_after_three_answers() {
    let (_, said) = hear(&[topic(1, 6), topic(1, 6), topic(1, 6)]);
    let said = said.expect("told");
    assert!(
        said.contains("has 6 partitions") && said.contains("started with 4"),
        "{said}"
    );
}

/// A broker that restarts answered that there is no such topic, and the job ended: nobody had deleted it.
#[test]
fn a_topic_that_is_unknown_for_a_moment_was_not_deleted() {
    let mut answers = vec![Described::Unknown; 7];
    answers.push(topic(1, 4));
    let (asked, said) = hear(&answers);
    assert_eq!(asked, [10, 12, 14, 16, 18, 20, 22, 24], "it asks again soon");
    assert_eq!(said, None);
}

#[test]
fn a_topic_that_stays_unknown_was_deleted() {
    let (asked, said) = hear(&vec![Described::Unknown; 9]);
    assert_eq!(asked.last(), Some(&26));
    let said = said.expect("told");
    assert!(said.contains("topic orders") && said.contains("was deleted"), "{said}");
}

/// An earlier look took every answer of a broker that restarts for the truth: some of its partitions, or none, or without leaders.
#[test]
fn what_is_answered_once_or_differently_or_incompletely_is_not_believed() {
    let leaderless = Described::Topic {
        id: [2; 16],
        partitions: 4,
        led: false,
    };
    let untold = topic(0, 4);
    for between in [
        Described::Unclear,
        leaderless,
        topic(1, 4),
        topic(3, 4),
        topic(1, 2),
        untold,
        Described::Unknown,
    ] {
        let told_again = [topic(2, 4), topic(2, 4), between.clone(), topic(2, 4), topic(2, 4)];
        assert_eq!(hear(&told_again).1, None, "{between:?}");
    }
}

/// Where the broker does not tell topic ids, there is nothing to compare.
#[test]
fn a_topic_whose_id_was_never_told_is_not_taken_for_another() {
    let now = Instant::now();
    let known = TopicInfo {
        topic: "orders".into(),
        id: [0; 16],
        partitions: 4,
    };
    let mut watch = TopicWatch::new(known, now);
    let answers = (0..5).map(|_| watch.heard(&topic(2, 4), now));
    assert_eq!(answers.collect::<Vec<_>>(), vec![None; 5]);
}

#[test]
fn a_doubt_brings_the_next_question_forward() {
    let (mut watch, now) = watch();
    let later = |seconds| now + Duration::from_secs(seconds);
    assert!(!watch.is_due(later(3)));
    watch.doubt();
    assert!(watch.is_due(later(3)));
    assert!(!watch.is_due(later(12)), "doubted once, asked once");
}
