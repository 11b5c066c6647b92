//! Laws of the network in memory: delayed, in order, complete, and equal for one seed.

use std::io::ErrorKind;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use outflow_testkit::{Direction, Jitter, LinkLatency, NetConditions, Path, Traffic, VirtualNet, VirtualStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

const DELAY: Duration = Duration::from_millis(20);

async fn connected(net: &VirtualNet) -> (VirtualStream, VirtualStream) {
    let (client, server) = tokio::join!(net.connect(), net.accept());
    (client.expect("nothing refuses"), server)
}

async fn read(stream: &mut VirtualStream) -> Vec<u8> {
    let mut bytes = vec![0; 4_096];
    let count = stream.read(&mut bytes).await.expect("nothing breaks");
    bytes.truncate(count);
    bytes
}

// Different delays each direction, so that a mix-up is seen.
#[tokio::test(start_paused = true)]
async fn bytes_arrive_one_delay_later() {
    let mut link = LinkLatency::from_delay(DELAY);
    link.back.delay = Duration::from_millis(70);
    let net = VirtualNet::new(1, link);
    let begun = Instant::now();
    let (mut client, mut server) = connected(&net).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(90), "one way there and one back");
    client.write_all(b"question").await.unwrap();
    assert_eq!(read(&mut server).await, b"question");
    assert_eq!(begun.elapsed(), Duration::from_millis(110));
    server.write_all(b"answer!").await.unwrap();
    assert_eq!(read(&mut client).await, b"answer!");
    assert_eq!(begun.elapsed(), Duration::from_millis(180));
    let expected = Traffic {
        connects: 1,
        there: 8,
        back: 7,
    };
    assert_eq!(net.traffic(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_server_sees_a_connection_one_delay_later() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let begun = Instant::now();
    let (_client, heard) = tokio::join!(net.connect(), async {
        let _server = net.accept().await;
        begun.elapsed()
    });
    assert_eq!(heard, DELAY);
}

// A mean of 50 ms on top of nothing would turn the order around again and again.
#[tokio::test(start_paused = true)]
async fn bytes_never_overtake_each_other() {
    let net = VirtualNet::new(
        7,
        LinkLatency::default().with_jitter(Jitter::Exponential(Duration::from_millis(50))),
    );
    let (mut client, mut server) = connected(&net).await;
    let writer = async {
        for number in 0..1_000_u32 {
            client.write_all(&number.to_be_bytes()).await.unwrap();
            sleep(Duration::from_millis(3)).await;
        }
    };
    let reader = async {
        for number in 0..1_000_u32 {
            assert_eq!(server.read_u32().await.unwrap(), number);
        }
    };
    tokio::join!(writer, reader);
}

/// The delays of a thousand messages, each sent when the one before has arrived.
async fn delays(seed: u64, jitter: Jitter) -> Vec<Duration> {
    let net = VirtualNet::new(seed, LinkLatency::from_delay(DELAY).with_jitter(jitter));
    let (mut client, mut server) = connected(&net).await;
    let mut delays = Vec::new();
    for _ in 0..1_000 {
        let sent = Instant::now();
        client.write_all(b"x").await.expect("nothing breaks");
        read(&mut server).await;
        delays.push(sent.elapsed());
    }
    delays
}

fn mean(delays: &[Duration]) -> Duration {
    let count = u32::try_from(delays.len()).expect("a thousand");
    delays.iter().sum::<Duration>() / count
}

// Of a thousand draws the mean lies within a fifth of 10 ms, and the runtime rounds up to 1 ms more.
#[tokio::test(start_paused = true)]
async fn jitter_follows_its_named_distribution() {
    let ten = Duration::from_millis(10);
    let even = delays(3, Jitter::Uniform(ten * 2)).await;
    let long = delays(3, Jitter::Exponential(ten)).await;
    for drawn in [&even, &long] {
        let over = mean(drawn).checked_sub(DELAY).expect("never less than the fixed delay");
        assert!(
            over > ten * 4 / 5 && over < ten * 6 / 5 + Duration::from_millis(1),
            "{over:?}"
        );
        assert!(drawn.iter().all(|delay| *delay >= DELAY));
    }
    assert!(
        even.iter()
            .all(|delay| *delay <= DELAY + ten * 2 + Duration::from_millis(1))
    );
    assert!(long.iter().any(|delay| *delay > DELAY + ten * 4));
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_history() {
    let jitter = Jitter::Exponential(DELAY);
    assert_eq!(delays(5, jitter).await, delays(5, jitter).await);
    assert_ne!(delays(5, jitter).await, delays(6, jitter).await);
}

// A hundred thousand bytes at ten thousand a second.
#[tokio::test(start_paused = true)]
async fn bandwidth_is_limited() {
    let link = LinkLatency {
        there: Path {
            bandwidth: NonZeroU64::new(10_000),
            ..Path::default()
        },
        back: Path::default(),
    };
    let net = VirtualNet::new(1, link);
    let (mut client, mut server) = connected(&net).await;
    let begun = Instant::now();
    let writer = async move {
        for _ in 0..100 {
            client.write_all(&[0; 1_000]).await.unwrap();
        }
    };
    let mut all = Vec::new();
    let ((), count) = tokio::join!(writer, server.read_to_end(&mut all));
    assert_eq!(count.unwrap(), 100_000);
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_pieces_no_larger_than_the_segment() {
    let mut link = LinkLatency::from_delay(DELAY);
    link.there.segment = NonZeroUsize::new(3);
    let net = VirtualNet::new(1, link);
    let (mut client, mut server) = connected(&net).await;
    client.write_all(b"abcdefgh").await.unwrap();
    for piece in [&b"abc"[..], b"def", b"gh"] {
        assert_eq!(read(&mut server).await, piece);
    }
}

// Ten megabytes and a reader that does not read: the window is all that is taken.
#[tokio::test(start_paused = true)]
async fn a_stalled_reader_blocks_the_writer() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    let body = vec![7; 10 << 20];
    let held = timeout(Duration::from_mins(1), client.write_all(&body)).await;
    assert!(held.is_err());
    assert_eq!(net.traffic().there, 256 * 1024);
    let rest = &body[256 * 1024..];
    let writer = async move { client.write_all(rest).await };
    let mut all = Vec::new();
    let (written, count) = tokio::join!(writer, server.read_to_end(&mut all));
    assert!(written.is_ok());
    assert_eq!((count.unwrap(), all == body), (body.len(), true));
}

#[tokio::test(start_paused = true)]
async fn an_end_is_seen_a_delay_later_and_after_all_bytes() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    client.write_all(b"last words").await.unwrap();
    client.shutdown().await.unwrap();
    let refused = client.write_all(b"more").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    let begun = Instant::now();
    assert_eq!(read(&mut server).await, b"last words");
    assert_eq!(read(&mut server).await, b"");
    assert_eq!(begun.elapsed(), DELAY);
    server.write_all(b"still open this way").await.unwrap();
    assert_eq!(read(&mut client).await, b"still open this way");
}

#[tokio::test(start_paused = true)]
async fn a_writer_notices_a_closed_reader_after_the_delay() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, server) = connected(&net).await;
    drop(server);
    client
        .write_all(&vec![0; 1 << 20])
        .await
        .expect("the notice is in flight");
    sleep(DELAY).await;
    let refused = client.write_all(b"?").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    assert_eq!(read(&mut client).await, b"", "and sees its end");
}

// The window is full when the reader goes: the writer must not wait for it for ever.
#[tokio::test(start_paused = true)]
async fn a_blocked_writer_notices_a_closed_reader() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, server) = connected(&net).await;
    let body = vec![7; 10 << 20];
    assert!(timeout(DELAY, client.write_all(&body)).await.is_err());
    drop(server);
    sleep(DELAY).await;
    let written = timeout(DELAY, client.write_all(&body)).await;
    assert_eq!(written.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    let (mut client, server) = connected(&net).await;
    assert!(timeout(DELAY, client.write_all(&body)).await.is_err());
    let gone = async { drop(server) };
    let (written, ()) = tokio::join!(timeout(DELAY, client.write_all(&body)), gone);
    written.unwrap().expect("it is swallowed while the notice is in flight");
}

#[tokio::test(start_paused = true)]
async fn a_reset_breaks_the_other_end_a_delay_later() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    server.write_all(b"half an ans").await.unwrap();
    sleep(Duration::from_millis(5)).await;
    let begun = Instant::now();
    server.reset();
    assert_eq!(read(&mut client).await, b"half an ans");
    let broken = client.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!((broken.kind(), begun.elapsed()), (ErrorKind::ConnectionReset, DELAY));
    let broken = client.write_all(b"x").await.unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_all_breaks_both_ends_at_once_and_new_connections_work() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    let begun = Instant::now();
    let reset = async { net.reset_all() };
    let (mut here, mut there) = ([0; 9], [0; 9]);
    let (ours, theirs, ()) = tokio::join!(client.read(&mut here), server.read(&mut there), reset);
    assert_eq!(ours.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(theirs.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let (mut client, mut server) = connected(&net).await;
    client.write_all(b"again").await.unwrap();
    assert_eq!(read(&mut server).await, b"again");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_costs_a_round_trip_and_old_ones_continue() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    net.set_conditions(NetConditions::Refusing);
    let begun = Instant::now();
    let refused = net.connect().await.unwrap_err();
    assert_eq!(
        (refused.kind(), begun.elapsed()),
        (ErrorKind::ConnectionRefused, DELAY * 2)
    );
    client.write_all(b"old").await.unwrap();
    assert_eq!(read(&mut server).await, b"old");
    assert_eq!(net.traffic().connects, 2);
}

// A minute of nothing; then all written bytes, in order, one delay after the conditions cleared.
#[tokio::test(start_paused = true)]
async fn a_black_hole_delays_everything_until_it_clears() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    client.write_all(b"in flight, ").await.unwrap();
    net.set_conditions(NetConditions::Blackhole);
    client.write_all(b"then more").await.unwrap();
    client.shutdown().await.unwrap();
    let minute = Duration::from_mins(1);
    let mut all = String::new();
    assert!(timeout(minute, server.read_to_string(&mut all)).await.is_err());
    assert!(timeout(minute, net.connect()).await.is_err());
    net.set_conditions(NetConditions::Clear);
    let begun = Instant::now();
    server.read_to_string(&mut all).await.unwrap();
    assert_eq!((all.as_str(), begun.elapsed()), ("in flight, then more", DELAY));
}

#[tokio::test(start_paused = true)]
async fn a_one_way_black_hole_leaves_the_other_direction_open() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let (mut client, mut server) = connected(&net).await;
    net.set_conditions(NetConditions::OneWay { lost: Direction::Back });
    client.write_all(b"asked").await.unwrap();
    assert_eq!(read(&mut server).await, b"asked");
    server.write_all(b"answered").await.unwrap();
    assert!(timeout(Duration::from_mins(1), read(&mut client)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_accept_loses_no_connection() {
    let net = VirtualNet::new(1, LinkLatency::from_delay(DELAY));
    let client = net.connect();
    let server = async {
        assert!(timeout(DELAY / 2, net.accept()).await.is_err());
        net.accept().await
    };
    let both = async { tokio::join!(client, server) };
    assert!(timeout(Duration::from_secs(1), both).await.is_ok());
}

// Two hundred clients at once, whose jitter turns their order around.
#[tokio::test(start_paused = true)]
async fn every_connection_is_accepted_once() {
    let net = VirtualNet::new(9, LinkLatency::from_delay(DELAY).with_jitter(Jitter::Uniform(DELAY)));
    let clients: Vec<_> = (0..200_u32)
        .map(|number| {
            let net = net.clone();
            outflow_testkit::Background::start(async move {
                let mut stream = net.connect().await.unwrap();
                stream.write_u32(number).await.unwrap();
                assert_eq!(stream.read_u32().await.unwrap(), number);
            })
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut server = net.accept().await;
        let number = server.read_u32().await.unwrap();
        server.write_u32(number).await.unwrap();
        held.push((number, server));
    }
    for client in clients {
        client.join().await;
    }
    held.sort_by_key(|(number, _)| *number);
    assert!(held.iter().map(|(number, _)| *number).eq(0..200));
}
