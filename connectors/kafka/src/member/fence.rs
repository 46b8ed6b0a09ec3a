//! What a member does that was told that another one has its name: it finds out whether anybody lives under it.
//!
//! The other one may be its own former self. A request to join that was lost with its connection lies in the network or in the queue of a
//! broker that is overloaded; the client joins again and works; then the first request arrives, and to the coordinator it is a newcomer
//! under the name. A dead process may have left such a request as well. Nobody hears of the membership that it makes, so it sends no
//! heartbeat and ends with its session. A process that lives keeps its own.
//!
//! Only the group's list of members is asked. The client id that stands there does not tell whose it is: the coordinator (Kafka 4.4,
//! `ClassicGroup.replaceStaticMember`) keeps the one of whoever had the name first.
use crate::error::membership_error;
use crate::ffi::{Answer, Asked, Client, Roster};
use keyfold::source::MembershipError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two questions, and after a question that failed, doubling. More often would be of no use for what takes a session to show.
const ASK_EVERY: Duration = Duration::from_millis(500);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(10);
/// The client tells of a question that took too long; what it does not tell of by then is not waited for.
const TELLS_WITHIN: Duration = Duration::from_secs(2);

/// What is known about the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not yet enough.
    Open,
    /// Nobody has it.
    Free,
    /// Somebody lives under it.
    Taken,
    /// The question got no answer. The next one is for a client of its own: one that knows a coordinator goes on asking it (librdkafka 2.12
    /// asks anew only when that broker is away, not when it says that it is the coordinator no more), and one whose question timed out before
    /// it was sent must not find a coordinator any more (its reply would be freed twice).
    Unanswered,
}

/// Judges answers about one name. Decides without I/O.
#[derive(Debug)]
struct Watch {
    session: Duration,
    /// Who has the name, by member id, and since when every answer has said so.
    holder: Option<(String, Instant)>,
}

impl Watch {
    /// Takes the answer to a question that was asked at `asked` and came at `now`. A holder that nobody stands behind is gone a session after it
    /// was seen first; half of one more is for a coordinator that is late. The time counts while every answer comes, names the same one and
    /// tells of a stable group: in a rebalance, or while a coordinator moves or stands still, no session ends.
    fn heard(&mut self, roster: &Roster, name: &str, asked: Instant, now: Instant) -> Verdict {
        // Who has no name may be anybody: brokers before 2.4 do not tell it.
        let called = |name: &str| roster.members.iter().find(|(of, _)| of == name);
        let Some((_, id)) = called(name).or_else(|| called("")) else {
            return Verdict::Free;
        };
        let known = self.holder.take().filter(|(known, _)| known == id);
        if !roster.stable {
            return Verdict::Open;
        }
        let (_, since) = self.holder.insert(known.unwrap_or_else(|| (id.clone(), now)));
        if asked.saturating_duration_since(*since) >= self.session * 3 / 2 {
            Verdict::Taken
        } else {
            Verdict::Open
        }
    }

    fn no_answer(&mut self) {
        self.holder = None;
    }

    /// How long an answer may take. What takes longer than half a session says too little about who lives.
    fn patience(&self) -> Duration {
        self.session / 2
    }
}

/// Asks until it is known who has the name.
pub(super) struct Inquiry {
    /// What the client said about the fence.
    why: String,
    watch: Watch,
    /// The question that is under way, and when it was asked.
    asked: Option<(Asked<Answer>, Instant)>,
    next: Instant,
    pause: Duration,
}

impl Inquiry {
    pub(super) fn new(why: String, session: Duration) -> Inquiry {
        Inquiry {
            why,
            watch: Watch { session, holder: None },
            asked: None,
            next: Instant::now(),
            pause: ASK_EVERY,
        }
    }

    /// Asks, or waits for an answer or until the next question is due, for up to `max_wait`.
    ///
    /// # Errors
    /// [`MembershipError::NameTaken`] when somebody lives under the name; [`MembershipError::Fatal`] when the group may not be asked.
    pub(super) fn step(
        &mut self,
        client: &Arc<Client>,
        (group, instance): (&str, &str),
        max_wait: Duration,
    ) -> Result<Verdict, MembershipError> {
        let context = format!("member {instance} of group {group}");
        let failed = |f: &_| membership_error(&format!("{context}: ask who has its name"), f, instance);
        let Some((question, asked)) = &self.asked else {
            let early = self.next.saturating_duration_since(Instant::now());
            if early.is_zero() {
                let question = client.ask_for_members(group, self.watch.patience());
                let question = question.map_err(|f| failed(&f).unwrap_or(MembershipError::Fatal(f.text)))?;
                self.asked = Some((question, Instant::now()));
            } else {
                std::thread::sleep(early.min(max_wait));
            }
            return Ok(Verdict::Open);
        };
        let asked = *asked;
        let answer = match question.answer(max_wait) {
            Some(answer) => answer.map_err(|failure| (failed(&failure), failure.text)),
            None if asked.elapsed() < self.watch.patience() + TELLS_WITHIN => return Ok(Verdict::Open),
            None => Err((None, "no answer".to_owned())),
        };
        let now = Instant::now();
        self.asked = None;
        let verdict = match answer {
            Ok(roster) => {
                self.pause = ASK_EVERY;
                self.watch.heard(&roster, instance, asked, now)
            }
            Err((Some(fatal @ MembershipError::Fatal(_)), _)) => return Err(fatal),
            Err((_, reason)) => {
                self.watch.no_answer();
                self.pause = (self.pause * 2).min(ASK_AGAIN_MAX);
                let backoff_ms = self.pause.as_millis() as u64;
                tracing::warn!(
                    group,
                    instance,
                    reason,
                    backoff_ms,
                    "the group does not tell who has the name"
                );
                Verdict::Unanswered
            }
        };
        self.next = now + self.pause;
        match verdict {
            Verdict::Taken => Err(MembershipError::NameTaken(self.why.clone())),
            verdict => Ok(verdict),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Duration = Duration::from_secs(10);

    fn watch() -> Watch {
        Watch {
            session: SESSION,
            holder: None,
        }
    }

    fn roster(stable: bool, id: &str) -> Roster {
        let member = |name: &str, id: &str| (name.to_owned(), id.to_owned());
        Roster {
            stable,
            members: vec![member("other", "other-1"), member("a", id)],
        }
    }

    /// Answers of one a second, at once, until the verdict.
    fn after(
        watch: &mut Watch,
        begin: Instant,
        seconds: std::ops::Range<u64>,
        answer: &Roster,
    ) -> Option<(u64, Verdict)> {
        seconds.into_iter().find_map(|second| {
            let at = begin + Duration::from_secs(second);
            let verdict = watch.heard(answer, "a", at, at);
            (verdict != Verdict::Open).then_some((second, verdict))
        })
    }

    /// A group moved to another broker while one of its members asked who had its name. The member asked the former one for ever, because
    /// its client knew no other.
    #[test]
    fn ep_7_a_question_without_an_answer_asks_for_another_client() {
        // Nobody listens there.
        let config = crate::KafkaConfig::new("127.0.0.1:1");
        let client = Client::new(crate::ffi::Kind::Consumer, &config.glance_properties("group"));
        let client = Arc::new(client.expect("a client"));
        let mut inquiry = Inquiry::new("fenced".to_owned(), Duration::from_millis(600));
        let begin = Instant::now();
        let mut step = || inquiry.step(&client, ("group", "a"), Duration::from_millis(50));
        let verdict = loop {
            match step() {
                Ok(Verdict::Open) => assert!(begin.elapsed() < Duration::from_secs(60), "no verdict"),
                other => break other,
            }
        };
        assert!(matches!(verdict, Ok(Verdict::Unanswered)), "{verdict:?}");
        assert!(inquiry.asked.is_none(), "the former client is let go");
    }

    #[test]
    fn ep_7_a_name_that_nobody_has_is_free_at_once() {
        let now = Instant::now();
        let gone = Roster {
            stable: true,
            members: vec![("other".to_owned(), "other-1".to_owned())],
        };
        assert_eq!(watch().heard(&gone, "a", now, now), Verdict::Free);
    }

    #[test]
    fn ep_7_a_member_whose_name_is_not_told_may_have_taken_any() {
        let nameless = Roster {
            stable: true,
            members: vec![(String::new(), "1".to_owned())],
        };
        let told = after(&mut watch(), Instant::now(), 0..100, &nameless);
        assert_eq!(told, Some((15, Verdict::Taken)));
    }

    #[test]
    fn ep_7_a_name_is_taken_by_who_outlives_a_session_and_a_half() {
        let told = after(&mut watch(), Instant::now(), 0..100, &roster(true, "a-1"));
        assert_eq!(told, Some((15, Verdict::Taken)));
    }

    #[test]
    fn ep_7_who_is_gone_with_its_session_has_taken_nothing() {
        let (mut watch, begin) = (watch(), Instant::now());
        assert_eq!(after(&mut watch, begin, 0..12, &roster(true, "a-1")), None);
        let at = begin + Duration::from_secs(12);
        let gone = Roster {
            stable: true,
            members: Vec::new(),
        };
        assert_eq!(watch.heard(&gone, "a", at, at), Verdict::Free);
    }

    /// In a rebalance nobody's session ends; a coordinator that was moved or stood still gives everybody a new one; and whoever has just
    /// come may be another late request.
    #[test]
    fn ep_7_the_time_begins_anew_when_no_session_could_have_ended() {
        let begin = Instant::now();
        let (stable, rebalancing) = (roster(true, "a-1"), roster(false, "a-1"));
        let disturbances: [&dyn Fn(&mut Watch); 3] = [
            &|watch| watch.no_answer(),
            &|watch| {
                let at = begin + Duration::from_secs(14);
                watch.heard(&rebalancing, "a", at, at);
            },
            &|watch| {
                let at = begin + Duration::from_secs(14);
                watch.heard(&roster(true, "a-2"), "a", at, at);
            },
        ];
        for disturb in disturbances {
            let mut watch = watch();
            assert_eq!(after(&mut watch, begin, 0..14, &stable), None);
            disturb(&mut watch);
            assert_eq!(after(&mut watch, begin, 15..100, &stable), Some((30, Verdict::Taken)));
        }
    }

    /// What an answer says was so when it was asked for, not when it came.
    #[test]
    fn ep_7_the_time_that_an_answer_takes_does_not_count() {
        let (mut watch, begin) = (watch(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let there = roster(true, "a-1");
        assert_eq!(watch.heard(&there, "a", at(0), at(5)), Verdict::Open);
        assert_eq!(watch.heard(&there, "a", at(19), at(24)), Verdict::Open);
        assert_eq!(watch.heard(&there, "a", at(20), at(25)), Verdict::Taken);
    }
}
