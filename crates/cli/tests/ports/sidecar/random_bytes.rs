//! Random bytes in random order break nothing, and valid requests are still answered.

use std::sync::atomic::{AtomicUsize, Ordering};

use outflow_mock::MockApi;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::support::{PATIENCE, TestConfig, TestSidecar, echo};

/// A panic ends only one connection, so the test counts panics.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Fragments of valid and invalid requests.
const PIECES: [&str; 24] = [
    "GET ",
    "POST ",
    "/strict/x ",
    "//",
    "HTTP/1.1\r\n",
    "HTTP/1.0\r\n",
    "Host: 127.0.0.1\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\r\n",
    "\n",
    "\r",
    "abc",
    "3\r\n",
    "0\r\n\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "Outflow-Cost: 1\r\n",
    "\0",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\u{e9}",
    ": ",
    " ",
    "Upgrade: h2c\r\n",
];

// A fixed generator produces the same requests in every run.
fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).expect("31 bits")
}

async fn serve(sidecar: &TestSidecar, soup: &[u8]) {
    let mut stream = sidecar.connect().await;
    // The sidecar may have closed the connection already.
    let _refused = stream.write_all(soup).await;
    let _closed = stream.shutdown().await;
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "no end of {:?}", String::from_utf8_lossy(soup));
}

fn is_well(api: &MockApi) -> bool {
    api.audit().arrivals().iter().all(|arrival| &*arrival.path == "/x")
}

// 300 requests of up to 24 fragments reach every state of the parser many times.
#[tokio::test]
async fn random_bytes_do_not_break_the_sidecar() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    std::panic::set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    let mut seed = 17;
    for _ in 0..300 {
        let count = next(&mut seed) % 24 + 1;
        let soup: String = (0..count).map(|_| PIECES[next(&mut seed) % PIECES.len()]).collect();
        serve(&sidecar, soup.as_bytes()).await;
    }
    assert!(is_well(&api), "{:?}", api.audit().arrivals());
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}
