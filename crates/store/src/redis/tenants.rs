//! Tenants: their rules, how they stand, and how congested they were.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Priority, Rate, Weight};

use super::call::{Call, Caller};
use super::fault::strange;
use super::pages::{self, PAGE, ask};
use super::record::{class, instant, micros, number, priority, wall};
use super::reply::{self, Reply};
use crate::action::Tally;
use crate::error::StoreError;
use crate::jobs::Answer;
use crate::name::Name;
use crate::tenant::{Page, Snapshot, TenantReport, TenantRule};
use redis::Value;

pub(super) async fn lanes(caller: &Caller) -> Answer<Vec<Name>> {
    let mut lanes: Vec<Name> = Vec::new();
    loop {
        let after = lanes.last().map_or("", Name::as_str);
        let mut reply = Reply::new(caller.run(ask(caller, "lanes").arg(after)).await?)?;
        let full = reply.len() == PAGE;
        while !reply.is_empty() {
            lanes.push(reply.name()?);
        }
        if !full {
            return Ok(lanes);
        }
    }
}

/// Holds at once for all; those who wait because of the old bound are woken piece by piece.
pub(super) async fn set_usual(caller: &Caller, rule: &TenantRule) -> Answer<()> {
    let set = with_rule(step(caller, "", "usual"), rule);
    let number = reply::number(&caller.run(set).await?)?;
    if number == 0 {
        return Ok(());
    }
    let mut after = Bytes::new();
    loop {
        let call = step(caller, "", "wake")
            .arg(number)
            .arg(after.as_ref())
            .arg(WOKEN);
        match caller.run(call).await? {
            Value::BulkString(last) if !last.is_empty() => after = last.into(),
            _ => return Ok(()),
        }
    }
}

pub(super) async fn set_rule(caller: &Caller, tenant: &Name, rule: &TenantRule) -> Answer<()> {
    let call = with_rule(step(caller, tenant.as_str(), "rule"), rule);
    caller.run(call).await.map(drop)
}

pub(super) async fn unset_rule(caller: &Caller, tenant: &Name) -> Answer<()> {
    let call = step(caller, tenant.as_str(), "unset");
    caller.run(call).await.map(drop)
}

pub(super) async fn set_paused(caller: &Caller, tenant: &Name, paused: u8) -> Answer<()> {
    let call = step(caller, tenant.as_str(), "pause").arg(paused);
    caller.run(call).await.map(drop)
}

fn step<'a>(caller: &'a Caller, tenant: &str, what: &str) -> Call<'a> {
    caller.call(&caller.scripts.rule).arg(tenant).arg(what)
}

fn with_rule<'a>(call: Call<'a>, rule: &TenantRule) -> Call<'a> {
    let claim = u64::from(rule.weight.as_u32()) * factor(rule.priority);
    call.arg(claim)
        .arg(rule.in_flight.map_or(0, |most| most.max(1)))
        .arg(rule.rate.map_or(0, Rate::quantity))
        .arg(rule.rate.map_or(0, |rate| micros(rate.per())))
        .arg(rule.weight.as_u32())
        .arg(class(rule.priority))
}

pub(super) async fn tally(caller: &Caller) -> Answer<Tally> {
    let mut reply = Reply::new(caller.run(ask(caller, "tally")).await?)?;
    read_tally(&mut reply)
}

/// What was counted as jobs moved, without regard to those whose time has come.
pub(super) async fn books(caller: &Caller) -> Answer<Tally> {
    let mut reply = Reply::new(caller.run(ask(caller, "books")).await?)?;
    read_tally(&mut reply)
}

pub(super) async fn active(caller: &Caller) -> Answer<u64> {
    reply::number(&caller.run(ask(caller, "active")).await?)
}

pub(super) async fn tenant(caller: &Caller, name: &Name) -> Answer<Option<TenantReport>> {
    let call = ask(caller, "tenant").arg(name.as_str());
    let reply = Reply::maybe(caller.run(call).await?)?;
    reply.map_or(Ok(None), report)
}

pub(super) async fn tenants(caller: &Caller, page: &Page) -> Answer<Vec<TenantReport>> {
    pages::page(caller, "tenants", page, report).await
}

pub(super) async fn snapshot(caller: &Caller, keep: Duration) -> Answer<()> {
    let mut after = Bytes::new();
    loop {
        let call = caller
            .call(&caller.scripts.snapshot)
            .arg("all")
            .arg(micros(keep))
            .arg(after.as_ref())
            .arg(PAGE);
        match caller.run(call).await? {
            Value::BulkString(last) if !last.is_empty() => after = last.into(),
            _ => return Ok(()),
        }
    }
}

pub(super) async fn history(caller: &Caller, tenant: &Name, most: usize) -> Answer<Vec<Snapshot>> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let call = ask(caller, "history")
        .arg(tenant.as_str())
        .arg(most.min(MOST_HISTORY));
    let mut reply = Reply::new(caller.run(call).await?)?;
    let mut history = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let mut bytes = reply.bytes()?;
        history.push(Snapshot {
            at: instant(&mut bytes)?,
            non_ready: number(&mut bytes, 7)?,
            speed: number(&mut bytes, 7)?,
            backoff: Duration::from_micros(number(&mut bytes, 7)?),
        });
    }
    Ok(history)
}

pub(super) async fn reset(caller: &Caller, tenant: &Name) -> Answer<()> {
    let call = caller
        .call(&caller.scripts.snapshot)
        .arg("reset")
        .arg(tenant.as_str());
    match reply::number(&caller.run(call).await?)? {
        0 => Err(StoreError::refused(format_args!(
            "jobs of {tenant} are put off: release them, or wait until they have run"
        ))),
        _ => Ok(()),
    }
}

/// A report, or nothing where only the name is left.
fn report(mut reply: Reply) -> Answer<Option<TenantReport>> {
    let name = reply.name()?;
    if reply.is_empty() {
        return Ok(None);
    }
    let ruled = reply.number()? == 1;
    let weight = Weight::new(reply.small()?).map_err(|_| strange())?;
    let class = u8::try_from(reply.number()?).map_err(|_| strange())?;
    let in_flight = reply.small()?;
    let (units, window) = (reply.number()?, reply.span()?);
    let paused = reply.number()? == 1;
    let tally = read_tally(&mut reply)?;
    let (last_backoff, speed, update) = (reply.span()?, reply.number()?, reply.number()?);
    Ok(Some(TenantReport {
        name,
        rule: TenantRule {
            weight,
            priority: priority(class),
            rate: Rate::new(units, window).ok(),
            in_flight: (in_flight > 0).then_some(in_flight),
        },
        ruled,
        paused,
        tally,
        last_backoff,
        speed,
        last_update: (update > 0).then(|| wall(update)),
    }))
}

fn read_tally(reply: &mut Reply) -> Answer<Tally> {
    Ok(Tally {
        queued: reply.number()?,
        non_ready: reply.number()?,
        delayed: reply.number()?,
        in_flight: reply.number()?,
        done: reply.number()?,
        dead: reply.number()?,
        failed: reply.number()?,
        cancelled: reply.number()?,
        throttles: reply.number()?,
        busy: reply.span()?,
    })
}

/// By how much a priority multiplies a weight, as the core's order does.
const fn factor(priority: Priority) -> u64 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 4,
        Priority::High => 16,
    }
}

/// A few milliseconds of the server's time, however many lanes they are in.
const WOKEN: usize = 200;

/// An hour of snapshots at one a second, and a few more.
const MOST_HISTORY: usize = 5_000;
