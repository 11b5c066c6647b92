//! Whether a job may go now: where the store has set an instant, and where the job is to ask itself.

use std::sync::Arc;
use std::time::Duration;

use outflow::{Ask, Cause, Mode, Outflow, Permit, Refusal, Target, Upstream, Why};
use outflow_store::{Claimed, End, JobStore, SharedPlan, Start};

use super::{Doer, failed};
use crate::deed::HttpCall;
use crate::engine::Hub;
use crate::gate::{Permits, is_never};
use crate::settings::Settings;

/// Where the store has debited the limits for an instant: the permit of the API's door, if the job can go in
/// so much time. Whoever is later would go beside those whose instant it is, and so gives the job back.
pub(super) async fn in_time(who: &Doer, job: &Claimed, left: Duration) -> Result<Permits, End> {
    if left.is_zero() {
        return Err(End::Returned);
    }
    let door = match who {
        Doer::Client(client) => door_of(client, job),
        Doer::Handler(_) => None,
    };
    let Some((door, target)) = door else {
        return Ok(Permits::default());
    };
    let by = door.now().saturating_add(left);
    let ask = Ask::new(target).mode(Mode::Wait).by(by);
    match door.admit(ask).await {
        Ok(permit) => Ok(Permits {
            api: Some(permit.within(by.since(door.now()))),
            tenant: None,
        }),
        // It would be given back for ever.
        Err(refusal) if is_never(&refusal) => Err(failed(refusal.to_string())),
        Err(_) => Err(End::Returned),
    }
}

/// Under the schedulers that try first: the permits if they are to be had, and otherwise by how much the
/// job is put off.
pub(super) async fn asked_now<S: JobStore>(
    hub: &Hub<S>,
    (settings, plan): (&Settings, Option<Arc<SharedPlan>>),
    doer: &Doer,
    job: &Claimed,
) -> Result<Permits, End> {
    let turned_away = |refusal: Refusal| {
        if is_never(&refusal) {
            // It would be put off for ever.
            return failed(refusal.to_string());
        }
        End::PutOff(settings.put_off())
    };
    let rate = settings.rule(&job.tenant).rate;
    let tenant = hub.doors.try_admit(&job.tenant, rate, job.cost);
    let tenant = tenant.map_err(turned_away)?;
    let api = match doer {
        Doer::Client(client) => {
            let permit = api_permit(client, job, settings.timeout).await;
            permit.map_err(turned_away)?
        }
        Doer::Handler(_) => None,
    };
    // The last, for it is not given back as permits are.
    if is_free(hub, (settings, plan), job).await? {
        return Ok(Permits { api, tenant });
    }
    Err(End::PutOff(settings.put_off()))
}

/// Whether a start now is within what machines share, or else within what all tenants may here.
async fn is_free<S: JobStore>(
    hub: &Hub<S>,
    (settings, plan): (&Settings, Option<Arc<SharedPlan>>),
    job: &Claimed,
) -> Result<bool, End> {
    let Some(plan) = plan else {
        let started = hub
            .house
            .start(settings.global_rate, job.cost, hub.clock.now());
        return Ok(started.is_ok());
    };
    let start = Start {
        tenant: job.tenant.clone(),
        cost: job.cost,
        plan: SharedPlan::clone(&plan),
    };
    let debited = hub.store.debit(&start).await;
    Ok(debited.map_err(|_| End::Returned)?.is_none())
}

/// The permit of the API's door, if its limits have room now. Where only a place among the calls in flight is
/// missing it is waited for: whoever has room at the limits is not what congestion is about, and a call comes
/// back sooner than the shortest wait ends.
async fn api_permit(
    client: &Outflow,
    job: &Claimed,
    patience: Duration,
) -> Result<Option<Permit>, Refusal> {
    let Some((door, target)) = door_of(client, job) else {
        return Ok(None);
    };
    let permit = match door.try_admit(Ask::new(target)) {
        Err(refusal) if lacks_a_place(&refusal) => {
            let by = door.now().saturating_add(patience);
            door.admit(Ask::new(target).mode(Mode::Wait).by(by)).await
        }
        answer => answer,
    };
    permit.map(Some)
}

const fn lacks_a_place(refusal: &Refusal) -> bool {
    matches!(refusal.cause, Cause::Busy(Why::Concurrency { .. }))
}

/// The door that a job's call passes; none if it is no call, or nobody knows its API.
fn door_of(client: &Outflow, job: &Claimed) -> Option<(Upstream, Target)> {
    let call = HttpCall::decode(job.payload.clone()).ok()?;
    let door = client.upstream(&call.api)?;
    let path = call.path.split('?').next().unwrap_or_default();
    let target = door.route(&call.method, path).costing(job.cost);
    Some((door, target))
}
