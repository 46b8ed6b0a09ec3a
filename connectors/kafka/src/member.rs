//! Membership in the stage's consumer group.
//!
//! The member only keeps the membership: records are read by [`crate::KafkaSource`], from explicit offsets. So whatever the group gives is
//! answered with an empty assignment, nothing is ever fetched here, and a long restore is nobody's problem but the engine's.
mod fence;

use self::fence::{Inquiry, Verdict};
use crate::config::{GroupTimeouts, KafkaConfig};
use crate::error::membership_error;
use crate::ffi::{Client, EventQueue, Failure, GroupMetadata, Kind, List, MemberEvent};
use keyfold::runtime::{MembershipFactory, StageInfo};
use keyfold::source::{GroupEvent, Membership, MembershipError};
use keyfold::types::{Assignment, GroupMember};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Leaving takes an answer of the coordinator, or two when a join is under way. Longer would hold up a shutdown for a cluster that does not
/// answer; shorter would keep the partitions from others for a whole session where it is just slow.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at whether a leave has gone out.
const LEAVE_STEP: Duration = Duration::from_millis(20);

/// A static member of a consumer group (classic protocol, range assignor), which reads nothing. See [`Membership`] for its calls.
///
/// An error that [`Membership::poll`] reports as [`MembershipError::Retriable`] is the client's, which goes on by itself: poll again, soon.
pub struct KafkaMembership {
    group: String,
    instance: String,
    topics: Vec<String>,
    properties: Vec<(String, String)>,
    session: Duration,
    joined: Option<Joined>,
    /// While it is not known who has the name.
    inquiry: Option<Inquiry>,
}

struct Joined {
    queue: EventQueue,
    client: Arc<Client>,
    standing: Standing,
}

/// What the group and we owe each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A join is under way.
    Joining,
    /// There is an assignment.
    Assigned,
    /// An assignment that was not handed on, and is given back as soon as it is revoked.
    Refused,
    /// The assignment is taken back, which is to be answered.
    Revoking,
    /// Another member has the name.
    Fenced,
}

impl KafkaMembership {
    /// Membership of `instance` in `group`, for the partitions of `topics`. Connects to nothing yet.
    ///
    /// # Errors
    /// [`MembershipError::Fatal`] for times that do not fit together, and without a topic or a name.
    pub fn new(
        config: &KafkaConfig,
        group: impl Into<String>,
        instance: impl Into<String>,
        topics: Vec<String>,
        timeouts: GroupTimeouts,
    ) -> Result<KafkaMembership, MembershipError> {
        let (group, instance) = (group.into(), instance.into());
        timeouts
            .check()
            .map_err(|e| MembershipError::Fatal(format!("join group {group}: {e}")))?;
        if instance.is_empty() {
            return Err(nameless(&group));
        }
        if topics.is_empty() {
            let text = format!("join group {group}: the stage reads no topic; run it in single mode");
            return Err(MembershipError::Fatal(text));
        }
        let properties = config.group_properties(&group, &instance, &timeouts);
        Ok(KafkaMembership {
            group,
            instance,
            topics,
            properties,
            session: timeouts.session,
            joined: None,
            inquiry: None,
        })
    }

    /// The membership of a stage's instance.
    ///
    /// # Errors
    /// As [`KafkaMembership::new`]; also when the stage runs in single mode and has no instance name.
    pub fn of_stage(
        config: &KafkaConfig,
        stage: &StageInfo,
        timeouts: GroupTimeouts,
    ) -> Result<KafkaMembership, MembershipError> {
        let group = stage.group();
        let instance = stage.instance.clone().ok_or_else(|| nameless(&group))?;
        let topics: BTreeSet<_> = stage.partitions.iter().map(|(topic, _)| topic.clone()).collect();
        KafkaMembership::new(config, group, instance, topics.into_iter().collect(), timeouts)
    }

    /// [`KafkaMembership::of_stage`] for the runtime.
    #[must_use]
    pub fn factory(config: &KafkaConfig, timeouts: GroupTimeouts) -> MembershipFactory {
        let config = config.clone();
        Box::new(move |stage| Ok(Box::new(KafkaMembership::of_stage(&config, stage, timeouts)?)))
    }

    fn context(&self) -> String {
        format!("member {} of group {}", self.instance, self.group)
    }

    /// What a failed call means. A client that was fenced says "fatal", and keeps the reason.
    fn failed(&self, failure: &Failure) -> MembershipError {
        self.check().err().unwrap_or_else(|| {
            let passes = || MembershipError::Retriable(format!("{}: {}", self.context(), failure.text));
            membership_error(&self.context(), failure, &self.instance).unwrap_or_else(passes)
        })
    }

    /// Whether the client is of use still: once it was fenced, no other event comes.
    fn check(&self) -> Result<(), MembershipError> {
        let Some((code, text)) = self.joined.as_ref().and_then(|j| j.client.fatal_error()) else {
            return Ok(());
        };
        let failure = Failure {
            fatal: true,
            ..Failure::plain(code, text)
        };
        membership_error(&self.context(), &failure, &self.instance).map_or(Ok(()), Err)
    }

    fn make(&self) -> Result<Joined, MembershipError> {
        let made =
            |f: Failure| MembershipError::Fatal(format!("{}: make a kafka consumer: {}", self.context(), f.text));
        let client = Arc::new(Client::new(Kind::Member, &self.properties).map_err(made)?);
        let queue = EventQueue::new(client.clone()).map_err(made)?;
        Ok(Joined {
            queue,
            client,
            standing: Standing::Joining,
        })
    }

    /// The client was told that another member has its name: what was assigned is lost, whoever that is.
    fn fenced(&mut self, why: String) -> Result<Option<GroupEvent>, MembershipError> {
        let (group, instance) = (self.group.clone(), self.instance.clone());
        tracing::warn!(
            group,
            instance,
            "fenced: another member has this name; nothing is done until it is known whether anybody lives under it"
        );
        self.inquiry = Some(Inquiry::new(why, self.session));
        let had = std::mem::replace(&mut self.joined()?.standing, Standing::Fenced);
        Ok(matches!(had, Standing::Assigned | Standing::Revoking).then_some(GroupEvent::Lost))
    }

    /// A step towards knowing whether anybody lives under the name. A client that was fenced stays so: a new one asks, and joins when nobody
    /// does.
    fn inquire(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        if self.joined()?.standing == Standing::Fenced {
            self.joined = None;
            self.joined = Some(self.make()?);
        }
        let context = self.context();
        let (Some(inquiry), Some(joined)) = (&mut self.inquiry, &self.joined) else {
            return Ok(None);
        };
        let (group, instance) = (self.group.as_str(), self.instance.as_str());
        // An outage leaves many errors there. No others come than those of the client: it has not joined.
        while let Some(event) = joined.queue.next(Duration::ZERO) {
            if let MemberEvent::Error(failure) = event
                && let Some(fatal @ MembershipError::Fatal(_)) = membership_error(&context, &failure, instance)
            {
                return Err(fatal);
            }
        }
        match inquiry.step(&joined.client, (group, instance), max_wait)? {
            Verdict::Free => {
                tracing::info!(group, instance, "nobody has this name, the instance joins again");
                joined.client.subscribe(&self.topics).map_err(|f| self.failed(&f))?;
                self.inquiry = None;
            }
            Verdict::Unanswered => {
                self.joined = None;
                self.joined = Some(self.make()?);
            }
            Verdict::Open | Verdict::Taken => {}
        }
        Ok(None)
    }

    fn joined(&mut self) -> Result<&mut Joined, MembershipError> {
        let context = self.context();
        let none = || MembershipError::Retriable(format!("{context}: it has not joined; join first"));
        self.joined.as_mut().ok_or_else(none)
    }

    /// What the client tells.
    fn listen(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        let end = Instant::now() + max_wait;
        let mut passes = Ok(None);
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            let Some(event) = self.joined()?.queue.next(left) else {
                self.check()?;
                return passes;
            };
            let of_client = matches!(event, MemberEvent::Error(_));
            match self.serve(event) {
                Ok(None) => {}
                // An outage leaves dozens of them, and the group waits for the answer to the decision behind them.
                Err(error @ MembershipError::Retriable(_)) if of_client => passes = Err(error),
                decided => return decided,
            }
        }
    }

    /// Answers an event of the group; what there is to know about it, if anything.
    fn serve(&mut self, event: MemberEvent) -> Result<Option<GroupEvent>, MembershipError> {
        match event {
            MemberEvent::Assign(partitions) => self.assigned(partitions).map(Some),
            MemberEvent::Revoke => self.revoked(),
            MemberEvent::Error(failure) => match membership_error(&self.context(), &failure, &self.instance) {
                Some(error) => Err(error),
                None => {
                    let (group, instance) = (&self.group, &self.instance);
                    tracing::warn!(group, instance, reason = failure.text, "the membership is in danger");
                    Ok(None)
                }
            },
            MemberEvent::Other => Ok(None),
        }
    }

    /// Captures the identity before the answer: from then on the client may lose it at any moment.
    fn assigned(&mut self, partitions: Vec<(String, i32)>) -> Result<GroupEvent, MembershipError> {
        let (instance, topics) = (self.instance.clone(), self.topics.clone());
        let joined = self.joined()?;
        let member = joined.client.identity().and_then(|of| identified(&of, instance));
        let answered = joined.client.assign(Some(&List::new(0)));
        let Some(member) = member.filter(|_| answered.is_ok()) else {
            // A client that was late for a poll while this event lay there has no member id left. Subscribing again makes it give the
            // assignment back and join anew.
            joined.standing = Standing::Refused;
            let again = answered.and_then(|()| joined.client.subscribe(&topics));
            again.map_err(|f| self.failed(&f))?;
            let text = format!(
                "{}: the assignment came without an identity; it joins again",
                self.context()
            );
            return Err(self.check().err().unwrap_or(MembershipError::Retriable(text)));
        };
        joined.standing = Standing::Assigned;
        Ok(GroupEvent::Assigned(Assignment { member, partitions }))
    }

    fn revoked(&mut self) -> Result<Option<GroupEvent>, MembershipError> {
        let joined = self.joined()?;
        if joined.standing == Standing::Refused {
            self.give_back()?;
            return Ok(None);
        }
        joined.standing = Standing::Revoking;
        let lost = joined.client.assignment_lost();
        Ok(Some(if lost { GroupEvent::Lost } else { GroupEvent::Revoked }))
    }

    /// Tells the client that the assignment is let go of: it joins again.
    fn give_back(&mut self) -> Result<(), MembershipError> {
        let joined = self.joined()?;
        let answered = joined.client.assign(None);
        if answered.is_ok() {
            joined.standing = Standing::Joining;
        }
        answered.map_err(|f| self.failed(&f))
    }

    /// Serves what comes within a step of leaving; nothing is handed on.
    fn serve_leaving(&mut self) {
        let Some(event) = self.joined.as_ref().and_then(|j| j.queue.next(LEAVE_STEP)) else {
            return;
        };
        let served = self.serve(event);
        if let Ok(Some(GroupEvent::Revoked | GroupEvent::Lost)) = served {
            // What fails here shows in that the leave does not go out.
            let _ = self.give_back();
        }
    }

    /// Serves events until `done`, the end or the client's.
    fn serve_until(&mut self, end: Instant, done: impl Fn(&Joined) -> bool) -> bool {
        loop {
            match &self.joined {
                Some(joined) if done(joined) => return true,
                Some(_) if Instant::now() < end && self.check().is_ok() => self.serve_leaving(),
                _ => return false,
            }
        }
    }

    /// Leaves the group: an unsubscribe does so for static members as well, a close does not. True when the coordinator has been told.
    fn leave(&mut self) -> bool {
        let end = Instant::now() + LEAVE_WITHIN;
        if self.joined.as_ref().is_some_and(|j| j.standing == Standing::Revoking) {
            let _ = self.give_back();
        }
        // While it joins, the client has nothing to leave yet, and the group would wait for a member that is gone.
        let joined = self.serve_until(end - LEAVE_WITHIN / 2, |j| j.standing != Standing::Joining);
        let unsubscribed = self.joined.as_ref().map(|j| j.client.unsubscribe());
        if !matches!(unsubscribed, Some(Ok(()))) {
            return false;
        }
        // The client forgets its member id when it sends the leave, and its close waits for the answer.
        let sent = self.serve_until(end, |j| j.client.identity().is_none_or(|of| of.member_id().is_empty()));
        let closing = self.joined.as_ref().map(|j| j.queue.close());
        joined && sent && matches!(closing, Some(Ok(()))) && self.serve_until(end, |j| j.client.consumer_closed())
    }
}

fn nameless(group: &str) -> MembershipError {
    MembershipError::Fatal(format!(
        "join group {group}: the instance has no name; set `instance`, or run the stage in single mode"
    ))
}

/// An identity that a group does look at.
fn identified(of: &GroupMetadata, instance: String) -> Option<GroupMember> {
    let (generation, id) = (of.generation(), of.member_id());
    (generation >= 0 && !id.is_empty()).then_some(GroupMember {
        generation,
        id,
        instance,
    })
}

impl Membership for KafkaMembership {
    fn join(&mut self) -> Result<(), MembershipError> {
        // Once it has, the client joins again by itself; to subscribe again would begin a rebalance.
        if self.joined.is_none() {
            let joined = self.make()?;
            joined.client.subscribe(&self.topics).map_err(|f| self.failed(&f))?;
            self.joined = Some(joined);
        }
        Ok(())
    }

    fn poll(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        if self.inquiry.is_some() {
            return self.inquire(max_wait);
        }
        match self.listen(max_wait) {
            Err(MembershipError::NameTaken(why)) => self.fenced(why),
            told => told,
        }
    }

    fn release(&mut self) -> Result<(), MembershipError> {
        let released = match self.joined()?.standing {
            Standing::Revoking => self.give_back(),
            _ => Ok(()),
        };
        match released {
            Err(MembershipError::NameTaken(why)) => self.fenced(why).map(drop),
            released => released,
        }
    }

    fn close(&mut self, leave: bool) {
        let member = self.joined.is_some() && self.inquiry.is_none() && self.check().is_ok();
        if leave && member && !self.leave() {
            let (group, instance) = (&self.group, &self.instance);
            tracing::warn!(
                group,
                instance,
                "the group was not told of the leave in 5 s; it notices at the session's end"
            );
        }
        // Destroyed without a close, a static member keeps its place.
        self.joined = None;
    }
}
