//! The connection pool: keeps useful connections, and never uses one that the server may have
//! closed.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use outflow::{IoStream, Outflow};
use outflow_mock::Script;
use outflow_testkit::{Background, VirtualTime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

use super::support::{eager, scripted, together};

/// Builds a client in virtual time that counts its connections.
fn counting_client() -> (Outflow, Arc<AtomicUsize>) {
    counting_client_with(4)
}

/// Builds the counting client with this concurrency.
fn counting_client_with(most: u32) -> (Outflow, Arc<AtomicUsize>) {
    let server = Arc::new(scripted(Script::new()).in_memory());
    let mut api = eager(&server.url());
    api.rules.health = together(most);
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            counted.fetch_add(1, Ordering::Relaxed);
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build();
    (client.expect("valid"), made)
}

async fn call(client: &Outflow) {
    let response = client.get("strict", "/").send().await.expect("a response");
    assert_eq!(response.status(), 200);
}

// Three calls in sequence need one connection; two at once need one more, and two at once again no
// more.
#[tokio::test(start_paused = true)]
async fn a_free_connection_is_reused_at_once() {
    let (client, made) = counting_client();
    for _ in 0..3 {
        call(&client).await;
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);
    for _ in 0..2 {
        tokio::join!(call(&client), call(&client));
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}

/// Makes this many calls at once.
async fn burst(client: &Outflow, count: usize) {
    let calls = (0..count).map(|_| Some(Box::pin(call(client))));
    let mut calls: Vec<_> = calls.collect();
    poll_fn(|cx| {
        for place in &mut calls {
            place.take_if(|call| call.as_mut().poll(cx).is_ready());
        }
        let over = calls.iter().all(Option::is_none);
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

// Fifty calls may be in flight: the connections of one burst serve the next, all of them.
#[tokio::test(start_paused = true)]
async fn the_pool_keeps_a_connection_for_every_concurrent_call() {
    let (client, made) = counting_client_with(50);
    burst(&client, 50).await;
    let first = made.load(Ordering::Relaxed);
    assert!(first > 32, "{first} of fifty at once");
    burst(&client, 50).await;
    assert_eq!(made.load(Ordering::Relaxed), first);
}

// Servers close after 15 seconds of silence at the earliest: 14 are fine, 16 are not.
#[tokio::test(start_paused = true)]
async fn a_connection_idle_for_too_long_is_not_used() {
    let (client, made) = counting_client();
    call(&client).await;
    tokio::time::sleep(Duration::from_secs(14)).await;
    call(&client).await;
    assert_eq!(made.load(Ordering::Relaxed), 1);
    tokio::time::sleep(Duration::from_secs(16)).await;
    call(&client).await;
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

/// Builds a client whose server silently closes the connection after every response.
fn closing_server() -> (Outflow, Background<()>) {
    let (knock, mut connections) = mpsc::unbounded_channel::<DuplexStream>();
    let work = async move {
        while let Some(stream) = connections.recv().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).await.expect("a line");
            }
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(response).await.expect("heard");
        }
    };
    let client = Outflow::builder()
        .api(eager("http://rude.example"))
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let (ours, theirs) = tokio::io::duplex(1_024);
            knock.send(theirs).expect("the server runs");
            let ours: Box<dyn IoStream> = Box::new(ours);
            Box::pin(async move { Ok(ours) })
        }))
        .build();
    (client.expect("valid"), Background::start(work))
}

// A POST is not retried once it may have left, so each of these must have met an open connection.
// The pause is virtual time: it ends when all tasks have seen the close.
#[tokio::test(start_paused = true)]
async fn a_closed_connection_costs_no_attempt() {
    let (client, _running) = closing_server();
    for _ in 0..5 {
        let response = client.post("strict", "/").send().await.expect("a response");
        assert_eq!(response.attempts(), 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Builds a client whose connections the test serves itself. The third takes two seconds to open.
fn manual_server() -> (Outflow, mpsc::UnboundedReceiver<BufReader<DuplexStream>>) {
    let (knock, connections) = mpsc::unbounded_channel();
    let made = AtomicUsize::new(0);
    let mut api = eager("http://played.example");
    api.retry.count = 0;
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let (ours, theirs) = tokio::io::duplex(1_024);
            knock.send(BufReader::new(theirs)).expect("a listener");
            let slow = made.fetch_add(1, Ordering::Relaxed) == 2;
            let ours: Box<dyn IoStream> = Box::new(ours);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(if slow { 2 } else { 0 })).await;
                Ok(ours)
            })
        }))
        .build();
    (client.expect("valid"), connections)
}

/// Reads the head of the next request, which has no body; `None` if the connection ends.
async fn next_request(stream: &mut BufReader<DuplexStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

async fn respond(stream: &mut BufReader<DuplexStream>, head: &str) {
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("heard");
}

// The server closes at the moment in which the client hands a POST over: nothing of it has left.
// The POST goes over another connection and is sent once.
#[tokio::test(start_paused = true)]
async fn a_post_returned_by_a_closed_connection_is_sent_once() {
    let (client, mut connections) = manual_server();
    let serve = async {
        let mut first = connections.recv().await.expect("a connection");
        next_request(&mut first).await.expect("a request");
        respond(&mut first, "200 OK").await;
        first
    };
    let ((), first) = tokio::join!(call(&client), serve);
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(first);
    let serve = async {
        let mut next = connections.recv().await.expect("another");
        let head = next_request(&mut next).await.expect("the request");
        respond(&mut next, "201 Created").await;
        (head, next)
    };
    let (posted, (head, _next)) = tokio::join!(client.post("strict", "/order").send(), serve);
    let posted = posted.expect("a response");
    assert!(head.starts_with("POST /order "), "{head}");
    assert_eq!((posted.status().as_u16(), posted.attempts()), (201, 1));
    assert!(connections.try_recv().is_err(), "no third connection");
}

// The next connection takes two seconds. After one, the server asks all callers for a minute's
// wait: nothing of the POST has left, and nothing leaves.
#[tokio::test(start_paused = true)]
async fn a_request_returned_by_a_closed_connection_can_be_revoked() {
    let (client, mut connections) = manual_server();
    let serve = async {
        let mut first = connections.recv().await.expect("a connection");
        let mut second = connections.recv().await.expect("another");
        for stream in [&mut first, &mut second] {
            next_request(stream).await.expect("a request");
            respond(stream, "200 OK").await;
        }
        (first, second)
    };
    let ((), (), (mut busy, mut idle)) = tokio::join!(call(&client), call(&client), serve);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut refused = Box::pin(client.get("strict", "/").send());
    tokio::select! {
        _ = &mut refused => unreachable!("the server did not respond"),
        _ = next_request(&mut busy) => {}
        _ = next_request(&mut idle) => std::mem::swap(&mut busy, &mut idle),
    }
    // No task runs between these two lines, so none sees the close before the POST is on the
    // connection.
    drop(idle);
    let post = client.post("strict", "/order").send();
    let refuse = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        respond(&mut busy, "429 Too Many\r\nretry-after: 60").await;
        drop(busy);
    };
    let (posted, refused, ()) = tokio::join!(post, refused, refuse);
    assert_eq!(refused.expect("a response").status(), 429);
    let error = posted.expect_err("called off");
    assert!(error.refusal().is_some() && error.attempts() == 0, "{error:?}");
    drop(client);
    let mut third = connections.recv().await.expect("it was made");
    assert_eq!(next_request(&mut third).await, None);
}
