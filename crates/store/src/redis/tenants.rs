//! Tenants: rules, reports and congestion history.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Priority, Rate, Weight};

use super::error_map::unexpected_reply;
use super::job_codec::{class_number, class_priority, micros, read_time, read_uint, wall_time};
use super::paging::{self, PAGE, query_call};
use super::reply::{self, ScriptReply};
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::JobCounts;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::{CongestionSample, PageRequest, TenantReport, TenantRule};
use redis::Value;

pub(super) async fn lanes(runner: &ScriptRunner) -> StoreResult<Vec<Name>> {
    let mut lanes: Vec<Name> = Vec::new();
    loop {
        let after = lanes.last().map_or("", Name::as_str);
        let mut reply = ScriptReply::new(runner.run(query_call(runner, "lanes").arg(after)).await?)?;
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
pub(super) async fn set_default_rule(runner: &ScriptRunner, rule: &TenantRule) -> StoreResult<()> {
    let set = with_rule(rule_call(runner, "", "usual"), rule);
    let number = reply::number(&runner.run(set).await?)?;
    if number == 0 {
        return Ok(());
    }
    let mut after = Bytes::new();
    loop {
        let call = rule_call(runner, "", "wake")
            .arg(number)
            .arg(after.as_ref())
            .arg(WAKE_PIECE);
        match runner.run(call).await? {
            Value::BulkString(last) if !last.is_empty() => after = last.into(),
            _ => return Ok(()),
        }
    }
}

pub(super) async fn set_rule(runner: &ScriptRunner, tenant: &Name, rule: &TenantRule) -> StoreResult<()> {
    let call = with_rule(rule_call(runner, tenant.as_str(), "rule"), rule);
    runner.run(call).await.map(drop)
}

pub(super) async fn unset_rule(runner: &ScriptRunner, tenant: &Name) -> StoreResult<()> {
    let call = rule_call(runner, tenant.as_str(), "unset");
    runner.run(call).await.map(drop)
}

pub(super) async fn set_paused(runner: &ScriptRunner, tenant: &Name, paused: u8) -> StoreResult<()> {
    let call = rule_call(runner, tenant.as_str(), "pause").arg(paused);
    runner.run(call).await.map(drop)
}

fn rule_call<'a>(runner: &'a ScriptRunner, tenant: &str, what: &str) -> ScriptCall<'a> {
    runner.call(&runner.scripts.rule).arg(tenant).arg(what)
}

fn with_rule<'a>(call: ScriptCall<'a>, rule: &TenantRule) -> ScriptCall<'a> {
    let claim = u64::from(rule.weight.as_u32()) * priority_factor(rule.priority);
    call.arg(claim)
        .arg(rule.in_flight.map_or(0, |limit| limit.max(1)))
        .arg(rule.rate.map_or(0, Rate::quantity))
        .arg(rule.rate.map_or(0, |rate| micros(rate.per())))
        .arg(rule.weight.as_u32())
        .arg(class_number(rule.priority))
}

pub(super) async fn counts(runner: &ScriptRunner) -> StoreResult<JobCounts> {
    let mut reply = ScriptReply::new(runner.run(query_call(runner, "counts")).await?)?;
    read_counts(&mut reply)
}

/// Returns the stored counters, without moving due jobs to the waiting ones.
pub(super) async fn stored_counts(runner: &ScriptRunner) -> StoreResult<JobCounts> {
    let mut reply = ScriptReply::new(runner.run(query_call(runner, "stored")).await?)?;
    read_counts(&mut reply)
}

pub(super) async fn active(runner: &ScriptRunner) -> StoreResult<u64> {
    reply::number(&runner.run(query_call(runner, "active")).await?)
}

pub(super) async fn tenant(runner: &ScriptRunner, name: &Name) -> StoreResult<Option<TenantReport>> {
    let call = query_call(runner, "tenant").arg(name.as_str());
    let reply = ScriptReply::from_optional(runner.run(call).await?)?;
    reply.map_or(Ok(None), read_report)
}

pub(super) async fn tenants(runner: &ScriptRunner, page: &PageRequest) -> StoreResult<Vec<TenantReport>> {
    paging::page(runner, "tenants", page, read_report).await
}

pub(super) async fn snapshot(runner: &ScriptRunner, keep: Duration) -> StoreResult<()> {
    let mut after = Bytes::new();
    loop {
        let call = runner
            .call(&runner.scripts.snapshot)
            .arg("all")
            .arg(micros(keep))
            .arg(after.as_ref())
            .arg(PAGE);
        match runner.run(call).await? {
            Value::BulkString(last) if !last.is_empty() => after = last.into(),
            _ => return Ok(()),
        }
    }
}

pub(super) async fn history(runner: &ScriptRunner, tenant: &Name, limit: usize) -> StoreResult<Vec<CongestionSample>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let call = query_call(runner, "history")
        .arg(tenant.as_str())
        .arg(limit.min(MAX_SAMPLES));
    let mut reply = ScriptReply::new(runner.run(call).await?)?;
    let mut history = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let mut bytes = reply.bytes()?;
        history.push(CongestionSample {
            at: read_time(&mut bytes)?,
            non_ready: read_uint(&mut bytes, 7)?,
            speed: read_uint(&mut bytes, 7)?,
            backoff: Duration::from_micros(read_uint(&mut bytes, 7)?),
        });
    }
    Ok(history)
}

pub(super) async fn reset(runner: &ScriptRunner, tenant: &Name) -> StoreResult<()> {
    let call = runner.call(&runner.scripts.snapshot).arg("reset").arg(tenant.as_str());
    match reply::number(&runner.run(call).await?)? {
        0 => Err(StoreError::refused(format_args!(
            "jobs of {tenant} are deferred: release them, or wait until they have run"
        ))),
        _ => Ok(()),
    }
}

/// Reads a report; `None` if only the name is left.
fn read_report(mut reply: ScriptReply) -> StoreResult<Option<TenantReport>> {
    let name = reply.name()?;
    if reply.is_empty() {
        return Ok(None);
    }
    let ruled = reply.number()? == 1;
    let weight = Weight::new(reply.small()?).map_err(|_| unexpected_reply())?;
    let class = u8::try_from(reply.number()?).map_err(|_| unexpected_reply())?;
    let in_flight = reply.small()?;
    let (units, window) = (reply.number()?, reply.span()?);
    let paused = reply.number()? == 1;
    let counts = read_counts(&mut reply)?;
    let (last_backoff, speed, update) = (reply.span()?, reply.number()?, reply.number()?);
    Ok(Some(TenantReport {
        name,
        rule: TenantRule {
            weight,
            priority: class_priority(class),
            rate: Rate::new(units, window).ok(),
            in_flight: (in_flight > 0).then_some(in_flight),
        },
        ruled,
        paused,
        counts,
        last_backoff,
        speed,
        last_update: (update > 0).then(|| wall_time(update)),
    }))
}

fn read_counts(reply: &mut ScriptReply) -> StoreResult<JobCounts> {
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
const fn priority_factor(priority: Priority) -> u64 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 4,
        Priority::High => 16,
    }
}

/// A few milliseconds of the server's time, for any number of lanes.
const WAKE_PIECE: usize = 200;

/// An hour of samples at one a second, and a few more.
const MAX_SAMPLES: usize = 5_000;
