//! Limits that machines share: debited by claims, and outside of them.

use std::time::Duration;

use super::job_codec::micros;
use super::script_call::{ScriptCall, ScriptRunner};
use crate::shared_limits::{SharedLimits, StartDebit};

/// Adds shared limits to a call: guard, horizon, then name, units, window and measure of each
/// limit.
pub(super) fn push_limits(call: &mut ScriptCall<'_>, plan: Option<&SharedLimits>) {
    call.push(plan.map_or(0, |plan| micros(plan.guard)));
    call.push(plan.map_or(0, |plan| micros(plan.horizon)));
    for limit in plan.into_iter().flat_map(|plan| &plan.limits) {
        call.push(limit.name.as_str());
        call.push(limit.rate.quantity());
        call.push(micros(limit.rate.per()));
        call.push(u8::from(limit.measure.unit_cost().counts_cost()));
    }
}

/// Starts the call that debits a start now, or refunds one that was debited for an instant.
pub(super) fn debit_call<'a>(runner: &'a ScriptRunner, start: &StartDebit, at: Option<Duration>) -> ScriptCall<'a> {
    let mut call = runner
        .call(&runner.scripts.shared_limits)
        .arg(start.tenant.as_str())
        .arg(start.cost.units())
        .arg(at.map_or(0, micros));
    push_limits(&mut call, Some(&start.plan));
    call
}
