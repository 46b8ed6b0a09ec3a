//! Which rounds there are.
use keyfold::testing::faults::POINTS;
use keyfold_e2e::rng::Rng;

use crate::plan::{Death, Outage, deaths};

/// A round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// How the worker dies.
    pub death: Death,
    /// Whether and when the broker is killed too.
    pub outage: Option<Outage>,
}

/// The rounds. With 30 every step comes at least once and at least five outages; with fewer, half the rounds are steps.
pub fn plan(count: usize, seed: u64) -> Vec<Round> {
    let mut rng = Rng::new(seed);
    let deaths = deaths(count, 2 * POINTS.len() - 2, true, &mut rng);
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
    use crate::plan::{GENESIS, death_at};
    use keyfold::testing::faults::BESIDE;

    #[test]
    fn thirty_rounds_cover_every_step_and_five_outages() {
        for seed in 0..200 {
            let rounds = plan(30, seed);
            assert_eq!(rounds.len(), 30);
            for point in POINTS.into_iter().chain(BESIDE) {
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
