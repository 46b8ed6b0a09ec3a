//! What the proxy shall do to which frame, and what it has done.
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What happens to a request or its response. What is held keeps what comes after it on the same connection, as in a
/// network that is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The response comes so much later.
    HoldResponse(Duration),
    /// The response comes when the rule is released.
    HoldResponseUntilReleased,
    /// The response never comes; later ones do.
    DropResponse,
    /// The broker gets the request so much later, even if the client has gone by then.
    HoldRequest(Duration),
    /// The broker gets the request when the rule is released.
    HoldRequestUntilReleased,
    /// The broker has answered, and instead of the answer the client sees its connection closed.
    CloseInsteadOfResponse,
    /// The broker never gets the request, and the client sees its connection closed.
    CloseInsteadOfRequest,
}

impl Action {
    pub(super) fn holds_request(self) -> bool {
        matches!(self, Action::HoldRequest(_) | Action::HoldRequestUntilReleased)
    }

    /// It acts on the request, not on its response.
    fn is_of_request(self) -> bool {
        self.holds_request() || self == Action::CloseInsteadOfRequest
    }

    fn time(self) -> Option<Duration> {
        match self {
            Action::HoldResponse(time) | Action::HoldRequest(time) => Some(time),
            _ => None,
        }
    }
}

/// An action for a kind of request.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The kind of request.
    pub api_key: i16,
    /// What happens.
    pub action: Action,
    /// Only to the k-th request since the rule was added, from 1; to all when none.
    pub only: Option<u64>,
}

impl Rule {
    /// For every request of this kind.
    #[must_use]
    pub fn every(api_key: i16, action: Action) -> Rule {
        Rule {
            api_key,
            action,
            only: None,
        }
    }

    /// For the k-th request of this kind from now on, counted from 1.
    #[must_use]
    pub fn nth(api_key: i16, k: u64, action: Action) -> Rule {
        Rule {
            api_key,
            action,
            only: Some(k),
        }
    }
}

/// Names a rule that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// What has passed the proxy of one kind of request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that the broker got.
    pub requests: u64,
    /// Responses that clients got.
    pub responses: u64,
}

/// A rule that applies to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    id: RuleId,
    pub(super) action: Action,
}

#[derive(Debug)]
struct Active {
    id: RuleId,
    rule: Rule,
    seen: u64,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    active: Vec<Active>,
    acted: HashMap<RuleId, u64>,
    counters: HashMap<i16, Counters>,
}

#[derive(Debug, Default)]
pub(super) struct Rules {
    state: Mutex<State>,
    changed: Condvar,
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.lock();
        state.next += 1;
        let id = RuleId(state.next);
        state.active.push(Active { id, rule, seen: 0 });
        id
    }

    pub(super) fn remove(&self, id: RuleId) {
        self.lock().active.retain(|a| a.id != id);
        self.changed.notify_all();
    }

    pub(super) fn clear(&self) {
        self.lock().active.clear();
        self.changed.notify_all();
    }

    pub(super) fn acted(&self, id: RuleId) -> u64 {
        self.lock().acted.get(&id).copied().unwrap_or(0)
    }

    pub(super) fn wait_until_acted(&self, id: RuleId, times: u64, limit: Duration) -> bool {
        let fewer = |state: &mut State| state.acted.get(&id).copied().unwrap_or(0) < times;
        let waited = self.changed.wait_timeout_while(self.lock(), limit, fewer);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub(super) fn counters(&self, api_key: i16) -> Counters {
        self.lock().counters.get(&api_key).copied().unwrap_or_default()
    }

    pub(super) fn passed_request(&self, api_key: i16) {
        self.lock().counters.entry(api_key).or_default().requests += 1;
    }

    pub(super) fn passed_response(&self, api_key: i16) {
        self.lock().counters.entry(api_key).or_default().responses += 1;
    }

    /// A request has come: every rule for its kind counts it, the first that applies decides.
    pub(super) fn request(&self, api_key: i16) -> Option<Decision> {
        let mut decision = None;
        for active in self.lock().active.iter_mut().filter(|a| a.rule.api_key == api_key) {
            active.seen += 1;
            if active.rule.only.is_none_or(|k| k == active.seen) {
                decision.get_or_insert(Decision {
                    id: active.id,
                    action: active.rule.action,
                });
            }
        }
        let decision = decision?;
        if decision.action.is_of_request() {
            self.act(&decision);
        }
        Some(decision)
    }

    /// Notes that a rule acts now.
    pub(super) fn act(&self, decision: &Decision) {
        *self.lock().acted.entry(decision.id).or_default() += 1;
        self.changed.notify_all();
    }

    /// Waits for the time that the rule says, or until it is released.
    pub(super) fn hold(&self, decision: &Decision) {
        let end = decision.action.time().map(|time| Instant::now() + time);
        let mut state = self.lock();
        while state.active.iter().any(|a| a.id == decision.id) {
            let left = end.map_or(Duration::from_secs(1), |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
