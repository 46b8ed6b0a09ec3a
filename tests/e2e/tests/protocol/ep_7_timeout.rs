//! EP-7: fenced by the broker's own time-out, with no other instance about.
use keyfold_e2e::Broker;

use crate::scene::{Scene, until, until_it_commits, until_it_stops_itself};

/// The process is stopped in the middle of a transaction until the broker has aborted it and raised the producer's
/// epoch. Its next call is answered "fenced", as if somebody had taken over. Nobody has: the pointers are its own, so
/// it opens a new session and goes on.
#[test]
fn ep_7_fenced_by_a_time_out_alone_it_opens_a_new_session_and_goes_on() {
    for point in ["outputs_sent", "post_send_offsets"] {
        let scene = Scene::flowing(Broker::shared(), "ep7-timeout");
        let mut worker = scene.start_hasty("a", &format!("{point}=stop@5"));
        until_it_stops_itself(&worker);
        scene.wait_until_no_transaction_is_open();
        worker.signal(libc::SIGCONT).expect("alive");
        until(&mut worker, "opened a session anew", |t| t.rebuilds > 0);
        until_it_commits(&mut worker);
        scene.finish_right([worker]);
    }
}
