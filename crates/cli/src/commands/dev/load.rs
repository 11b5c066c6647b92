//! A small load: steady calls, and periodic bursts above the limit of the API.
//!
//! It goes through the sidecar, as the calls of a user's program do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use outflow::{CancelToken, SpawnError, TaskGroup};
use outflow_listener::ListenAddr;

use crate::http_once::{HttpTarget, exchange};
use crate::program::Program;

/// Starts the load; it ends with the program.
pub(super) fn start(program: &Program) -> Result<(), SpawnError> {
    let tasks = program.state().tasks();
    let calls = Arc::new(tasks.task_group("load calls")?);
    let target = match program.sidecar() {
        ListenAddr::Tcp(address) => HttpTarget::Tcp(address.to_string()),
        ListenAddr::Unix(path) => HttpTarget::Unix(path.clone()),
    };
    tasks.spawn("load", move |stop| run_load(Arc::clone(&calls), target.clone(), stop))
}

async fn run_load(calls: Arc<TaskGroup>, target: HttpTarget, stop: CancelToken) {
    let mut interval = tokio::time::interval(PERIOD);
    for tick in 0_u64.. {
        tokio::select! {
            _ = interval.tick() => {}
            () = stop.cancelled() => return,
        }
        let burst = if tick % BURST_EVERY == 0 { BURST } else { 0 };
        for number in 0..=burst {
            let path = format!("/demo/items/{}", tick + number);
            // Fails only while the program stops.
            let _stopping = calls.spawn(call(target.clone(), path));
        }
        if tick % ORDER_EVERY == 0 {
            let order = call(target.clone(), format!("/flaky/orders/{tick}"));
            let _stopping = calls.spawn(order);
        }
    }
}

/// Makes one call. The metrics show its result.
async fn call(target: HttpTarget, path: String) {
    if let Ok(request) = Request::get(path).body(Full::<Bytes>::default()) {
        let _in_the_metrics = exchange(&target, request).await;
    }
}

/// Two calls a second leave most of the quota to the user.
const PERIOD: Duration = Duration::from_millis(500);

/// One call a second: the throttled API allows half its rate and some calls need a retry, and a user's call
/// must not queue behind the load.
const ORDER_EVERY: u64 = 2;

/// Every ten seconds.
const BURST_EVERY: u64 = 20;

/// Twice what the API allows in a second.
const BURST: u64 = 20;
