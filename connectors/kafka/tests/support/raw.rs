//! A few bytes of Kafka's protocol by hand: what no well-behaved client sends.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Sends one request and returns the body of its answer.
fn call(address: &str, api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connected");
    let mut request = Vec::new();
    request.extend_from_slice(&api.to_be_bytes());
    request.extend_from_slice(&version.to_be_bytes());
    request.extend_from_slice(&7i32.to_be_bytes());
    string(&mut request, b"raw");
    request.extend_from_slice(body);
    stream.write_all(&(request.len() as i32).to_be_bytes()).expect("sent");
    stream.write_all(&request).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("answered");
    let mut answer = vec![0; i32::from_be_bytes(size) as usize];
    stream.read_exact(&mut answer).expect("answered");
    answer.split_off(4)
}

/// Commits an offset of partition 0 with any bytes as metadata: OffsetCommit version 2, for a group without members.
pub fn commit_metadata(address: &str, group: &str, topic: &str, offset: i64, metadata: &[u8]) {
    let mut find = Vec::new();
    string(&mut find, group.as_bytes());
    let mut body = find.clone();
    body.extend_from_slice(&(-1i32).to_be_bytes());
    string(&mut body, b"");
    body.extend_from_slice(&(-1i64).to_be_bytes());
    body.extend_from_slice(&1i32.to_be_bytes());
    string(&mut body, topic.as_bytes());
    body.extend_from_slice(&1i32.to_be_bytes());
    body.extend_from_slice(&0i32.to_be_bytes());
    body.extend_from_slice(&offset.to_be_bytes());
    string(&mut body, metadata);
    let mut error = [0; 2];
    for _ in 0..100 {
        // FindCoordinator makes the broker create the offsets topic; the coordinator takes a moment to load it.
        call(address, 10, 0, &find);
        let answer = call(address, 8, 2, &body);
        error.copy_from_slice(&answer[answer.len() - 2..]);
        if error == [0, 0] {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the commit was refused with error {}", i16::from_be_bytes(error));
}

/// Joins a group as an instance without a member id, and leaves it at that: JoinGroup version 5, with the range assignor.
pub fn join_group(address: &str, group: &str, instance: &str, topic: &str, session: Duration) {
    let millis = (session.as_millis() as i32).to_be_bytes();
    let mut subscription = 0i16.to_be_bytes().to_vec();
    subscription.extend_from_slice(&1i32.to_be_bytes());
    string(&mut subscription, topic.as_bytes());
    subscription.extend_from_slice(&0i32.to_be_bytes());
    let mut body = Vec::new();
    string(&mut body, group.as_bytes());
    body.extend_from_slice(&millis);
    body.extend_from_slice(&millis);
    string(&mut body, b"");
    string(&mut body, instance.as_bytes());
    string(&mut body, b"consumer");
    body.extend_from_slice(&1i32.to_be_bytes());
    string(&mut body, b"range");
    body.extend_from_slice(&(subscription.len() as i32).to_be_bytes());
    body.extend_from_slice(&subscription);
    let answer = call(address, 11, 5, &body);
    // Throttle time, error code.
    assert_eq!(answer[4..6], [0, 0], "join group {group}: {answer:?}");
}

/// CreateTopics version 2.
pub fn create_topic(address: &str, topic: &str, partitions: u32, settings: &[(&str, &str)]) {
    let mut body = 1i32.to_be_bytes().to_vec();
    string(&mut body, topic.as_bytes());
    body.extend_from_slice(&partitions.to_be_bytes());
    body.extend_from_slice(&1i16.to_be_bytes());
    body.extend_from_slice(&0i32.to_be_bytes());
    body.extend_from_slice(&(settings.len() as i32).to_be_bytes());
    for (name, value) in settings {
        string(&mut body, name.as_bytes());
        string(&mut body, value.as_bytes());
    }
    body.extend_from_slice(&10_000i32.to_be_bytes());
    body.push(0);
    let answer = call(address, 19, 2, &body);
    // Throttle time, count, name, error code.
    let at = 4 + 4 + 2 + topic.len();
    assert_eq!(answer[at..at + 2], [0, 0], "create topic {topic}: {answer:?}");
}

/// DeleteRecords version 0 on partition 0.
pub fn delete_records(address: &str, topic: &str, offset: i64) {
    let mut body = 1i32.to_be_bytes().to_vec();
    string(&mut body, topic.as_bytes());
    body.extend_from_slice(&1i32.to_be_bytes());
    body.extend_from_slice(&0i32.to_be_bytes());
    body.extend_from_slice(&offset.to_be_bytes());
    body.extend_from_slice(&10_000i32.to_be_bytes());
    let answer = call(address, 21, 0, &body);
    assert_eq!(
        answer[answer.len() - 2..],
        [0, 0],
        "delete records of {topic}: {answer:?}"
    );
}
