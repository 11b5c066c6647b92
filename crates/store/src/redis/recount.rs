//! Counts all jobs anew, from the jobs themselves.
//!
//! It walks over lists and sets in pieces, with plain commands and no script, so that a mistake of the
//! scripts is not made twice. While it walks others may move jobs; then it begins again.

use std::collections::HashMap;

use redis::{Cmd, Value, cmd};

use super::call::Caller;
use super::fault::strange;
use super::record::read_entry;
use super::reply::{Reply, number};
use super::tenants::{books, lanes};
use crate::action::Tally;
use crate::error::StoreError;
use crate::jobs::Answer;
use crate::name::Name;

pub(super) async fn recount(caller: &Caller) -> Answer<u64> {
    for _ in 0..MOST_WALKS {
        let before = version(caller).await?;
        let counted = books(caller).await?;
        let found = walk(caller).await?;
        if version(caller).await? == before {
            return Ok(found.difference(&counted));
        }
    }
    Err(StoreError::unreachable(
        "jobs moved while they were counted: count again when it is quieter",
    ))
}

/// What was found.
#[derive(Default)]
struct Found {
    waiting: u64,
    delayed: u64,
    claimed: u64,
    dead: u64,
    /// Claimed by tenant, less what the tenant's own count says.
    by_tenant: HashMap<Name, i64>,
}

impl Found {
    fn difference(&self, counted: &Tally) -> u64 {
        let put_off = counted.delayed + counted.non_ready;
        let tenants: u64 = self.by_tenant.values().map(|off| off.unsigned_abs()).sum();
        (self.waiting + self.delayed).abs_diff(counted.queued)
            + self.delayed.abs_diff(put_off)
            + self.claimed.abs_diff(counted.in_flight)
            + self.dead.abs_diff(counted.dead)
            + tenants
    }
}

async fn version(caller: &Caller) -> Answer<Value> {
    let mut command = cmd("HGET");
    command.arg(caller.key("epoch")).arg("g");
    caller.send(&command).await
}

async fn walk(caller: &Caller) -> Answer<Found> {
    let mut found = Found::default();
    for lane in lanes(caller).await? {
        walk_lane(caller, &lane, &mut found).await?;
    }
    walk_held(caller, &mut found).await?;
    walk_sessions(caller, &mut found).await?;
    found.dead = ask_number(caller, cmd("ZCARD").arg(caller.key("dead"))).await?;
    Ok(found)
}

async fn walk_lane(caller: &Caller, lane: &Name, found: &mut Found) -> Answer<()> {
    let key = caller.key(&format!("w:{lane}"));
    let mut cursor = 0;
    loop {
        let (next, mut fields) = scan(caller, cmd("HSCAN").arg(&key).arg(cursor)).await?;
        while !fields.is_empty() {
            let (tenant, _seat) = (fields.bytes()?, fields.bytes()?);
            if !tenant.is_empty() {
                let tenant = std::str::from_utf8(&tenant).map_err(|_| strange())?;
                found.waiting += waiting(caller, lane, tenant).await?;
            }
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    found.delayed += ask_number(caller, cmd("ZCARD").arg(caller.key(&format!("d:{lane}")))).await?;
    Ok(())
}

async fn waiting(caller: &Caller, lane: &Name, tenant: &str) -> Answer<u64> {
    let mut many = 0;
    for class in 1..=3 {
        let join = format!("{class}:{}:{lane}:{tenant}", lane.as_str().len());
        many += ask_number(caller, cmd("LLEN").arg(caller.key(&format!("l:{join}")))).await?;
        many += ask_number(caller, cmd("ZCARD").arg(caller.key(&format!("b:{join}")))).await?;
    }
    Ok(many)
}

/// Jobs that a pause holds, and what each tenant's own count says of its claims.
async fn walk_held(caller: &Caller, found: &mut Found) -> Answer<()> {
    let mut after = None;
    loop {
        let page = crate::tenant::Page { after, most: 0 };
        let reports = super::tenants::tenants(caller, &page).await?;
        for report in &reports {
            let held = caller.key(&format!("h:{}", report.name));
            found.waiting += ask_number(caller, cmd("ZCARD").arg(held)).await?;
            let claimed = i64::try_from(report.tally.in_flight).map_err(|_| strange())?;
            *found.by_tenant.entry(report.name.clone()).or_default() -= claimed;
        }
        after = reports.last().map(|report| report.name.clone());
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn walk_sessions(caller: &Caller, found: &mut Found) -> Answer<()> {
    let mut at = 0_u64;
    loop {
        let mut command = cmd("ZRANGE");
        command
            .arg(caller.key("sessions"))
            .arg(at)
            .arg(at + PIECE - 1);
        let mut sessions = Reply::new(caller.send(&command).await?)?;
        if sessions.is_empty() {
            return Ok(());
        }
        while !sessions.is_empty() {
            at += 1;
            walk_session(caller, &sessions.bytes()?, found).await?;
        }
    }
}

async fn walk_session(caller: &Caller, session: &[u8], found: &mut Found) -> Answer<()> {
    let mut key = caller.key("s:").into_bytes();
    key.extend_from_slice(session);
    let mut cursor = 0;
    loop {
        let (next, mut fields) = scan(caller, cmd("HSCAN").arg(&key).arg(cursor)).await?;
        while !fields.is_empty() {
            let (_claim, entry) = (fields.bytes()?, fields.bytes()?);
            found.claimed += 1;
            *found
                .by_tenant
                .entry(read_entry(entry)?.tenant)
                .or_default() += 1;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

async fn scan(caller: &Caller, command: &mut Cmd) -> Answer<(u64, Reply)> {
    command.arg("COUNT").arg(PIECE);
    let mut reply = Reply::new(caller.send(command).await?)?;
    Ok((reply.written_number()?, reply.list()?))
}

async fn ask_number(caller: &Caller, command: &mut Cmd) -> Answer<u64> {
    number(&caller.send(command).await?)
}

/// A busy queue is not counted; one that pauses for a moment is.
const MOST_WALKS: u32 = 5;

/// A few hundred microseconds of the server's time.
const PIECE: u64 = 500;
