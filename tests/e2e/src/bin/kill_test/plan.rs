//! Which rounds there are: drawn from the seed, every step covered once there are enough rounds.
use keyfold::testing::faults::POINTS;
use keyfold_e2e::rng::Rng;

/// Exists in the life of a fresh job only.
pub const GENESIS: &str = "pre_genesis_commit";
/// Reached by a start with something to restore.
pub const RESTORE: &str = "mid_restore";
/// Reached by every start.
const INIT: &str = "post_init";

/// How the worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// SIGKILL at a random moment.
    Random,
    /// At a step of the commit protocol.
    Step(&'static str),
    /// At a step of its start, and once more at a random moment.
    StartStep(&'static str),
}

/// What happens to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Killed first; the worker dies while it is away.
    Before,
    /// Killed right after the worker.
    After,
    /// Killed and started again while the worker lives; the worker dies later.
    Outlived,
}

/// A round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// How the worker dies.
    pub death: Death,
    /// Whether and when the broker is killed too.
    pub outage: Option<Outage>,
}

fn death_at(point: &'static str) -> Death {
    if [GENESIS, RESTORE, INIT].contains(&point) {
        Death::StartStep(point)
    } else {
        Death::Step(point)
    }
}

/// The rounds. With 30 every step comes at least once and at least five outages; with fewer, half the rounds are steps.
pub fn plan(count: usize, seed: u64) -> Vec<Round> {
    let mut rng = Rng::new(seed);
    let mut points = POINTS.to_vec();
    rng.shuffle(&mut points);
    let steps = if count >= 2 * POINTS.len() - 2 {
        points.len()
    } else {
        count.div_ceil(2).min(points.len())
    };
    points.truncate(steps);
    let genesis = points.contains(&GENESIS);
    let mut deaths: Vec<Death> = points.into_iter().filter(|p| *p != GENESIS).map(death_at).collect();
    deaths.resize(count - usize::from(genesis), Death::Random);
    rng.shuffle(&mut deaths);
    if genesis {
        deaths.insert(0, death_at(GENESIS));
    }
    let mut rounds: Vec<Round> = deaths.into_iter().map(|death| Round { death, outage: None }).collect();
    add_outages(&mut rounds, &mut rng);
    rounds
}

/// One round of five, at least one, spread over all rounds.
fn add_outages(rounds: &mut [Round], rng: &mut Rng) {
    let wanted = rounds.len().div_ceil(6).max(1).min(rounds.len());
    for number in 0..wanted {
        let (low, high) = (number * rounds.len() / wanted, (number + 1) * rounds.len() / wanted - 1);
        let round = &mut rounds[rng.between(low as u64, high as u64) as usize];
        round.outage = Some(match (round.death, rng.below(3)) {
            // A step of the commit protocol is not reached while there is no broker.
            (Death::Step(_), _) | (_, 0) => Outage::After,
            (_, 1) => Outage::Before,
            _ => Outage::Outlived,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_rounds_cover_every_step_and_five_outages() {
        for seed in 0..200 {
            let rounds = plan(30, seed);
            assert_eq!(rounds.len(), 30);
            for point in POINTS {
                assert!(rounds.iter().any(|r| r.death == death_at(point)), "{point}");
            }
            assert!(rounds.iter().filter(|r| r.outage.is_some()).count() >= 5);
            assert_eq!(rounds[0].death, Death::StartStep(GENESIS));
            assert!(rounds[1..].iter().all(|r| r.death != Death::StartStep(GENESIS)));
        }
    }

    #[test]
    fn few_rounds_have_steps_random_kills_and_an_outage() {
        for (seed, count) in (0..200).flat_map(|s| [1, 2, 3, 5, 12].map(|c| (s, c))) {
            let rounds = plan(count, seed);
            assert_eq!(rounds.len(), count);
            assert!(rounds.iter().any(|r| r.outage.is_some()));
            assert!(rounds.iter().any(|r| r.death != Death::Random));
            assert!(count < 2 || rounds.iter().any(|r| r.death == Death::Random));
        }
    }
}
