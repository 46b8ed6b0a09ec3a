//! Keyfold folds Kafka records into keyed state, exactly once.
//!
//! The tree is the diagram of the data path: [`source`] lanes decode and run stateless operators, the [`exchange`] spreads records
//! over keyed lanes by key group, keyed lanes fold them into [`state`], [`barrier`]s cut the stream into epochs, [`checkpoint`] makes an
//! epoch durable, the [`runtime`] publishes it together with the source positions and applies it to the local copy of the state.
//!
//! `docs/guarantees.md` lists what is guaranteed (EP-1 to EP-12) and which test carries each.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod barrier;
pub mod checkpoint;
pub mod config;
pub mod exchange;
pub mod operator;
pub mod runtime;
pub mod sink;
pub mod source;
pub mod state;
pub mod telemetry;
pub mod testing;
pub mod topology;
pub mod types;
