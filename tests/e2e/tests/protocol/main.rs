//! The commit protocol with whole processes and a real broker: what each invariant protects from, shown both ways. The
//! scenario is right as it is, and wrong with the switch `break:EP-n`. A test's name begins with its invariant.
mod ep_1;
mod ep_10;
mod ep_2;
mod ep_5;
mod ep_5_connection;
mod ep_5_fetch;
mod ep_6;
mod ep_7;
mod ep_7_refusals;
mod ep_7_timeout;
mod trace;

use keyfold_e2e::scene;
