//! Submissions and ends of actions in the live stream, with their counts.
//!
//! Other events of the engine reach the stream through the log. The ends of single jobs are left out: a hundred
//! per second would hide the rest, and the stream has an event for each call anyway.

use std::sync::Arc;

use outflow::{CancelToken, SpawnError};
use outflow_bulk::BulkEvent;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::sync::broadcast::error::RecvError;

use crate::Admin;

/// Forwards events of the engine to the live stream until the program stops.
pub(crate) fn forward_events(admin: &Arc<Admin>) -> Result<(), SpawnError> {
    if admin.program.engine().is_none() {
        return Ok(());
    }
    let admin = Arc::clone(admin);
    let tasks = admin.program.tasks().clone();
    tasks.spawn("bulk news", move |stop| forward(Arc::clone(&admin), stop))
}

async fn forward(admin: Arc<Admin>, stop: CancelToken) {
    let Some(bulk) = admin.program.engine() else {
        return;
    };
    let mut events = bulk.engine().events();
    loop {
        let received = tokio::select! {
            received = events.recv() => received,
            () = stop.cancelled() => return,
        };
        match received {
            Ok(event) => {
                if let Some((name, facts)) = event_json(&event) {
                    admin.stream.publish(BULK, name, || facts);
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn event_json(event: &BulkEvent) -> Option<(&'static str, Value)> {
    Some(match event {
        BulkEvent::Submitted { action, jobs } => {
            let action = action.as_ref().map(outflow_store::Name::as_str);
            ("bulk_submitted", json!({ "action": action, "jobs": jobs }))
        }
        BulkEvent::Finished { report } => (
            "bulk_finished",
            json!({ "action": report.spec.id.as_str(), "stage": report.stage.as_str(),
                    "jobs": outflow_bulk::views::job_counts(&report.counts) }),
        ),
        _ => return None,
    })
}

/// Name in place of an API in the stream.
const BULK: SmolStr = SmolStr::new_static("bulk");
