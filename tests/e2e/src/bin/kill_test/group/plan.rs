//! Which rounds there are.
use keyfold::testing::faults::POINTS;
use keyfold_e2e::rng::Rng;

use crate::plan::{Death, Outage, death_at, deaths};

/// The instances that stay.
pub const STAYING: [&str; 2] = ["a", "b"];
/// The one that comes and goes.
pub const GUEST: &str = "c";

/// Where an instance stops in the middle of a publish, with outputs sent and with everything sent but the commit.
const STOPS: [&str; 2] = ["post_send_offsets", "outputs_half_sent"];

/// What happens in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// An instance dies and returns at once; the broker may die, too.
    Kill {
        who: &'static str,
        death: Death,
        outage: Option<Outage>,
    },
    /// An instance dies and stays away past its session.
    Away { who: &'static str, death: Death },
    /// The guest joins, an instance dies and returns at once, the guest leaves.
    Visit { who: &'static str },
    /// The guest joins, dies and stays away.
    GuestDies { death: Death },
    /// An instance is stopped past its session, and continued.
    Stopped { who: &'static str, point: &'static str },
    /// The broker dies and returns.
    Broker,
}

/// A round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// What happens.
    pub act: Act,
    /// Whether it is played on a machine that has other things to do.
    pub busy: bool,
}

/// The rounds: of 30, nine move partitions, three kill the broker alone, three an instance and the broker; every step is a kill.
pub fn plan(count: usize, seed: u64) -> Vec<Round> {
    let mut rng = Rng::new(seed);
    let moving = (count * 9).div_ceil(30);
    let outages = ((count + 5) / 10).min(count - moving);
    let mut kills = kills(count - moving - outages, outages, &mut rng);
    let first = kills.first().copied().filter(is_genesis);
    let mut acts = kills.split_off(usize::from(first.is_some()));
    acts.extend((0..moving).map(|number| act_that_moves(number, &mut rng)));
    acts.extend((0..outages).map(|_| Act::Broker));
    rng.shuffle(&mut acts);
    let mut busy: Vec<bool> = (0..count).map(|number| number % 2 == 0).collect();
    rng.shuffle(&mut busy);
    let acts = first.into_iter().chain(acts);
    acts.zip(busy).map(|(act, busy)| Round { act, busy }).collect()
}

fn is_genesis(act: &Act) -> bool {
    matches!(act, Act::Kill { death, .. } if *death == death_at(crate::plan::GENESIS))
}

/// Kills after which the instance returns at once, `outages` of them with the broker's; the one of a fresh job first.
fn kills(count: usize, outages: usize, rng: &mut Rng) -> Vec<Act> {
    let deaths = deaths(count, POINTS.len() + 2, false, rng);
    // A death at a random moment goes together with every outage, a step only with one that comes after it.
    let mut order: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut order);
    order.sort_by_key(|index| deaths[*index] != Death::Random);
    let mut kills: Vec<Act> = deaths.into_iter().map(|death| kill(death, rng)).collect();
    for (number, index) in order.into_iter().take(outages).enumerate() {
        if let Act::Kill { death, outage, .. } = &mut kills[index] {
            *outage = Some(match (death, (number as u64 + rng.below(2)) % 3) {
                (Death::Step(_), _) | (_, 2) => Outage::After,
                (_, 0) => Outage::Before,
                _ => Outage::Outlived,
            });
        }
    }
    kills
}

fn kill(death: Death, rng: &mut Rng) -> Act {
    Act::Kill {
        who: staying(rng),
        death,
        outage: None,
    }
}

fn staying(rng: &mut Rng) -> &'static str {
    STAYING[rng.below(STAYING.len() as u64) as usize]
}

fn act_that_moves(number: usize, rng: &mut Rng) -> Act {
    let who = staying(rng);
    match number % 4 {
        0 => Act::Away { who, death: any(rng) },
        1 => Act::Stopped {
            who,
            point: STOPS[number / 4 % STOPS.len()],
        },
        2 => Act::Visit { who },
        _ => Act::GuestDies { death: any(rng) },
    }
}

/// A random moment, or any step that a worker at work comes by.
fn any(rng: &mut Rng) -> Death {
    let point = POINTS[rng.below(POINTS.len() as u64) as usize];
    match death_at(point) {
        death @ Death::Step(_) if rng.below(2) == 0 => death,
        _ => Death::Random,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::GENESIS;

    fn count(rounds: &[Round], fits: impl Fn(&Act) -> bool) -> usize {
        rounds.iter().filter(|r| fits(&r.act)).count()
    }

    fn moves(act: &Act) -> bool {
        !matches!(act, Act::Kill { .. } | Act::Broker)
    }

    fn with_the_broker(act: &Act) -> bool {
        matches!(act, Act::Kill { outage: Some(_), .. })
    }

    #[test]
    fn thirty_rounds_have_every_step_and_enough_of_each_kind() {
        for seed in 0..200 {
            let rounds = plan(30, seed);
            assert_eq!(rounds.len(), 30);
            for point in POINTS {
                let here = |act: &Act| matches!(act, Act::Kill { death, .. } if *death == death_at(point));
                assert!(count(&rounds, here) >= 1, "{point}");
            }
            assert!(count(&rounds, moves) >= 8);
            assert!(count(&rounds, |act| matches!(act, Act::Away { .. })) >= 2);
            assert!(count(&rounds, |act| matches!(act, Act::Visit { .. } | Act::GuestDies { .. })) >= 2);
            assert!(STOPS.iter().all(|stop| {
                count(
                    &rounds,
                    |act| matches!(act, Act::Stopped { point, .. } if point == stop),
                ) >= 1
            }));
            assert!(count(&rounds, |act| *act == Act::Broker) >= 3);
            assert!(count(&rounds, with_the_broker) >= 3);
            assert_eq!(rounds.iter().filter(|r| r.busy).count(), 15);
            assert!(is_genesis(&rounds[0].act) && rounds[1..].iter().all(|r| !is_genesis(&r.act)));
        }
    }

    #[test]
    fn a_step_is_never_waited_for_while_there_is_no_broker() {
        for (seed, count) in (0..200).flat_map(|s| [5, 10, 30].map(|c| (s, c))) {
            for round in plan(count, seed) {
                if let Act::Kill { death, outage, .. } = round.act {
                    assert!(!matches!(death, Death::Step(_)) || matches!(outage, None | Some(Outage::After)));
                }
            }
        }
    }

    #[test]
    fn few_rounds_have_something_of_each_kind() {
        for seed in 0..200 {
            let rounds = plan(5, seed);
            assert_eq!(rounds.len(), 5);
            assert_eq!(count(&rounds, moves), 2);
            assert_eq!(count(&rounds, |act| *act == Act::Broker), 1);
            assert_eq!(count(&rounds, with_the_broker), 1);
            let genesis = rounds.iter().position(|r| is_genesis(&r.act));
            assert!(genesis.is_none_or(|at| at == 0), "{GENESIS} at {genesis:?}");
        }
        (0..12).for_each(|count| assert_eq!(plan(count, 1).len(), count));
    }
}
