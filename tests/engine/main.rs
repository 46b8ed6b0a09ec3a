//! The engine's modules together, without a broker: operators, policies, recovery, the invariants EP-1 to EP-10, and a simulation.
mod exit_codes;
mod fencing;
mod group;
mod group_storm;
mod invariants;
mod lanes;
mod operators;
mod outputs;
mod policies;
mod pressure;
mod recovery;
mod refusals;
mod refused_parts;
mod simulation;
mod stateless;
mod step_policies;
mod support;
