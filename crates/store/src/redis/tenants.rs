//! Tenants: rules, reports and congestion history.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Priority, Rate, Weight};

use super::error_map::strange;
use super::job_codec::{class, instant, micros, number, priority, wall};
use super::paging::{self, PAGE, query_call};
use super::reply::{self, ScriptReply};
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::JobCounts;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::{CongestionSample, PageRequest, TenantReport, TenantRule};
use redis::Value;

pub(super) async fn lanes(caller: &ScriptRunner) -> StoreResult<Vec<Name>> {
    let mut lanes: Vec<Name> = Vec::new();
    loop {
        let after = lanes.last().map_or("", Name::as_str);
        let mut reply =
            ScriptReply::new(caller.run(query_call(caller, "lanes").arg(after)).await?)?;
        let full = reply.len() == PAGE;
        while !reply.is_empty() {
            lanes.push(reply.name()?);
        }
        if !full {
            return Ok(lanes);
        }
    }
}

/// Sets the default rule, which applies at once. Tenants that wait because of the old bound are
/// woken in pieces.
pub(super) async fn set_usual(caller: &ScriptRunner, rule: &TenantRule) -> StoreResult<()> {
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

pub(super) async fn set_rule(
    caller: &ScriptRunner,
    tenant: &Name,
    rule: &TenantRule,
) -> StoreResult<()> {
    let call = with_rule(step(caller, tenant.as_str(), "rule"), rule);
    caller.run(call).await.map(drop)
}

pub(super) async fn unset_rule(caller: &ScriptRunner, tenant: &Name) -> StoreResult<()> {
    let call = step(caller, tenant.as_str(), "unset");
    caller.run(call).await.map(drop)
}

pub(super) async fn set_paused(
    caller: &ScriptRunner,
    tenant: &Name,
    paused: u8,
) -> StoreResult<()> {
    let call = step(caller, tenant.as_str(), "pause").arg(paused);
    caller.run(call).await.map(drop)
}

fn step<'a>(caller: &'a ScriptRunner, tenant: &str, what: &str) -> ScriptCall<'a> {
    caller.call(&caller.scripts.rule).arg(tenant).arg(what)
}

fn with_rule<'a>(call: ScriptCall<'a>, rule: &TenantRule) -> ScriptCall<'a> {
    let claim = u64::from(rule.weight.as_u32()) * factor(rule.priority);
    call.arg(claim)
        .arg(rule.in_flight.map_or(0, |most| most.max(1)))
        .arg(rule.rate.map_or(0, Rate::quantity))
        .arg(rule.rate.map_or(0, |rate| micros(rate.per())))
        .arg(rule.weight.as_u32())
        .arg(class(rule.priority))
}

pub(super) async fn tally(caller: &ScriptRunner) -> StoreResult<JobCounts> {
    let mut reply = ScriptReply::new(caller.run(query_call(caller, "tally")).await?)?;
    read_tally(&mut reply)
}

/// Returns the stored counters, without moving due jobs to the waiting ones.
pub(super) async fn books(caller: &ScriptRunner) -> StoreResult<JobCounts> {
    let mut reply = ScriptReply::new(caller.run(query_call(caller, "books")).await?)?;
    read_tally(&mut reply)
}

pub(super) async fn active(caller: &ScriptRunner) -> StoreResult<u64> {
    reply::number(&caller.run(query_call(caller, "active")).await?)
}

pub(super) async fn tenant(
    caller: &ScriptRunner,
    name: &Name,
) -> StoreResult<Option<TenantReport>> {
    let call = query_call(caller, "tenant").arg(name.as_str());
    let reply = ScriptReply::maybe(caller.run(call).await?)?;
    reply.map_or(Ok(None), report)
}

pub(super) async fn tenants(
    caller: &ScriptRunner,
    page: &PageRequest,
) -> StoreResult<Vec<TenantReport>> {
    paging::page(caller, "tenants", page, report).await
}

pub(super) async fn snapshot(caller: &ScriptRunner, keep: Duration) -> StoreResult<()> {
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

pub(super) async fn history(
    caller: &ScriptRunner,
    tenant: &Name,
    most: usize,
) -> StoreResult<Vec<CongestionSample>> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let call = query_call(caller, "history")
        .arg(tenant.as_str())
        .arg(most.min(MOST_HISTORY));
    let mut reply = ScriptReply::new(caller.run(call).await?)?;
    let mut history = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let mut bytes = reply.bytes()?;
        history.push(CongestionSample {
            at: instant(&mut bytes)?,
            non_ready: number(&mut bytes, 7)?,
            speed: number(&mut bytes, 7)?,
            backoff: Duration::from_micros(number(&mut bytes, 7)?),
        });
    }
    Ok(history)
}

pub(super) async fn reset(caller: &ScriptRunner, tenant: &Name) -> StoreResult<()> {
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

/// Reads a report; `None` if only the name is left.
fn report(mut reply: ScriptReply) -> StoreResult<Option<TenantReport>> {
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

fn read_tally(reply: &mut ScriptReply) -> StoreResult<JobCounts> {
    Ok(JobCounts {
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

/// Returns the factor of a priority on a weight, as in the core's fair order.
const fn factor(priority: Priority) -> u64 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 4,
        Priority::High => 16,
    }
}

/// A few milliseconds of the server's time, for any number of lanes.
const WOKEN: usize = 200;

/// An hour of samples at one a second, and a few more.
const MOST_HISTORY: usize = 5_000;
