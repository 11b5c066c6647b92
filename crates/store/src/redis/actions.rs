//! Actions: opening, reports, notification and outcomes.

use bytes::Bytes;

use super::RedisStore;
use super::error_map::unexpected_reply;
use super::job_codec::{
    micros, read_byte, read_bytes, read_name, read_text, read_time, read_u32, read_uint, wall_time,
};
use super::paging::{self, PAGE, query_call, reports};
use super::reply::ScriptReply;
use super::scope_ops::{forget, places, resume_held, sweep_action};
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::{ActionReport, ActionSpec, ActionStage, FinishedQuery, JobCounts, RemainingInLane, RemainingWork};
use crate::contract::{ActionStore, StoreResult};
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::{JobOutcome, JobStatus};
use crate::tenant::PageRequest;

impl ActionStore for RedisStore {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        for _ in 0..MAX_CLEANINGS {
            let call = action_call(&self.runner, &spec.id, "open")
                .arg(micros(spec.timeout))
                .arg(micros(spec.keep))
                .arg(encode_note(&spec));
            match self.runner.run(call).await {
                Err(error) if is_cleaning(&error) => drop(finish_cleaning(&self.runner, &spec.id).await?),
                answer => return answer.map(drop),
            }
        }
        Err(still_cleaning(&spec.id))
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        match self
            .runner
            .read_number(action_call(&self.runner, action, "close"))
            .await?
        {
            0 => Err(unknown_action(action)),
            _ => Ok(()),
        }
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        let call = query_call(&self.runner, "action").arg(id.as_str());
        let reply = ScriptReply::from_optional(self.runner.run(call).await?)?;
        reply.map_or(Ok(None), read_report)
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        let call = query_call(&self.runner, "remaining").arg(action.as_str());
        let mut reply = self.runner.read(call).await?;
        let (queued, latest) = (reply.number()?, reply.number()?);
        let places = reply.read_all(|reply| {
            let mut place = reply.list()?;
            let (lane, tenant) = (place.name()?, place.name()?);
            let (jobs, cost, all) = (place.number()?, place.number()?, place.number()?);
            Ok(RemainingInLane {
                lane,
                tenant,
                jobs,
                units: jobs.saturating_mul(cost),
                until_last: all,
            })
        })?;
        let latest = (latest > 0).then(|| wall_time(latest));
        Ok(RemainingWork { places, latest }.scaled_to(queued))
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        paging::page(&self.runner, "actions", &page, read_report).await
    }

    async fn take_finished(&self, query: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        let limit = query.max.clamp(1, PAGE);
        let finished = finish_interrupted(self, limit).await;
        let mut taken = self.runner.read(take_call(&self.runner, query, limit)).await?;
        if taken.is_empty() {
            return finished.map(|()| Vec::new());
        }
        let mut call = query_call(&self.runner, "these");
        while !taken.is_empty() {
            call.push(taken.name()?.as_str());
        }
        let ripe = reports(self.runner.read(call).await?, read_report)?;
        let opened_at = |report: &ActionReport| (report.spec.id.clone(), micros(report.opened.as_duration()));
        self.opened_at.lock().extend(ripe.iter().map(opened_at));
        Ok(ripe)
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        let mut call = action_call(&self.runner, action, "notified");
        let opened_at = self.opened_at.lock().remove(action);
        if let Some(opened_at) = opened_at {
            call.push(opened_at);
        }
        match self.runner.read_number(call).await? {
            0 => Err(unknown_action(action)),
            1 => Ok(()),
            _ => Err(StoreError::refused(format_args!(
                "the action {action} is not over: wait until it ends"
            ))),
        }
    }

    async fn outcomes(&self, action: &Name, after: u64, limit: usize) -> StoreResult<Vec<JobOutcome>> {
        let (mut outcomes, mut place) = (Vec::new(), after);
        // A page may hold nothing but places of requeued jobs.
        while outcomes.is_empty() {
            let call = query_call(&self.runner, "outcomes")
                .arg(action.as_str())
                .arg(place)
                .arg(limit.clamp(1, PAGE));
            let mut reply = self.runner.read(call).await?;
            let now = reply.number()?;
            let mut lines = reply.list()?;
            if lines.is_empty() {
                break;
            }
            while !lines.is_empty() {
                place += 1;
                let line = lines.bytes()?;
                if !line.is_empty() {
                    outcomes.push(decode_outcome(line, place, now)?);
                }
            }
        }
        Ok(outcomes)
    }
}

/// Encodes the note for the script: a present but empty note differs from none.
pub(super) fn encode_note(spec: &ActionSpec) -> String {
    let note = spec.note.as_ref().map(|note| format!("={note}"));
    note.unwrap_or_default()
}

/// Returns `true` if the name was used before and its old jobs are still being cancelled.
pub(super) fn is_cleaning(error: &StoreError) -> bool {
    error.is_refused() && error.to_string().contains("CLEANING")
}

/// Reports that jobs remain after repeated cleaning.
pub(super) fn still_cleaning(action: &Name) -> StoreError {
    StoreError::refused(format_args!(
        "jobs of an earlier action {action} are still being cancelled: try again, or use another name"
    ))
}

fn unknown_action(action: &Name) -> StoreError {
    StoreError::refused(format_args!(
        "no action is called {action}: open it first, or submit a job of it"
    ))
}

pub(super) fn action_call<'a>(runner: &'a ScriptRunner, action: &Name, what: &str) -> ScriptCall<'a> {
    let call = runner.call(&runner.scripts.action);
    call.arg(action.as_str()).arg(what)
}

/// Ends the remaining jobs of a finished action and returns their number.
pub(super) async fn finish_cleaning(runner: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let (mut ended, mut cursor) = (0, 0);
    loop {
        let page = places(runner, action, cursor).await?;
        ended += sweep_action(runner, action, &page.places).await?;
        // Another process finished it and the name is in use again: the new jobs must stay.
        if !forget(runner, action, &page.places).await? {
            return Ok(ended);
        }
        // An empty page need not be the last: forgotten entries leave gaps.
        cursor = page.next;
        if cursor == 0 {
            return Ok(ended);
        }
    }
}

/// Ends the remaining jobs of an action that ended early, and marks it as cleaned.
pub(super) async fn clean(runner: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let ended = finish_cleaning(runner, action).await?;
    runner.run(action_call(runner, action, "cleaned")).await?;
    Ok(ended)
}

/// Finishes overdue actions, and cancellations and resumptions that a dead process left. A failure
/// of one does not stop the others and is returned at the end.
async fn finish_interrupted(store: &RedisStore, limit: usize) -> StoreResult<()> {
    let mut answer = Ok(());
    for action in list_actions(&store.runner, "overdue", limit).await? {
        answer = answer.and(end_overdue(store, &action).await);
    }
    for action in list_actions(&store.runner, "resuming", limit).await? {
        answer = answer.and(resume_held(&store.runner, &action).await);
    }
    answer
}

async fn list_actions(runner: &ScriptRunner, what: &str, limit: usize) -> StoreResult<Vec<Name>> {
    let reply = runner.read(query_call(runner, what).arg(limit)).await?;
    reply.read_all(ScriptReply::name)
}

/// Ends an action that timed out, or whose cancelling process died, and cleans it.
async fn end_overdue(store: &RedisStore, id: &Name) -> StoreResult<()> {
    let mut call = action_call(&store.runner, id, "fail");
    // A pause of its tenants stops it like a pause of its own.
    if store.action(id).await?.is_some_and(|report| report.held > 0) {
        call.push("held");
    }
    store.runner.run(call).await?;
    match store.action(id).await? {
        Some(report) if matches!(report.stage, ActionStage::Failed | ActionStage::Cancelled) => {
            clean(&store.runner, id).await.map(drop)
        }
        _ => Ok(()),
    }
}

fn take_call<'a>(runner: &'a ScriptRunner, query: FinishedQuery<'_>, limit: usize) -> ScriptCall<'a> {
    let call = runner.call(&runner.scripts.finished);
    let mut call = call.arg(limit).arg(micros(query.lease));
    for action in query.notifying {
        call.push(action.as_str());
    }
    call
}

fn decode_outcome(mut bytes: Bytes, place: u64, now: u64) -> StoreResult<JobOutcome> {
    let how = read_byte(&mut bytes)?;
    let at = read_time(&mut bytes)?;
    let (attempts, throttles) = (read_u32(&mut bytes)?, read_u32(&mut bytes)?);
    let status = u16::try_from(read_uint(&mut bytes, 2)?).map_err(|_| unexpected_reply())?;
    let expiry = read_uint(&mut bytes, 7)?;
    let (id, tenant) = (read_byte(&mut bytes)?, read_byte(&mut bytes)?);
    let (id, tenant) = (read_name(&mut bytes, id)?, read_name(&mut bytes, tenant)?);
    let error = (how >= HAS_TEXT).then(|| read_text(&mut bytes)).transpose()?;
    let is_stored = expiry > now;
    let length = bytes.len();
    let body = read_bytes(&mut bytes, length)?;
    Ok(JobOutcome {
        place,
        id,
        tenant,
        ended: decode_status(how % HAS_TEXT)?,
        at,
        attempts,
        throttles,
        status: is_stored.then_some(status),
        body: is_stored.then_some(body),
        error,
    })
}

fn decode_status(number: u8) -> StoreResult<JobStatus> {
    match number {
        1 => Ok(JobStatus::Done),
        2 => Ok(JobStatus::Failed),
        3 => Ok(JobStatus::Expired),
        4 => Ok(JobStatus::Cancelled),
        _ => Err(unexpected_reply()),
    }
}

/// Reads a report; `None` if only the name is left.
fn read_report(mut reply: ScriptReply) -> StoreResult<Option<ActionReport>> {
    let id = reply.name()?;
    if reply.is_empty() {
        return Ok(None);
    }
    let held = reply.number()?;
    let (stage, closed, paused) = (reply.number()?, reply.number()? == 1, reply.number()? == 1);
    let (opened, started, ended) = (reply.number()?, reply.number()?, reply.number()?);
    let (timeout, keep) = (reply.span()?, reply.span()?);
    let (_floor, _notified) = (reply.number()?, reply.number()?);
    let (queued, non_ready, delayed) = (reply.number()?, reply.number()?, reply.number()?);
    let _set_aside = reply.number()?;
    let counts = JobCounts {
        queued,
        non_ready,
        delayed,
        in_flight: reply.number()?,
        done: reply.number()?,
        dead: reply.number()?,
        failed: reply.number()?,
        cancelled: reply.number()?,
        throttles: reply.number()?,
        busy: reply.span()?,
    };
    let progressed = reply.number()?;
    let note = reply.maybe_bytes()?;
    let at = |micros: u64| (micros > 0).then(|| wall_time(micros));
    Ok(Some(ActionReport {
        spec: ActionSpec {
            id,
            timeout,
            keep,
            note: note.map(|note| String::from_utf8_lossy(&note).into_owned()),
        },
        stage: match stage {
            5 => ActionStage::Completed,
            6 => ActionStage::Failed,
            7 => ActionStage::Cancelled,
            _ if closed && counts.open() == 0 => ActionStage::Aggregating,
            _ if started > 0 => ActionStage::Running,
            _ if closed => ActionStage::Dispatched,
            _ => ActionStage::Created,
        },
        paused: paused && counts.queued > 0,
        held,
        counts,
        opened: wall_time(opened),
        started: at(started),
        ended: at(ended),
        progressed: wall_time(progressed.max(opened)),
    }))
}

/// Flag of an outcome whose error text precedes the stored result.
const HAS_TEXT: u8 = 16;

/// Once is enough unless another process opens and cancels an action of the same name meanwhile.
pub(super) const MAX_CLEANINGS: u32 = 8;
