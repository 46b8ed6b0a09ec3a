//! Group mode with whole processes and a real broker: instances that come, go, hang, are stopped past their session and woken up. A test's
//! name begins with its invariant; where it has a switch `break:EP-n`, the scenario is right as it is and wrong with it.
mod coming_and_going;
mod ep_10;
mod ep_12;
mod ep_12_back;
mod ep_7;
mod ep_7_former;
mod ep_7_undecided;
mod members;
mod misplaced;
mod refused;

use keyfold_e2e::scene;
