//! Limits that machines share: debited by claims, and outside of them.

use std::time::Duration;

use super::call::{Call, Caller};
use super::record::micros;
use super::reply::Reply;
use crate::jobs::Answer;
use crate::plan::{SharedPlan, Start};

/// Adds a plan to a call: guard, horizon, then name, units, window and measure of each limit.
pub(super) fn push_plan(call: &mut Call<'_>, plan: Option<&SharedPlan>) {
    call.push(plan.map_or(0, |plan| micros(plan.guard)));
    call.push(plan.map_or(0, |plan| micros(plan.horizon)));
    for limit in plan.into_iter().flat_map(|plan| &plan.limits) {
        call.push(limit.name.as_str());
        call.push(limit.rate.quantity());
        call.push(micros(limit.rate.per()));
        call.push(u8::from(limit.measure.toll().heeds_cost()));
    }
}

/// Debits a start now; how long it would have to wait, if there is no room.
pub(super) async fn debit(caller: &Caller, start: &Start) -> Answer<Option<Duration>> {
    Reply::new(caller.run(call(caller, start, None)).await?)?.maybe_span()
}

/// Gives a start back that was not used.
pub(super) async fn refund(caller: &Caller, start: &Start, at: Duration) -> Answer<()> {
    caller.run(call(caller, start, Some(at))).await?;
    Ok(())
}

fn call<'a>(caller: &'a Caller, start: &Start, at: Option<Duration>) -> Call<'a> {
    let mut call = caller
        .call(&caller.scripts.limit)
        .arg(start.tenant.as_str())
        .arg(start.cost.units())
        .arg(at.map_or(0, micros));
    push_plan(&mut call, Some(&start.plan));
    call
}
