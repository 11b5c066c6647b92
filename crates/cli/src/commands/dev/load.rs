//! A small load to look at: steady calls, and now and then a burst that a strict API would refuse most
//! of.
//!
//! It comes in by the sidecar like any program's, so that what is seen is what users get.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use outflow::{CancelToken, SpawnError, TaskGroup};
use outflow_listener::ListenAddr;

use crate::http_once::{HttpTarget, exchange};
use crate::program::Program;

/// Begins to call, until the program stops.
pub(super) fn start(program: &Program) -> Result<(), SpawnError> {
    let tasks = program.station().tasks();
    let crowd = Arc::new(tasks.task_group("load calls")?);
    let place = match program.sidecar() {
        ListenAddr::Tcp(address) => HttpTarget::Tcp(address.to_string()),
        ListenAddr::Unix(path) => HttpTarget::Unix(path.clone()),
    };
    tasks.spawn("load", move |stop| {
        call_on(Arc::clone(&crowd), place.clone(), stop)
    })
}

async fn call_on(crowd: Arc<TaskGroup>, place: HttpTarget, stop: CancelToken) {
    let mut every = tokio::time::interval(BEAT);
    for beat in 0_u64.. {
        tokio::select! {
            _ = every.tick() => {}
            () = stop.cancelled() => return,
        }
        let burst = if beat % BURST_EVERY == 0 { BURST } else { 0 };
        for number in 0..=burst {
            let path = format!("/demo/items/{}", beat + number);
            // Refused only while the program stops.
            let _stopping = crowd.spawn(call(place.clone(), path));
        }
        if beat % ORDER_EVERY == 0 {
            let order = call(place.clone(), format!("/flaky/orders/{beat}"));
            let _stopping = crowd.spawn(order);
        }
    }
}

/// Makes one call. What comes of it is seen in the metrics and not here.
async fn call(place: HttpTarget, path: String) {
    if let Ok(request) = Request::get(path).body(Full::<Bytes>::default()) {
        let _seen_elsewhere = exchange(&place, request).await;
    }
}

/// Two calls a second: most of what the API allows is left to whoever tries it.
const BEAT: Duration = Duration::from_millis(500);

/// One a second: throttled, the API that fails is called half as often, some calls go twice, and whoever
/// tries it must not have to wait behind ours.
const ORDER_EVERY: u64 = 2;

/// Every ten seconds.
const BURST_EVERY: u64 = 20;

/// Twice what the API allows in a second.
const BURST: u64 = 20;
