use std::time::Instant;

use super::*;

/// Answers every request with its correlation id and its api key.
fn fake_broker() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listen");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut frame = Vec::new();
                while read_frame(&stream, &mut frame, 8).unwrap_or(false) {
                    let answer = [&[0, 0, 0, 6], &frame[8..12], &frame[4..6]].concat();
                    if (&stream).write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

struct Client(TcpStream);

impl Client {
    fn new(proxy: &Proxy) -> Client {
        let stream = TcpStream::connect(proxy.address()).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
        Client(stream)
    }

    fn send(&mut self, api_key: i16, id: i32) {
        let body = [&api_key.to_be_bytes()[..], &[0, 1], &id.to_be_bytes(), b"rest"].concat();
        let frame = [&(body.len() as i32).to_be_bytes()[..], &body].concat();
        self.0.write_all(&frame).expect("send");
    }

    /// Correlation id and api key of the next answer; none when the connection was closed.
    fn answer(&mut self) -> Option<(i32, i16)> {
        let mut frame = Vec::new();
        let there = read_frame(&self.0, &mut frame, 4).ok()?;
        let id = || Some(i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?));
        let key = || Some(i16::from_be_bytes(frame.get(8..10)?.try_into().ok()?));
        if there { Some((id()?, key()?)) } else { None }
    }
}

fn proxy() -> Proxy {
    Proxy::start(fake_broker()).expect("proxy")
}

#[test]
fn without_rules_everything_passes_and_is_counted() {
    let proxy = proxy();
    let mut client = Client::new(&proxy);
    for id in 0..10 {
        client.send(END_TXN, id);
        assert_eq!(client.answer(), Some((id, END_TXN)));
    }
    assert_eq!(proxy.counters(END_TXN).requests, 10);
    assert_eq!(proxy.counters(PRODUCE), Counters::default());
}

#[test]
fn a_response_is_held_for_its_time_and_only_the_kth() {
    let proxy = proxy();
    let time = Duration::from_millis(300);
    let rule = proxy.add(Rule::nth(END_TXN, 2, Action::HoldResponse(time)));
    let mut client = Client::new(&proxy);
    let mut times = Vec::new();
    for id in 0..3 {
        let begin = Instant::now();
        client.send(END_TXN, id);
        assert_eq!(client.answer(), Some((id, END_TXN)));
        times.push(begin.elapsed() >= time);
    }
    assert_eq!(times, [false, true, false]);
    assert_eq!(proxy.acted(rule), 1);
}

#[test]
fn a_dropped_response_is_missing_and_the_next_one_comes() {
    let proxy = proxy();
    proxy.add(Rule::nth(END_TXN, 1, Action::DropResponse));
    let mut client = Client::new(&proxy);
    client.send(END_TXN, 1);
    client.send(PRODUCE, 2);
    assert_eq!(client.answer(), Some((2, PRODUCE)));
    assert_eq!(
        proxy.counters(END_TXN),
        Counters {
            requests: 1,
            responses: 0
        }
    );
}

#[test]
fn a_held_request_reaches_the_broker_after_its_release_even_if_the_client_has_gone() {
    let proxy = proxy();
    let rule = proxy.add(Rule::every(END_TXN, Action::HoldRequestUntilReleased));
    let mut client = Client::new(&proxy);
    client.send(END_TXN, 1);
    assert!(proxy.wait_until_acted(rule, 1, Duration::from_secs(5)));
    drop(client);
    assert_eq!(proxy.counters(END_TXN).requests, 0);
    proxy.release(rule);
    let begin = Instant::now();
    while proxy.counters(END_TXN).requests == 0 {
        assert!(begin.elapsed() < Duration::from_secs(5), "the request never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_held_response_comes_when_it_is_released() {
    let proxy = proxy();
    let rule = proxy.add(Rule::every(OFFSET_FETCH, Action::HoldResponseUntilReleased));
    let mut client = Client::new(&proxy);
    client.send(OFFSET_FETCH, 1);
    assert!(proxy.wait_until_acted(rule, 1, Duration::from_secs(5)));
    let mut other = Client::new(&proxy);
    other.send(PRODUCE, 2);
    assert_eq!(other.answer(), Some((2, PRODUCE)));
    proxy.release(rule);
    assert_eq!(client.answer(), Some((1, OFFSET_FETCH)));
}

#[test]
fn the_connection_is_closed_instead_of_the_answer() {
    let proxy = proxy();
    proxy.add(Rule::nth(END_TXN, 1, Action::CloseInsteadOfResponse));
    let mut client = Client::new(&proxy);
    client.send(END_TXN, 1);
    assert_eq!(client.answer(), None);
    assert_eq!(proxy.counters(END_TXN).requests, 1);
    let mut again = Client::new(&proxy);
    again.send(END_TXN, 2);
    assert_eq!(again.answer(), Some((2, END_TXN)));
}

#[test]
fn the_connection_is_closed_instead_of_the_request() {
    let proxy = proxy();
    let rule = proxy.add(Rule::nth(END_TXN, 1, Action::CloseInsteadOfRequest));
    let mut client = Client::new(&proxy);
    client.send(END_TXN, 1);
    assert_eq!(client.answer(), None);
    assert_eq!((proxy.acted(rule), proxy.counters(END_TXN).requests), (1, 0));
    let mut again = Client::new(&proxy);
    again.send(END_TXN, 2);
    assert_eq!(again.answer(), Some((2, END_TXN)));
}

#[test]
fn looking_for_a_groups_coordinator_is_told_from_looking_for_a_transactions() {
    let request = |version: u8, kind: u8| [0, 0, 0, 13, 0, 10, 0, version, 0, 0, 0, 1, 0, 0, 0, 1, kind];
    assert_eq!(kind(&request(2, 0)), FIND_GROUP);
    assert_eq!(kind(&request(2, 1)), 10);
    assert_eq!(kind(&request(4, 0)), 10, "it ends otherwise");
}

#[test]
fn an_unreachable_broker_closes_and_comes_back() {
    let proxy = proxy();
    let mut client = Client::new(&proxy);
    client.send(PRODUCE, 1);
    assert_eq!(client.answer(), Some((1, PRODUCE)));
    proxy.unreachable(true).expect("closed");
    assert_eq!(client.answer(), None);
    let refused = TcpStream::connect(proxy.address())
        .map(Client)
        .ok()
        .and_then(|mut c| c.answer());
    assert_eq!(refused, None);
    proxy.unreachable(false).expect("open");
    let mut again = Client::new(&proxy);
    again.send(PRODUCE, 2);
    assert_eq!(again.answer(), Some((2, PRODUCE)));
}
