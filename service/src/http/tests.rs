use super::*;
use crate::observe::Observed;
use keyfold::runtime::Progress;
use keyfold::telemetry::Metrics;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn served() -> (Server, Observed) {
    let observed = Observed::new(Duration::from_secs(20), Metrics::new());
    let server = Server::start("127.0.0.1:0", &observed).expect("a free port");
    (server, observed)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    stream
}

/// Sends bytes as they are; returns all that comes back until the connection ends.
fn raw(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // It may be closed while we still write.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = raw(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {head}")), body.to_owned())
}

#[test]
fn health_says_what_the_run_is_doing_and_metrics_are_those_of_the_engine() {
    let (server, observed) = served();
    let at = server.address();
    assert_eq!(get(at, "/health/live"), (200, "{\"live\":true}\n".to_owned()));
    let (status, body) = get(at, "/health/ready");
    assert_eq!(status, 503);
    assert!(
        body.contains("\"ready\":false") && body.contains("\"phase\":\"starting\""),
        "{body}"
    );
    // A start that waits is seen: what it waits for, and that it tries.
    observed.waits(
        "topic",
        "the output topic totals: no broker".to_owned(),
        Duration::from_secs(10),
    );
    assert!(
        get(at, "/health/ready")
            .1
            .contains("waiting for the output topic totals: no broker")
    );
    let metrics = get(at, "/metrics").1;
    for line in [
        "keyfold_phase{phase=\"starting\"} 1\n",
        "keyfold_retries_total{step=\"topic\"} 1\n",
        "keyfold_backoff_seconds 10\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    observed.metrics().bad_record("decode", "orders");
    observed.begins(Arc::new(Progress::default()));
    let (status, body) = get(at, "/metrics");
    assert_eq!(status, 200);
    assert!(
        body.contains("keyfold_bad_records_total{reason=\"decode\",step=\"orders\"} 1")
            && body.contains("keyfold_backoff_seconds 0\n"),
        "{body}"
    );
    let (status, body) = get(at, "/nothing");
    assert_eq!(status, 404);
    assert!(body.contains("/health/ready"), "{body}");
    let post = raw(at, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    let head = raw(at, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"),
        "{head}"
    );
}

#[test]
fn garbage_is_refused_and_the_next_request_is_answered() {
    let (server, _observed) = served();
    let at = server.address();
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    let many: String = (0..200).map(|n| format!("h{n}: x\r\n")).collect();
    let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
    let noise: Vec<u8> = (0..4096u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let cases: [&[u8]; 8] = [
        b"",
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        &noise,
        long.as_bytes(),
        many.as_bytes(),
    ];
    for case in cases {
        let mut stream = connect(at);
        let _ = stream.write_all(case);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{:?} got {answer}",
            String::from_utf8_lossy(&case[..case.len().min(60)])
        );
        assert_eq!(get(at, "/health/live").0, 200);
    }
}

/// Slow-loris: clients that open connections and send next to nothing.
#[test]
fn those_who_send_nothing_keep_nobody_out_and_are_closed() {
    let (server, _observed) = served();
    let at = server.address();
    let mut idle: Vec<TcpStream> = (0..200).map(|_| connect(at)).collect();
    for stream in &mut idle {
        let _ = stream.write_all(b"GET /met");
    }
    let began = Instant::now();
    assert_eq!(get(at, "/metrics").0, 200);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // A byte now and then does not make a connection last.
    let mut slow = connect(at);
    let began = Instant::now();
    let ended = loop {
        if slow.write_all(b"x").is_err() {
            break began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "still open");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(ended < Duration::from_secs(15), "{ended:?}");
    for stream in &mut idle {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let (server, observed) = served();
    let address = server.address().to_string();
    let refused = Server::start(&address, &observed).expect_err("taken").to_string();
    assert_eq!(
        refused,
        format!(
            "http.listen {address}: Address already in use (os error 98); another process listens there: choose another port \
             (--http-listen 127.0.0.1:0 takes a free one), or none (--http-listen off)"
        )
    );
    // Free again once the server is gone.
    drop(server);
    let began = Instant::now();
    while Server::start(&address, &observed).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "the port stays taken");
        std::thread::sleep(Duration::from_millis(20));
    }
}
