//! What the tests with real processes are made of: a broker that can be killed, three that share their data, a proxy that
//! withholds answers, the worker that is killed, a paced producer.
//!
//! Everything that is started here is stopped by its own process id, also when the test panics or is killed itself.
#![deny(missing_docs)]

pub mod broker;
pub mod cluster;
pub mod feed;
pub mod guard;
pub mod http;
pub mod proxy;
pub mod rng;
pub mod scene;
pub mod soak;
pub mod worker;

pub use broker::{Broker, BrokerOptions};
pub use cluster::{Cluster, Coordinated};
pub use feed::{Feed, FeedOptions};
pub use proxy::{Proxy, Rule, RuleId};
pub use worker::{Worker, WorkerOptions};
