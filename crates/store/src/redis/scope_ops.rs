//! Control of tenants and actions: operations on many jobs, in pieces that do not block the server.

use outflow_core::WallTime;

use super::actions::{action_call, clean};
use super::error_map::unexpected_reply;
use super::paging::query_call;
use super::script_call::{ScriptCall, ScriptRunner};
use super::tenants::{job_counts, rule_call};
use super::{RedisStore, audit, dead_letters};
use crate::action::{ActionReport, JobCounts};
use crate::contract::{ActionStore, JobQueue, StoreControl, StoreResult, TenantStore};
use crate::name::Name;
use crate::tenant::ControlScope;

impl StoreControl for RedisStore {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        let call = match scope {
            ControlScope::Tenant(tenant) => pause_call(&self.runner, tenant, PAUSED),
            ControlScope::Action(action) => action_call(&self.runner, action, "pause"),
        };
        self.runner.run(call).await.map(drop)
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        match scope {
            ControlScope::Tenant(tenant) => self
                .runner
                .run(pause_call(&self.runner, tenant, RUNNING))
                .await
                .map(drop),
            ControlScope::Action(action) => {
                self.runner.run(action_call(&self.runner, action, "resume")).await?;
                resume_held(&self.runner, action).await
            }
        }
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        match scope {
            ControlScope::Action(action) => cancel_action(self, action).await,
            ControlScope::Tenant(tenant) => cancel_tenant(self, tenant).await,
        }
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        job_counts(&self.runner, "counts").await
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        dead_letters::collect_garbage(&self.runner, dead_before).await
    }

    async fn audit(&self) -> StoreResult<u64> {
        audit::recount(self).await
    }

    fn take_warning(&self) -> Option<String> {
        self.runner.warning()
    }
}

fn pause_call<'a>(runner: &'a ScriptRunner, tenant: &Name, paused: u8) -> ScriptCall<'a> {
    rule_call(runner, tenant.as_str(), "pause").arg(paused)
}

/// Releases the jobs that a pause of the action held, and marks the resumption as complete.
pub(super) async fn resume_held(runner: &ScriptRunner, action: &Name) -> StoreResult<()> {
    let mut cursor = 0;
    loop {
        let found = places(runner, action, cursor).await?;
        for place in &found.places {
            let piece = SweepPiece::new(&place.tenant, "resume").with_action(action);
            piece.run_to_end(runner).await?;
        }
        cursor = found.next;
        if cursor == 0 {
            return runner.run(action_call(runner, action, "resumed")).await.map(drop);
        }
    }
}

/// Cancels an action. The action counts the jobs itself: once it is over, every machine helps to
/// end them.
async fn cancel_action(store: &RedisStore, action: &Name) -> StoreResult<u64> {
    let cancelled = |report: Option<ActionReport>| report.map_or(0, |report| report.counts.cancelled);
    let before = cancelled(store.action(action).await?);
    store.runner.run(action_call(&store.runner, action, "cancel")).await?;
    clean(&store.runner, action).await?;
    Ok(cancelled(store.action(action).await?).saturating_sub(before))
}

/// Cancels a tenant. The search follows the order in which jobs move, so that none is missed; see
/// the script.
async fn cancel_tenant(store: &RedisStore, tenant: &Name) -> StoreResult<u64> {
    if store.tenant(tenant).await?.is_none() {
        return Ok(0);
    }
    let runner = &store.runner;
    let piece = |operation| SweepPiece::new(tenant, operation);
    piece("doom").run(runner, SweepCursor::default()).await?;
    let mut ended = 0;
    for lane in store.lanes().await? {
        ended += piece("delayed").with_lane(&lane).run_to_end(runner).await?;
        ended += piece("cancel").with_lane(&lane).run_to_end(runner).await?;
    }
    ended += piece("held").run_to_end(runner).await?;
    piece("mark").run(runner, SweepCursor::default()).await?;
    Ok(ended)
}

pub(super) async fn release(runner: &ScriptRunner, tenant: &Name, limit: u64) -> StoreResult<u64> {
    let mut remaining = limit;
    loop {
        let piece = SweepPiece {
            limit: remaining.min(PIECE),
            ..SweepPiece::new(tenant, "release")
        };
        let swept = piece.run(runner, SweepCursor::default()).await?;
        remaining = remaining.saturating_sub(swept.count);
        if remaining == 0 || swept.count == 0 || swept.remaining == 0 {
            return Ok(swept.remaining);
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

pub(super) async fn places(runner: &ScriptRunner, action: &Name, cursor: u64) -> StoreResult<JobPlaces> {
    let call = query_call(runner, "places").arg(action.as_str()).arg(cursor);
    let mut reply = runner.read(call).await?;
    let next = reply.text_number()?;
    let places = reply.list()?.read_all(|found| {
        let bytes = found.bytes()?;
        let text = std::str::from_utf8(&bytes).map_err(|_| unexpected_reply())?;
        let (lane, tenant) = text.split_once(' ').ok_or_else(unexpected_reply)?;
        let name = |text| Name::new(text).map_err(|_| unexpected_reply());
        Ok(JobPlace {
            lane: name(lane)?,
            tenant: name(tenant)?,
        })
    })?;
    Ok(JobPlaces { places, next })
}

/// Ends the jobs of a finished action at these places.
pub(super) async fn sweep_action(runner: &ScriptRunner, action: &Name, places: &[JobPlace]) -> StoreResult<u64> {
    let mut ended = 0;
    let mut lanes: Vec<&Name> = Vec::new();
    for JobPlace { lane, tenant } in places {
        ended += SweepPiece::new(tenant, "held")
            .with_action(action)
            .run_to_end(runner)
            .await?;
        let piece = SweepPiece::new(tenant, "cancel").with_action(action).with_lane(lane);
        ended += piece.run_to_end(runner).await?;
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    for lane in lanes {
        ended += SweepPiece::all_tenants("delayed")
            .with_action(action)
            .with_lane(lane)
            .run_to_end(runner)
            .await?;
    }
    Ok(ended)
}

/// Forgets places of a finished action; returns `false` if the action is open again.
pub(super) async fn forget(runner: &ScriptRunner, action: &Name, places: &[JobPlace]) -> StoreResult<bool> {
    let mut call = action_call(runner, action, "forget");
    for JobPlace { lane, tenant } in places {
        call.push(format!("{lane} {tenant}"));
    }
    Ok(runner.read_number(call).await? == 1)
}

/// Arguments of one sweep.
#[derive(Clone, Copy)]
struct SweepPiece<'a> {
    tenant: &'a str,
    operation: &'static str,
    action: &'a str,
    lane: &'a str,
    limit: u64,
}

/// Position where a sweep continues: its phase, and the jobs that it left in place.
#[derive(Clone, Copy, Default)]
struct SweepCursor {
    phase: u64,
    skipped: u64,
}

/// Result of one piece of a sweep.
struct SweptJobs {
    count: u64,
    remaining: u64,
    next: SweepCursor,
}

impl<'a> SweepPiece<'a> {
    fn new(tenant: &'a Name, operation: &'static str) -> Self {
        Self {
            tenant: tenant.as_str(),
            ..Self::all_tenants(operation)
        }
    }

    const fn all_tenants(operation: &'static str) -> Self {
        Self {
            tenant: "",
            operation,
            action: "",
            lane: "",
            limit: PIECE,
        }
    }

    fn with_action(self, action: &'a Name) -> Self {
        let action = action.as_str();
        Self { action, ..self }
    }

    fn with_lane(self, lane: &'a Name) -> Self {
        let lane = lane.as_str();
        Self { lane, ..self }
    }

    async fn run_to_end(self, runner: &ScriptRunner) -> StoreResult<u64> {
        let (mut count, mut cursor) = (0, SweepCursor::default());
        loop {
            let swept = self.run(runner, cursor).await?;
            count += swept.count;
            cursor = swept.next;
            if swept.remaining == 0 {
                return Ok(count);
            }
        }
    }

    async fn run(self, runner: &ScriptRunner, cursor: SweepCursor) -> StoreResult<SweptJobs> {
        let call = runner
            .call(&runner.scripts.scope_ops)
            .arg(self.tenant)
            .arg(self.operation)
            .arg(self.action)
            .arg(self.lane)
            .arg(self.limit)
            .arg(cursor.phase)
            .arg(cursor.skipped);
        let mut reply = runner.read(call).await?;
        Ok(SweptJobs {
            count: reply.number()?,
            remaining: reply.number()?,
            next: SweepCursor {
                phase: reply.number()?,
                skipped: reply.number()?,
            },
        })
    }
}

const PAUSED: u8 = 1;
const RUNNING: u8 = 0;

/// About ten milliseconds of the server's time.
const PIECE: u64 = 1_000;
