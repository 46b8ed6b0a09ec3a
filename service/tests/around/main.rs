//! What lies around the program: the page of metrics, the dashboard, rules and configuration of Prometheus, compose file and image. None of
//! them is compiled, so these tests hold them to the program and to each other.
mod compose;
mod dashboard;
mod files;
mod page;
mod promql;
mod rules;
