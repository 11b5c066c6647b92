//! Dead letters, and the removal of old data.

use bytes::Bytes;
use outflow_core::WallTime;

use super::job_codec::{instant, micros, read_entry};
use super::paging::query_call;
use super::reply::{self, ScriptReply};
use super::script_call::ScriptRunner;
use crate::contract::StoreResult;
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::name::Name;
use std::time::Duration;

/// Operation on dead letters.
#[derive(Clone, Copy)]
pub(super) enum DeadLetterOp {
    Revive,
    Purge,
}

pub(super) async fn list(
    caller: &ScriptRunner,
    after: u64,
    most: usize,
) -> StoreResult<Vec<DeadLetter>> {
    let call = query_call(caller, "dead")
        .arg(after)
        .arg(most.clamp(1, MOST_LETTERS));
    let mut reply = ScriptReply::new(caller.run(call).await?)?;
    let mut letters = Vec::with_capacity(reply.len() / 2);
    while !reply.is_empty() {
        let (bytes, place) = (reply.bytes()?, reply.written_number()?);
        // A malformed letter is skipped; the next requeue or purge sets it aside.
        letters.extend(letter(bytes, place).ok());
    }
    Ok(letters)
}

fn letter(mut bytes: Bytes, place: u64) -> StoreResult<DeadLetter> {
    let at = instant(&mut bytes)?;
    let entry = read_entry(bytes)?;
    let record = entry.record;
    Ok(DeadLetter {
        place,
        id: record.id,
        tenant: entry.tenant,
        lane: entry.lane,
        action: record.action,
        at,
        attempts: record.attempts,
        recoveries: record.recoveries,
        history: record.history,
        payload: record.payload,
    })
}

pub(super) async fn each(
    caller: &ScriptRunner,
    deed: DeadLetterOp,
    pick: &DeadLetterFilter,
) -> StoreResult<u64> {
    match pick {
        DeadLetterFilter::All => walk(caller, deed, "all", &[]).await,
        DeadLetterFilter::Tenant(tenant) => walk(caller, deed, "tenant", &[tenant.as_str()]).await,
        DeadLetterFilter::Action(action) => walk(caller, deed, "action", &[action.as_str()]).await,
        DeadLetterFilter::Jobs(jobs) => {
            let mut many = 0;
            for some in jobs.chunks(MOST_LETTERS) {
                let names: Vec<&str> = some.iter().map(Name::as_str).collect();
                many += walk(caller, deed, "jobs", &names).await?;
            }
            Ok(many)
        }
    }
}

pub(super) async fn tidy(caller: &ScriptRunner, dead_before: WallTime) -> StoreResult<u64> {
    let call = caller.call(&caller.scripts.tidy).arg(micros(IDLE));
    let went = reply::number(&caller.run(call).await?)?;
    let before = micros(dead_before.as_duration()).to_string();
    let letters = walk(caller, DeadLetterOp::Purge, "before", &[&before]).await?;
    Ok(went + letters)
}

async fn walk(
    caller: &ScriptRunner,
    deed: DeadLetterOp,
    which: &str,
    whom: &[&str],
) -> StoreResult<u64> {
    let (mut many, mut after) = (0, 0);
    let deed = match deed {
        DeadLetterOp::Revive => "revive",
        DeadLetterOp::Purge => "purge",
    };
    loop {
        let mut call = caller
            .call(&caller.scripts.dead)
            .arg(deed)
            .arg(which)
            .arg(after)
            .arg(PIECE);
        for one in whom {
            call.push(*one);
        }
        let mut reply = ScriptReply::new(caller.run(call).await?)?;
        many += reply.number()?;
        after = reply.number()?;
        if reply.number()? == 0 {
            return Ok(many);
        }
    }
}

/// A reply of a few hundred kilobytes.
const MOST_LETTERS: usize = 1_000;

/// A few milliseconds of the server's time.
const PIECE: u64 = 500;

/// Retention of an idle tenant: as long as its congestion history.
const IDLE: Duration = Duration::from_hours(1);
