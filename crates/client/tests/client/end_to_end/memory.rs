//! Memory after a hundred thousand calls of one kind.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use outflow::metrics::{ApiLabels, Metrics};
use outflow::{Cache, CacheMode, CacheSettings, Outflow, Rules};
use outflow_mock::{MockApi, MockResponse};

use super::support::{TestBed, report};
use crate::support::own_process::{MIB, is_alone, resident};

type PendingCall = Pin<Box<dyn Future<Output = Result<outflow::Response, outflow::Error>> + Send>>;

/// Queues this many calls behind one that used the limit up.
fn queued_calls(client: &Outflow, count: usize) -> Vec<PendingCall> {
    let mut context = Context::from_waker(Waker::noop());
    let waiting = (0..count).map(|_| {
        let mut call: PendingCall = Box::pin(client.get("strict", "/").send());
        assert!(call.as_mut().poll(&mut context).is_pending());
        call
    });
    waiting.collect()
}

// Two rounds of a hundred thousand: the second needs no memory beyond the first's remains. Each
// call may hold 10 KiB, nearly all in its caller's future; its queue entry is a tenth.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_waiters_cost_little_and_leave_nothing() {
    if !is_alone("end_to_end::memory::a_hundred_thousand_waiters_cost_little_and_leave_nothing") {
        return;
    }
    let bed = TestBed::near(MockApi::builder());
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("1/day".parse().expect("valid"));
        // All waiters are in memory at once, and none ends.
        api.rules.queue = 200_000;
        api.rules.max_wait = Duration::from_hours(1_000_000 * 24);
    });
    client.get("strict", "/").send().await.expect("the first");
    let mut peaks = Vec::new();
    let before = resident();
    for _ in 0..2 {
        let waiting = queued_calls(&client, 100_000);
        assert_eq!(report(&client).waiting, 100_000);
        peaks.push(resident() - before);
        drop(waiting);
        assert_eq!(report(&client).waiting, 0);
    }
    assert!(peaks[0] / 100_000 <= 10 * 1024, "{peaks:?}");
    assert!(peaks[1] <= peaks[0] + 8 * MIB, "{peaks:?}");
    tokio::time::sleep(Duration::from_hours(25)).await;
    client.get("strict", "/").send().await.expect("and it goes on");
}

/// Calls this many different paths, with everything enabled that could remember a path.
async fn many_paths(count: u64) {
    let page = MockResponse::ok("0123456789".repeat(10)).header("cache-control", "max-age=600");
    let bed = TestBed::near(MockApi::builder().remembering(10).answer("/**", page));
    let settings = CacheSettings {
        memory: MIB,
        ..CacheSettings::default()
    };
    let cache = Cache::open(settings).expect("in memory");
    let builder = bed.builder(|api| {
        api.cache = CacheMode::Standard;
    });
    let client = builder.cache(cache).build().expect("valid");
    let api = client.api("strict").expect("there").clone();
    let metrics = Arc::new(Metrics::new([ApiLabels::from(api.as_ref())]));
    client.events().subscribe(metrics.clone());
    let mut marks = Vec::new();
    for number in 0..count {
        let path = format!("/items/{number}?page={number}");
        let response = client.get("strict", &path).send().await.expect("a response");
        assert_eq!(response.attempts(), 1);
        if (number + 1) % (count / 4) == 0 {
            marks.push((resident(), metrics.render().lines().count()));
        }
    }
    let (first, last) = (marks.first(), marks.last());
    let (first, last) = first.zip(last).expect("four marks");
    assert_eq!(first.1, last.1, "no path is a series");
    assert!(last.0 <= first.0 + 8 * MIB, "{marks:?}");
    assert_eq!(bed.mock.totals().seen, count);
}

// A quarter of these fills a 1 MiB cache several times over; growth after that would never end.
#[tokio::test(start_paused = true)]
async fn the_client_forgets_a_hundred_thousand_paths() {
    if !is_alone("end_to_end::memory::the_client_forgets_a_hundred_thousand_paths") {
        return;
    }
    many_paths(100_000).await;
}

#[ignore = "a million calls take a minute"]
#[tokio::test(start_paused = true)]
async fn stress_the_client_forgets_a_million_paths() {
    if !is_alone("end_to_end::memory::stress_the_client_forgets_a_million_paths") {
        return;
    }
    many_paths(1_000_000).await;
}
