//! Servers with invalid replies.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use outflow_store::StoreControl;
use outflow_sync::Mutex;
use outflow_testkit::RedisOptions as ServerOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::support::{CALL_TIMEOUT, ProxyFixture, claim};

/// Bytes in place of every reply, while present.
pub(crate) type InjectedReply = Arc<Mutex<Option<Vec<u8>>>>;

/// Proxies a server, and replaces its replies while there are others. Never ends.
pub(crate) async fn replace_replies(listener: TcpListener, server: SocketAddr, words: InjectedReply) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("a client");
                connections.push(replace_with(client, server, Arc::clone(&words)));
            }
            Some(()) = connections.next(), if !connections.is_empty() => {}
        }
    }
}

async fn replace_with(client: TcpStream, server: SocketAddr, words: InjectedReply) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        // Either side closed the connection.
        let _over = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let back = async {
        let mut piece = vec![0; 64 * 1_024];
        while let Ok(length @ 1..) = from_server.read(&mut piece).await {
            let said = words.lock().clone();
            let said = said.as_deref().or_else(|| piece.get(..length));
            let said = said.expect("no longer than the piece");
            if to_client.write_all(said).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

// A partial reply, an unknown type, another protocol, a text and a list too large for any memory,
// an invalid number, and a depth too large for any stack: in the handshake, and later. The call
// ends in time with a transient error, and the next one gets a valid reply.
#[tokio::test]
async fn an_invalid_reply_is_an_error_and_the_next_call_succeeds() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    let words = InjectedReply::default();
    let server = fixture.server.address().expect("a port");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    fixture.proxy.set_server(listener.local_addr().expect("a port"));
    fixture.proxy.reset_all();
    tokio::select! {
        () = replace_replies(listener, server, Arc::clone(&words)) => {}
        () = assert_invalid_replies(&fixture, &words) => {}
    }
}

async fn assert_invalid_replies(fixture: &ProxyFixture, words: &InjectedReply) {
    fixture.wait_until_back().await;
    fixture.submit("a", 3).await.expect("submitted");
    let deep = b"*1\r\n".repeat(100_000);
    for replace_with in INVALID.into_iter().chain([&deep[..]]) {
        let shown = String::from_utf8_lossy(replace_with)
            .chars()
            .take(30)
            .collect::<String>();
        let lying = |lies: bool| *words.lock() = lies.then(|| replace_with.to_vec());
        for begins_with in ["a call", "a greeting"] {
            lying(true);
            if begins_with == "a greeting" {
                fixture.proxy.reset_all();
            }
            for _ in 0..2 {
                let call = timeout(CALL_TIMEOUT * 3, fixture.submit("b", 3)).await;
                let error = call.expect("in time").expect_err("a replace_with");
                assert!(error.is_passing(), "{shown:?} at {begins_with}: {error}");
            }
            lying(false);
            fixture.wait_until_back().await;
        }
    }
    // Each call was applied once.
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 6);
    assert_eq!(claim(&fixture.store, "s", 9).await.expect("claimed").len(), 6);
    fixture.assert_balanced().await;
}

/// Replies that are cut, of an unknown type, of another protocol, or too large for any memory.
pub(crate) const INVALID: [&[u8]; 7] = [
    b"+O",
    b"garbage\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x02\x0a",
    b"$999999999999\r\nx",
    b"*999999999999\r\n",
    b":x\r\n",
];
