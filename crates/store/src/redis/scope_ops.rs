//! Operations on many jobs, in pieces that do not block the server.

use super::actions::{clean, step};
use super::error_map::strange;
use super::paging::query_call;
use super::reply::{ScriptReply, number};
use super::script_call::ScriptRunner;
use super::tenants::{lanes, set_paused};
use crate::contract::StoreResult;
use crate::name::Name;
use crate::tenant::ControlScope;

pub(super) async fn pause(caller: &ScriptRunner, scope: &ControlScope) -> StoreResult<()> {
    match scope {
        ControlScope::Tenant(tenant) => set_paused(caller, tenant, PAUSED).await,
        ControlScope::Action(action) => caller.run(step(caller, action, "pause")).await.map(drop),
    }
}

pub(super) async fn resume(caller: &ScriptRunner, scope: &ControlScope) -> StoreResult<()> {
    let action = match scope {
        ControlScope::Tenant(tenant) => return set_paused(caller, tenant, GOES).await,
        ControlScope::Action(action) => action,
    };
    caller.run(step(caller, action, "resume")).await?;
    resume_held(caller, action).await
}

/// Releases the jobs that a pause of the action held, and marks the resumption as complete.
pub(super) async fn resume_held(caller: &ScriptRunner, action: &Name) -> StoreResult<()> {
    let mut cursor = 0;
    loop {
        let found = places(caller, action, cursor).await?;
        for place in &found.places {
            let piece = SweepPiece::new(&place.tenant, "resume").with_action(action);
            piece.to_the_end(caller).await?;
        }
        cursor = found.next;
        if cursor == 0 {
            return caller.run(step(caller, action, "resumed")).await.map(drop);
        }
    }
}

pub(super) async fn cancel(caller: &ScriptRunner, scope: &ControlScope) -> StoreResult<u64> {
    match scope {
        ControlScope::Action(action) => cancel_action(caller, action).await,
        ControlScope::Tenant(tenant) => cancel_tenant(caller, tenant).await,
    }
}

/// Cancels an action. The action counts the jobs itself: once it is over, every machine helps to
/// end them.
async fn cancel_action(caller: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let before = cancelled(caller, action).await?;
    caller.run(step(caller, action, "cancel")).await?;
    clean(caller, action).await?;
    Ok(cancelled(caller, action).await?.saturating_sub(before))
}

async fn cancelled(caller: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let report = super::actions::action(caller, action).await?;
    Ok(report.map_or(0, |report| report.tally.cancelled))
}

/// Cancels a tenant. The search follows the order in which jobs move, so that none is missed; see
/// the script.
async fn cancel_tenant(caller: &ScriptRunner, tenant: &Name) -> StoreResult<u64> {
    if super::tenants::tenant(caller, tenant).await?.is_none() {
        return Ok(0);
    }
    let piece = |what| SweepPiece::new(tenant, what);
    piece("doom").run(caller, (0, 0)).await?;
    let mut ended = 0;
    for lane in lanes(caller).await? {
        ended += piece("delayed").in_lane(&lane).to_the_end(caller).await?;
        ended += piece("cancel").in_lane(&lane).to_the_end(caller).await?;
    }
    ended += piece("held").to_the_end(caller).await?;
    piece("mark").run(caller, (0, 0)).await?;
    Ok(ended)
}

pub(super) async fn release(caller: &ScriptRunner, tenant: &Name, most: u64) -> StoreResult<u64> {
    let mut left = most;
    loop {
        let piece = SweepPiece {
            most: left.min(PIECE),
            ..SweepPiece::new(tenant, "release")
        };
        let swept = piece.run(caller, (0, 0)).await?;
        left = left.saturating_sub(swept.many);
        if left == 0 || swept.many == 0 || swept.left == 0 {
            return Ok(swept.left);
        }
    }
}

/// Page of places where jobs of an action may be.
pub(super) struct JobPlaces {
    pub(super) places: Vec<JobPlace>,
    pub(super) next: u64,
}

pub(super) struct JobPlace {
    pub(super) lane: Name,
    pub(super) tenant: Name,
}

pub(super) async fn places(
    caller: &ScriptRunner,
    action: &Name,
    cursor: u64,
) -> StoreResult<JobPlaces> {
    let call = query_call(caller, "places")
        .arg(action.as_str())
        .arg(cursor);
    let mut reply = ScriptReply::new(caller.run(call).await?)?;
    let next = reply.written_number()?;
    let mut found = reply.list()?;
    let mut places = Vec::with_capacity(found.len());
    while !found.is_empty() {
        let bytes = found.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| strange())?;
        let (lane, tenant) = text.split_once(' ').ok_or_else(strange)?;
        let name = |text| Name::new(text).map_err(|_| strange());
        places.push(JobPlace {
            lane: name(lane)?,
            tenant: name(tenant)?,
        });
    }
    Ok(JobPlaces { places, next })
}

/// Ends the jobs of a finished action at these places.
pub(super) async fn sweep_action(
    caller: &ScriptRunner,
    action: &Name,
    places: &[JobPlace],
) -> StoreResult<u64> {
    let mut ended = 0;
    let mut lanes: Vec<&Name> = Vec::new();
    for JobPlace { lane, tenant } in places {
        ended += SweepPiece::new(tenant, "held")
            .with_action(action)
            .to_the_end(caller)
            .await?;
        let piece = SweepPiece::new(tenant, "cancel")
            .with_action(action)
            .in_lane(lane);
        ended += piece.to_the_end(caller).await?;
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    for lane in lanes {
        ended += SweepPiece::everybody("delayed")
            .with_action(action)
            .in_lane(lane)
            .to_the_end(caller)
            .await?;
    }
    Ok(ended)
}

/// Forgets places of a finished action; returns `false` if the action is open again.
pub(super) async fn forget(
    caller: &ScriptRunner,
    action: &Name,
    places: &[JobPlace],
) -> StoreResult<bool> {
    let mut call = step(caller, action, "forget");
    for JobPlace { lane, tenant } in places {
        call.push(format!("{lane} {tenant}"));
    }
    Ok(number(&caller.run(call).await?)? == 1)
}

/// Arguments of one sweep.
#[derive(Clone, Copy)]
struct SweepPiece<'a> {
    tenant: &'a str,
    what: &'static str,
    action: &'a str,
    lane: &'a str,
    most: u64,
}

/// Result of one piece of a sweep.
struct SweptJobs {
    many: u64,
    left: u64,
    at: (u64, u64),
}

impl<'a> SweepPiece<'a> {
    fn new(tenant: &'a Name, what: &'static str) -> Self {
        Self {
            tenant: tenant.as_str(),
            ..Self::everybody(what)
        }
    }

    const fn everybody(what: &'static str) -> Self {
        Self {
            tenant: "",
            what,
            action: "",
            lane: "",
            most: PIECE,
        }
    }

    fn with_action(self, action: &'a Name) -> Self {
        let action = action.as_str();
        Self { action, ..self }
    }

    fn in_lane(self, lane: &'a Name) -> Self {
        let lane = lane.as_str();
        Self { lane, ..self }
    }

    async fn to_the_end(self, caller: &ScriptRunner) -> StoreResult<u64> {
        let (mut many, mut at) = (0, (0, 0));
        loop {
            let swept = self.run(caller, at).await?;
            many += swept.many;
            at = swept.at;
            if swept.left == 0 {
                return Ok(many);
            }
        }
    }

    async fn run(self, caller: &ScriptRunner, (phase, at): (u64, u64)) -> StoreResult<SweptJobs> {
        let call = caller
            .call(&caller.scripts.sweep)
            .arg(self.tenant)
            .arg(self.what)
            .arg(self.action)
            .arg(self.lane)
            .arg(self.most)
            .arg(phase)
            .arg(at);
        let mut reply = ScriptReply::new(caller.run(call).await?)?;
        Ok(SweptJobs {
            many: reply.number()?,
            left: reply.number()?,
            at: (reply.number()?, reply.number()?),
        })
    }
}

const PAUSED: u8 = 1;
const GOES: u8 = 0;

/// About ten milliseconds of the server's time.
const PIECE: u64 = 1_000;
