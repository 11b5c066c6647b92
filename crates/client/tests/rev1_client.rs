//! Attempts to break the client. Each test states the law that it believes in; a red one is a defect.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used, reason = "reproductions")]

#[path = "http/support.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::core::{Accounting, Limit};
use outflow::{Api, Connecting, Outflow, Stream};
use outflow_testkit::VirtualTime;
use outflow_upstream::{Refusal, Script, StrictApi, When};
use support::{eager, scripted};

const SECOND: Duration = Duration::from_secs(1);

/// Like `over_pipes`, with a time that each connection takes.
fn connecting_in(strict: &StrictApi, spans: Vec<Duration>, adapt: impl FnOnce(&mut Api)) -> Outflow {
    let server = Arc::new(strict.in_memory());
    let mut api = eager(&server.url());
    adapt(&mut api);
    let nth = AtomicUsize::new(0);
    Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> Connecting {
            let n = nth.fetch_add(1, Ordering::Relaxed);
            let span = spans.get(n).copied().unwrap_or_default();
            let pipe: Box<dyn Stream> = Box::new(server.connect());
            Box::pin(async move {
                tokio::time::sleep(span).await;
                Ok(pipe)
            })
        }))
        .build()
        .expect("valid")
}

// A is admitted and still connecting (1 s) when B is told to wait 3 s. A must not be sent before.
#[tokio::test(start_paused = true)]
async fn rev1_nobody_is_sent_before_retry_after_not_even_who_was_connecting() {
    let strict = scripted(Script::new().rule(When::path("/b").first(1), Refusal::new(429, 3 * SECOND)));
    let client = connecting_in(&strict, vec![SECOND, Duration::ZERO], |api| {
        api.retry.count = 0;
    });
    let (a, b) = tokio::join!(client.get("strict", "/a").send(), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.get("strict", "/b").send().await
    });
    println!("{a:?} {b:?}");
    let early = strict.audit().sent_before_retry_after();
    assert!(early.is_empty(), "{early:?}");
}

// 1/s counted by sending. The first takes 950 ms to connect: it leaves 50 ms before the second.
#[tokio::test(start_paused = true)]
async fn rev1_counted_by_sending_counts_from_the_sending() {
    let strict = scripted(Script::new());
    let client = connecting_in(&strict, vec![Duration::from_millis(950), Duration::ZERO], |api| {
        api.rules.limits = vec![Limit::sliding("1/s".parse().unwrap()).counted(Accounting::Send)];
    });
    let (_a, _b) = tokio::join!(
        client.get("strict", "/a").send(),
        client.get("strict", "/b").send()
    );
    assert_eq!(strict.audit().most_in_any_window(SECOND), 1);
}
