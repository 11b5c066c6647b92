//! The API behind the program: it enforces its limit and has cacheable pages and streams.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use outflow_core::Rate;
use outflow_mock::{Content, Latency, MockApi, MockResponse, Quota, Server};

/// Starts an API that allows this many calls a second.
///
/// # Errors
/// If there is no port.
pub(super) async fn start(limit: u32) -> io::Result<Server> {
    let page = MockResponse::ok(json(8 * 1024))
        .header("cache-control", "max-age=3")
        .header("etag", "\"v1\"");
    let item = MockResponse::ok(json(2 * 1024)).header("cache-control", "max-age=60");
    let stream = MockResponse::ok("").content(Content::Drip {
        bytes: vec![b'.'; 100].into(),
        every: Duration::from_millis(2),
    });
    let api = MockApi::builder()
        .answer("/pages/**", page)
        .answer("/items/**", item)
        .answer("/stream", stream)
        .delay(
            Latency::Uniform(Duration::from_millis(1), Duration::from_millis(10)),
            Latency::None,
        )
        // Only totals are read at the end; a full audit would fill this process.
        .remembering(1_000)
        .build()
        .map_err(io::Error::other)?;
    api.limit_to(quotas(limit));
    api.listen().await
}

/// Returns a quota of this many calls a second.
pub(super) fn quotas(limit: u32) -> Vec<Quota> {
    let rate = Rate::per_second(limit.max(1).into());
    rate.map(Quota::sliding).into_iter().collect()
}

fn json(length: usize) -> Bytes {
    format!("{{\"filler\":\"{}\"}}", "x".repeat(length)).into()
}
