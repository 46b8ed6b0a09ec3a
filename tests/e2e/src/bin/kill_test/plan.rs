//! What plans of rounds are made of: drawn from the seed, every step covered once there are enough rounds.
use keyfold::testing::faults::{BESIDE, POINTS};
use keyfold_e2e::rng::Rng;

/// Exists in the life of a fresh job only.
pub const GENESIS: &str = "pre_genesis_commit";
/// Reached by a start with something to restore.
pub const RESTORE: &str = "mid_restore";
/// Reached by a start on an empty disk, once there is a base.
pub const FETCH: &str = "mid_fetch";
/// Reached by every start.
const INIT: &str = "post_init";

/// How a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// SIGKILL at a random moment.
    Random,
    /// At a step of the commit protocol.
    Step(&'static str),
    /// At a step of its start, and once more at a random moment.
    StartStep(&'static str),
}

/// What happens to the broker around a worker's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Killed first; the worker dies while it is away.
    Before,
    /// Killed right after the worker.
    After,
    /// Killed and started again while the worker lives; the worker dies later.
    Outlived,
}

/// The death at a fail point.
pub fn death_at(point: &'static str) -> Death {
    if [GENESIS, RESTORE, FETCH, INIT].contains(&point) {
        Death::StartStep(point)
    } else {
        Death::Step(point)
    }
}

/// Whether it needs garbage, which takes the grace to come: such rounds are the last.
fn is_late(death: &Death) -> bool {
    matches!(death, Death::Step(point) if point.starts_with("collect_"))
}

/// `count` deaths, the one of a fresh job first. Every step comes at least once when there are `all_from`; with fewer, half of them
/// are steps. With `beside`, the steps beside the commit path come too, when there are all the others and as many deaths more.
pub fn deaths(count: usize, all_from: usize, beside: bool, rng: &mut Rng) -> Vec<Death> {
    let mut points = POINTS.to_vec();
    rng.shuffle(&mut points);
    let steps = if count >= all_from {
        points.len()
    } else {
        count.div_ceil(2).min(points.len())
    };
    points.truncate(steps);
    if beside && steps == POINTS.len() && count >= steps + 2 * BESIDE.len() {
        points.extend(BESIDE);
    }
    let genesis = points.contains(&GENESIS);
    let mut deaths: Vec<Death> = points.into_iter().filter(|p| *p != GENESIS).map(death_at).collect();
    deaths.resize(count - usize::from(genesis), Death::Random);
    rng.shuffle(&mut deaths);
    deaths.sort_by_key(is_late);
    if genesis {
        deaths.insert(0, death_at(GENESIS));
    }
    deaths
}
