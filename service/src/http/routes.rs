//! What is served.
use crate::observe::Observed;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;

/// Prometheus's text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PATHS: &str = "/metrics\n/health/live\n/health/ready\n";

pub(super) fn router(observed: Observed) -> Router {
    Router::new()
        .route("/", get(async || PATHS))
        .route("/metrics", get(metrics))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, format!("not here; there are\n{PATHS}")))
        .with_state(observed)
}

async fn metrics(State(observed): State<Observed>) -> Response {
    ([(CONTENT_TYPE, TEXT_FORMAT)], observed.metrics().text()).into_response()
}

/// The process answers: whether the job gets anywhere is for `ready`, since a restart does not help against a broker that is away.
async fn live() -> Response {
    json(StatusCode::OK, &serde_json::json!({ "live": true }))
}

async fn ready(State(observed): State<Observed>) -> Response {
    let report = observed.report();
    let status = if report.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &report)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_string(body).unwrap_or_default();
    text.push('\n');
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}
