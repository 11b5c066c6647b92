//! Remaining work of an action: its places, and the jobs that wait there.

use super::job_codec::wall_time;
use super::paging::query_call;
use super::reply::ScriptReply;
use super::script_call::ScriptRunner;
use crate::action::{RemainingInLane, RemainingWork};
use crate::contract::StoreResult;
use crate::name::Name;

pub(super) async fn remaining(runner: &ScriptRunner, action: &Name) -> StoreResult<RemainingWork> {
    let call = query_call(runner, "remaining").arg(action.as_str());
    let mut reply = ScriptReply::new(runner.run(call).await?)?;
    let (queued, latest) = (reply.number()?, reply.number()?);
    let mut places = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let mut place = reply.list()?;
        let (lane, tenant) = (place.name()?, place.name()?);
        let (jobs, cost) = (place.number()?, place.number()?);
        places.push(RemainingInLane {
            lane,
            tenant,
            jobs,
            units: jobs.saturating_mul(cost),
        });
    }
    let left = RemainingWork {
        places,
        latest: (latest > 0).then(|| wall_time(latest)),
    };
    Ok(left.scaled_to(queued))
}
