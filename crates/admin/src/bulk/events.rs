//! Submissions and the ends of actions, in the live stream with their numbers.
//!
//! What else the engine says is in the log, and comes into the stream from there. The ends of single jobs are
//! left out: a hundred a second would drown the rest, and each is a call that the stream tells of anyway.

use std::sync::Arc;

use outflow::{CancelToken, SpawnError};
use outflow_bulk::BulkEvent;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::sync::broadcast::error::RecvError;

use crate::Admin;

/// Passes news of jobs on until the program stops.
pub(crate) fn pass_on(admin: &Arc<Admin>) -> Result<(), SpawnError> {
    if admin.program.engine().is_none() {
        return Ok(());
    }
    let admin = Arc::clone(admin);
    let tasks = admin.program.tasks().clone();
    tasks.spawn("bulk news", move |stop| listen(Arc::clone(&admin), stop))
}

async fn listen(admin: Arc<Admin>, stop: CancelToken) {
    let Some(bulk) = admin.program.engine() else {
        return;
    };
    let mut news = bulk.engine().events();
    loop {
        let heard = tokio::select! {
            heard = news.recv() => heard,
            () = stop.cancelled() => return,
        };
        match heard {
            Ok(news) => {
                if let Some((name, facts)) = event_json(&news) {
                    admin.feed.publish(JOBS, name, || facts);
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn event_json(news: &BulkEvent) -> Option<(&'static str, Value)> {
    Some(match news {
        BulkEvent::Submitted { action, jobs } => {
            let action = action.as_ref().map(outflow_store::Name::as_str);
            ("bulk_submitted", json!({ "action": action, "jobs": jobs }))
        }
        BulkEvent::Finished { report } => (
            "bulk_finished",
            json!({ "action": report.spec.id.as_str(), "stage": report.stage.as_str(),
                    "jobs": outflow_bulk::views::JobCountsView::from_counts(&report.tally) }),
        ),
        _ => return None,
    })
}

/// What stands in the place of an API in the stream.
const JOBS: SmolStr = SmolStr::new_static("bulk");
