//! The engine's modules together, without a broker: operators, policies, recovery, the invariants EP-1 to EP-10, and a simulation.
mod operators;
mod outputs;
mod refused_parts;
mod support;
