//! Actions: opening, reports, notification and outcomes.

use std::time::Duration;

use bytes::Bytes;

use super::action_epoch::ActionEpochs;
use super::error_map::strange;
use super::job_codec::{byte, instant, micros, name, number, part, small, wall, words};
use super::paging::{self, PAGE, query_call, reports};
use super::reply::{self, ScriptReply};
use super::scope_ops::{forget, places, resume_held, sweep_action};
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::{ActionReport, ActionSpec, ActionStage, FinishedQuery, JobCounts};
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::{JobOutcome, JobStatus};
use crate::tenant::PageRequest;

pub(super) async fn open(caller: &ScriptRunner, spec: ActionSpec) -> StoreResult<()> {
    for _ in 0..MOST_CLEANINGS {
        let call = step(caller, &spec.id, "open")
            .arg(micros(spec.timeout))
            .arg(micros(spec.keep))
            .arg(note(&spec));
        match caller.run(call).await {
            Err(error) if is_cleaning(&error) => drop(finish_cleaning(caller, &spec.id).await?),
            answer => return answer.map(drop),
        }
    }
    Err(not_clean(&spec.id))
}

pub(super) async fn close(caller: &ScriptRunner, action: &Name) -> StoreResult<()> {
    let known = caller.run(step(caller, action, "close")).await?;
    if reply::number(&known)? == 0 {
        return Err(unknown(action));
    }
    Ok(())
}

/// Encodes the note for the script: a present but empty note differs from none.
pub(super) fn note(spec: &ActionSpec) -> String {
    let note = spec.note.as_ref().map(|note| format!("={note}"));
    note.unwrap_or_default()
}

/// Returns `true` if the name was used before and its old jobs are still being cancelled.
pub(super) fn is_cleaning(error: &StoreError) -> bool {
    error.is_refused() && error.to_string().contains("CLEANING")
}

/// Reports that jobs remain after repeated cleaning.
pub(super) fn not_clean(action: &Name) -> StoreError {
    StoreError::refused(format_args!(
        "jobs of an earlier action {action} are still being cancelled: try again, or use another name"
    ))
}

fn unknown(action: &Name) -> StoreError {
    StoreError::refused(format_args!(
        "no action is called {action}: open it first, or submit a job of it"
    ))
}

pub(super) async fn mark_notified(
    caller: &ScriptRunner,
    lives: &ActionEpochs,
    action: &Name,
) -> StoreResult<()> {
    let mut call = step(caller, action, "told");
    if let Some(begun) = lives.end(action) {
        call.push(begun);
    }
    let answer = caller.run(call).await?;
    match reply::number(&answer)? {
        0 => Err(unknown(action)),
        1 => Ok(()),
        _ => Err(StoreError::refused(format_args!(
            "the action {action} is not over: wait until it is ripe"
        ))),
    }
}

pub(super) fn step<'a>(caller: &'a ScriptRunner, action: &Name, what: &str) -> ScriptCall<'a> {
    let call = caller.call(&caller.scripts.action);
    call.arg(action.as_str()).arg(what)
}

/// Ends the remaining jobs of a finished action and returns their number.
pub(super) async fn finish_cleaning(caller: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let (mut ended, mut cursor) = (0, 0);
    loop {
        let found = places(caller, action, cursor).await?;
        ended += sweep_action(caller, action, &found.places).await?;
        // Another process finished it and the name is in use again: the new jobs must stay.
        if !forget(caller, action, &found.places).await? {
            return Ok(ended);
        }
        // An empty page need not be the last: forgotten entries leave gaps.
        cursor = found.next;
        if cursor == 0 {
            return Ok(ended);
        }
    }
}

/// Ends the remaining jobs of an action that ended early, and marks it as cleaned.
pub(super) async fn clean(caller: &ScriptRunner, action: &Name) -> StoreResult<u64> {
    let ended = finish_cleaning(caller, action).await?;
    caller.run(step(caller, action, "cleaned")).await?;
    Ok(ended)
}

pub(super) async fn action(caller: &ScriptRunner, id: &Name) -> StoreResult<Option<ActionReport>> {
    let call = query_call(caller, "action").arg(id.as_str());
    let reply = ScriptReply::maybe(caller.run(call).await?)?;
    reply.map_or(Ok(None), report)
}

pub(super) async fn actions(
    caller: &ScriptRunner,
    page: &PageRequest,
) -> StoreResult<Vec<ActionReport>> {
    paging::page(caller, "actions", page, report).await
}

pub(super) async fn ripe(
    caller: &ScriptRunner,
    asked: FinishedQuery<'_>,
) -> StoreResult<Vec<ActionReport>> {
    let most = asked.most.clamp(1, PAGE);
    let finished = finish_begun(caller, most).await;
    let mut taken = ScriptReply::new(caller.run(take(caller, asked, most)).await?)?;
    if taken.is_empty() {
        return finished.map(|()| Vec::new());
    }
    let mut call = query_call(caller, "these");
    while !taken.is_empty() {
        call.push(taken.name()?.as_str());
    }
    reports(ScriptReply::new(caller.run(call).await?)?, report)
}

/// Finishes overdue actions, and cancellations and resumptions that a dead process left. A failure
/// of one does not stop the others and is returned at the end.
async fn finish_begun(caller: &ScriptRunner, most: usize) -> StoreResult<()> {
    let mut answer = Ok(());
    for action in standing(caller, "overdue", most).await? {
        answer = answer.and(end_overdue(caller, &action).await);
    }
    for action in standing(caller, "resuming", most).await? {
        answer = answer.and(resume_held(caller, &action).await);
    }
    answer
}

async fn standing(caller: &ScriptRunner, what: &str, most: usize) -> StoreResult<Vec<Name>> {
    let mut reply = ScriptReply::new(caller.run(query_call(caller, what).arg(most)).await?)?;
    let mut names = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        names.push(reply.name()?);
    }
    Ok(names)
}

async fn end_overdue(caller: &ScriptRunner, action: &Name) -> StoreResult<()> {
    caller.run(step(caller, action, "fail")).await?;
    clean_if_over(caller, action).await
}

fn take<'a>(caller: &'a ScriptRunner, asked: FinishedQuery<'_>, most: usize) -> ScriptCall<'a> {
    let call = caller.call(&caller.scripts.ripe);
    let mut call = call.arg(most).arg(micros(asked.lease));
    for action in asked.telling {
        call.push(action.as_str());
    }
    call
}

/// Cleans an action that just timed out, or whose cancelling process died.
async fn clean_if_over(caller: &ScriptRunner, id: &Name) -> StoreResult<()> {
    match action(caller, id).await? {
        Some(report) if matches!(report.stage, ActionStage::Failed | ActionStage::Cancelled) => {
            clean(caller, id).await.map(drop)
        }
        _ => Ok(()),
    }
}

pub(super) async fn outcomes(
    caller: &ScriptRunner,
    action: &Name,
    after: u64,
    most: usize,
) -> StoreResult<Vec<JobOutcome>> {
    let (mut outcomes, mut place) = (Vec::new(), after);
    // A page may hold nothing but places of requeued jobs.
    while outcomes.is_empty() {
        let call = query_call(caller, "outcomes")
            .arg(action.as_str())
            .arg(place)
            .arg(most.clamp(1, PAGE));
        let mut reply = ScriptReply::new(caller.run(call).await?)?;
        let now = reply.number()?;
        let mut lines = reply.list()?;
        if lines.is_empty() {
            break;
        }
        while !lines.is_empty() {
            place += 1;
            let line = lines.bytes()?;
            if !line.is_empty() {
                outcomes.push(outcome(line, place, now)?);
            }
        }
    }
    Ok(outcomes)
}

fn outcome(mut bytes: Bytes, place: u64, now: u64) -> StoreResult<JobOutcome> {
    let how = byte(&mut bytes)?;
    let at = instant(&mut bytes)?;
    let (attempts, throttles) = (small(&mut bytes)?, small(&mut bytes)?);
    let status = u16::try_from(number(&mut bytes, 2)?).map_err(|_| strange())?;
    let expiry = number(&mut bytes, 7)?;
    let (id, tenant) = (byte(&mut bytes)?, byte(&mut bytes)?);
    let (id, tenant) = (name(&mut bytes, id)?, name(&mut bytes, tenant)?);
    let error = (how >= SPOKEN).then(|| words(&mut bytes)).transpose()?;
    let kept = expiry > now;
    let length = bytes.len();
    let body = part(&mut bytes, length)?;
    Ok(JobOutcome {
        place,
        id,
        tenant,
        ended: ended(how % SPOKEN)?,
        at,
        attempts,
        throttles,
        status: kept.then_some(status),
        body: kept.then_some(body),
        error,
    })
}

const fn ended_of(number: u8) -> Option<JobStatus> {
    match number {
        1 => Some(JobStatus::Done),
        2 => Some(JobStatus::Failed),
        3 => Some(JobStatus::Expired),
        4 => Some(JobStatus::Cancelled),
        _ => None,
    }
}

fn ended(number: u8) -> StoreResult<JobStatus> {
    ended_of(number).ok_or_else(strange)
}

/// Reads a report; `None` if only the name is left.
fn report(mut reply: ScriptReply) -> StoreResult<Option<ActionReport>> {
    let id = reply.name()?;
    if reply.is_empty() {
        return Ok(None);
    }
    let held = reply.number()?;
    let (stage, closed, paused) = (reply.number()?, reply.number()? == 1, reply.number()? == 1);
    let (opened, started, ended) = (reply.number()?, reply.number()?, reply.number()?);
    let (timeout, keep) = (reply.span()?, reply.span()?);
    let (_floor, _told) = (reply.number()?, reply.number()?);
    let (queued, non_ready, delayed) = (reply.number()?, reply.number()?, reply.number()?);
    let _set_aside = reply.number()?;
    let tally = JobCounts {
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
    let note = reply.maybe_bytes()?;
    let at = |micros: u64| (micros > 0).then(|| wall(micros));
    let progress = ActionCounts {
        stage,
        closed,
        started,
    };
    Ok(Some(ActionReport {
        spec: spec(id, timeout, keep, note),
        stage: progress.stage(&tally),
        paused: paused && tally.queued > 0,
        held,
        tally,
        opened: wall(opened),
        started: at(started),
        ended: at(ended),
    }))
}

fn spec(id: Name, timeout: Duration, keep: Duration, note: Option<Bytes>) -> ActionSpec {
    ActionSpec {
        id,
        timeout,
        keep,
        note: note.map(|note| String::from_utf8_lossy(&note).into_owned()),
    }
}

struct ActionCounts {
    stage: u64,
    closed: bool,
    started: u64,
}

impl ActionCounts {
    const fn stage(&self, tally: &JobCounts) -> ActionStage {
        match self.stage {
            5 => ActionStage::Completed,
            6 => ActionStage::Failed,
            7 => ActionStage::Cancelled,
            _ if self.closed && tally.open() == 0 => ActionStage::Aggregating,
            _ if self.started > 0 => ActionStage::Running,
            _ if self.closed => ActionStage::Dispatched,
            _ => ActionStage::Created,
        }
    }
}

/// Flag of an outcome whose error text precedes the stored result.
const SPOKEN: u8 = 16;

/// Once is enough unless another process opens and cancels an action of the same name meanwhile.
pub(super) const MOST_CLEANINGS: u32 = 8;
