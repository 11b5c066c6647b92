//! Dead letters, and the removal of old data.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::WallTime;

use super::RedisStore;
use super::job_codec::{decode_entry, micros, read_time};
use super::paging::query_call;
use super::script_call::ScriptRunner;
use crate::contract::{DeadLetterStore, StoreResult};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::name::Name;

impl DeadLetterStore for RedisStore {
    async fn dead_letters(&self, after: u64, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        let call = query_call(&self.runner, "dead");
        let call = call.arg(after).arg(limit.clamp(1, MAX_LETTERS));
        let reply = self.runner.read(call).await?;
        let letters = reply.read_all(|reply| Ok((reply.bytes()?, reply.text_number()?)))?;
        // A malformed letter is skipped; the next requeue or purge sets it aside.
        let letters = letters.into_iter().map(|(bytes, place)| decode_letter(bytes, place));
        Ok(letters.filter_map(Result::ok).collect())
    }

    async fn requeue(&self, filter: &DeadLetterFilter) -> StoreResult<u64> {
        each(&self.runner, "revive", filter).await
    }

    async fn purge(&self, filter: &DeadLetterFilter) -> StoreResult<u64> {
        each(&self.runner, PURGE, filter).await
    }
}

fn decode_letter(mut bytes: Bytes, place: u64) -> StoreResult<DeadLetter> {
    let at = read_time(&mut bytes)?;
    let entry = decode_entry(bytes)?;
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

async fn each(runner: &ScriptRunner, operation: &str, pick: &DeadLetterFilter) -> StoreResult<u64> {
    match pick {
        DeadLetterFilter::All => run_in_pieces(runner, operation, "all", &[]).await,
        DeadLetterFilter::Tenant(tenant) => run_in_pieces(runner, operation, "tenant", &[tenant.as_str()]).await,
        DeadLetterFilter::Action(action) => run_in_pieces(runner, operation, "action", &[action.as_str()]).await,
        DeadLetterFilter::Jobs(jobs) => {
            let mut count = 0;
            for chunk in jobs.chunks(MAX_LETTERS) {
                let names: Vec<&str> = chunk.iter().map(Name::as_str).collect();
                count += run_in_pieces(runner, operation, "jobs", &names).await?;
            }
            Ok(count)
        }
    }
}

pub(super) async fn collect_garbage(runner: &ScriptRunner, dead_before: WallTime) -> StoreResult<u64> {
    let call = runner.call(&runner.scripts.collect_garbage).arg(micros(IDLE_RETENTION));
    let removed = runner.read_number(call).await?;
    let before = micros(dead_before.as_duration()).to_string();
    let letters = run_in_pieces(runner, PURGE, "before", &[&before]).await?;
    Ok(removed + letters)
}

async fn run_in_pieces(runner: &ScriptRunner, operation: &str, which: &str, names: &[&str]) -> StoreResult<u64> {
    let (mut count, mut after) = (0, 0);
    loop {
        let mut call = runner
            .call(&runner.scripts.dead_letters)
            .arg(operation)
            .arg(which)
            .arg(after)
            .arg(PIECE);
        for name in names {
            call.push(*name);
        }
        let mut reply = runner.read(call).await?;
        count += reply.number()?;
        after = reply.number()?;
        if reply.number()? == 0 {
            return Ok(count);
        }
    }
}

/// Name of the operation that deletes dead letters.
const PURGE: &str = "purge";

/// A reply of a few hundred kilobytes.
const MAX_LETTERS: usize = 1_000;

/// A few milliseconds of the server's time.
const PIECE: u64 = 500;

/// Retention of an idle tenant: as long as its congestion history.
const IDLE_RETENTION: Duration = Duration::from_hours(1);
