//! Laws of the fault proxy, over real sockets: each fault has its own effect, and then it ends.
//! Times are real here, so bounds are one-sided where a busy machine could be late.

use std::io::{ErrorKind, Result};
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use outflow_testkit::{Background, Cut, Direction, FaultProxy, LinkLatency, NetConditions, Path, Traffic};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// Echoes its input.
async fn echo() -> (SocketAddr, Background<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let work = async move {
        let mut connections = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.push(Background::start(async move {
                let (mut from, mut to) = split(stream);
                // These tests break connections on purpose.
                let _broken = copy(&mut from, &mut to).await;
                let _broken = to.shutdown().await;
            }));
        }
    };
    (address, Background::start(work))
}

async fn proxied() -> (FaultProxy, Background<()>) {
    let (server, work) = echo().await;
    (FaultProxy::start(server).await.expect("a free port"), work)
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.expect("it listens")
}

async fn round_trip(stream: &mut TcpStream, word: &[u8]) -> Result<Vec<u8>> {
    stream.write_all(word).await?;
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Long enough to show that nothing arrives, short enough to wait for.
const A_WHILE: Duration = Duration::from_millis(150);

#[tokio::test]
async fn without_faults_all_bytes_pass_and_are_counted() {
    let (proxy, _server) = proxied().await;
    let mut client = connect(&proxy).await;
    let body: Vec<u8> = (0..=u8::MAX).cycle().take(1 << 20).collect();
    let (mut from, mut to) = client.split();
    let writer = async {
        to.write_all(&body).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut all = Vec::new();
    let ((), read) = tokio::join!(writer, from.read_to_end(&mut all));
    assert_eq!(read.unwrap(), body.len());
    assert!(all == body);
    let expected = Traffic {
        connects: 1,
        there: 1 << 20,
        back: 1 << 20,
    };
    assert_eq!(proxy.traffic(), expected);
}

// 100 ms there and 60 ms back: no round trip is faster, and ten at once take no longer than one.
#[tokio::test]
async fn a_delay_is_added_each_way_and_is_not_a_bandwidth() {
    let (proxy, _server) = proxied().await;
    let mut link = LinkLatency::from_delay(Duration::from_millis(100));
    link.back.delay = Duration::from_millis(60);
    proxy.set_link(link);
    let mut client = connect(&proxy).await;
    let begun = Instant::now();
    for _ in 0..10 {
        client.write_all(b"0123456789").await.unwrap();
        tokio::task::yield_now().await;
    }
    client.read_exact(&mut [0; 100]).await.unwrap();
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(160) && took < Duration::from_millis(800),
        "{took:?}"
    );
}

// 20,000 bytes at 100,000 a second.
#[tokio::test]
async fn bandwidth_is_limited() {
    let (proxy, _server) = proxied().await;
    let there = Path {
        bandwidth: NonZeroU64::new(100_000),
        ..Path::default()
    };
    proxy.set_link(LinkLatency {
        there,
        back: Path::default(),
    });
    let mut client = connect(&proxy).await;
    let begun = Instant::now();
    round_trip(&mut client, &vec![1; 20_000]).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn bytes_can_be_delivered_one_by_one() {
    let (proxy, _server) = proxied().await;
    let path = Path {
        delay: Duration::from_millis(5),
        segment: NonZeroUsize::new(1),
        ..Path::default()
    };
    proxy.set_link(LinkLatency {
        there: path,
        back: path,
    });
    let mut client = connect(&proxy).await;
    assert_eq!(
        round_trip(&mut client, b"letter by letter").await.unwrap(),
        b"letter by letter"
    );
}

#[tokio::test]
async fn a_refusing_proxy_refuses_at_once_and_reopens_its_port() {
    let (proxy, _server) = proxied().await;
    let mut old = connect(&proxy).await;
    round_trip(&mut old, b"before").await.unwrap();
    proxy.set_conditions(NetConditions::Refusing).await;
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(round_trip(&mut old, b"old").await.unwrap(), b"old");
    proxy.set_conditions(NetConditions::Clear).await;
    assert_eq!(round_trip(&mut connect(&proxy).await, b"new").await.unwrap(), b"new");
}

#[tokio::test]
async fn a_black_hole_swallows_everything_until_it_clears() {
    let (proxy, _server) = proxied().await;
    let mut old = connect(&proxy).await;
    round_trip(&mut old, b"before").await.unwrap();
    proxy.set_conditions(NetConditions::Blackhole).await;
    let mut new = connect(&proxy).await;
    for client in [&mut old, &mut new] {
        assert!(timeout(A_WHILE, round_trip(client, b"hello")).await.is_err());
    }
    proxy.set_conditions(NetConditions::Clear).await;
    for client in [&mut old, &mut new] {
        let mut answer = [0; 5];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
    }
}

// The request arrives, so its bytes are counted; the response does not.
#[tokio::test]
async fn one_direction_can_be_lost_alone() {
    let (proxy, _server) = proxied().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"before").await.unwrap();
    let lost = Direction::Back;
    proxy.set_conditions(NetConditions::OneWay { lost }).await;
    assert!(timeout(A_WHILE, round_trip(&mut client, b"hello")).await.is_err());
    assert_eq!((proxy.traffic().there, proxy.traffic().back), (11, 11));
    let lost = Direction::There;
    proxy.set_conditions(NetConditions::OneWay { lost }).await;
    client.read_exact(&mut [0; 5]).await.expect("this way is free again");
    assert!(timeout(A_WHILE, round_trip(&mut client, b"again")).await.is_err());
    assert_eq!((proxy.traffic().there, proxy.traffic().back), (16, 11));
}

#[tokio::test]
async fn a_reset_is_not_a_clean_end() {
    let (proxy, _server) = proxied().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"before").await.unwrap();
    proxy.reset_all();
    let broken = client.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
    assert_eq!(round_trip(&mut connect(&proxy).await, b"new").await.unwrap(), b"new");
}

// Ten bytes of twenty pass, then the reset; and so they do of ten.
#[tokio::test]
async fn a_cut_lets_exactly_its_bytes_through() {
    let (proxy, _server) = proxied().await;
    proxy.set_cut(Some(Cut {
        direction: Direction::Back,
        after: 10,
    }));
    for word in [&b"0123456789abcdefghij"[..], b"0123456789"] {
        let mut client = connect(&proxy).await;
        client.write_all(word).await.unwrap();
        let mut seen = Vec::new();
        let broken = client.read_to_end(&mut seen).await.unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
        assert_eq!(seen, b"0123456789");
    }
    proxy.set_cut(None);
    assert_eq!(
        round_trip(&mut connect(&proxy).await, b"whole").await.unwrap(),
        b"whole"
    );
}

#[tokio::test]
async fn a_missing_server_is_seen_as_a_reset() {
    let (server, work) = echo().await;
    let proxy = FaultProxy::start(server).await.unwrap();
    drop(work);
    tokio::task::yield_now().await;
    let mut client = connect(&proxy).await;
    let broken = client.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
}
