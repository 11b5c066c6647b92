//! Tenants: rules, reports and congestion history.

use std::time::Duration;

use outflow_core::{Rate, Weight};

use super::RedisStore;
use super::error_map::unexpected_reply;
use super::job_codec::{class_number, class_priority, micros, read_time, read_uint, seven_bytes, wall_time};
use super::paging::{self, query_call};
use super::reply::ScriptReply;
use super::scope_ops::release;
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::JobCounts;
use crate::contract::{StoreResult, TenantStore};
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::{CongestionRecord, CongestionSample, LaneBacklog, PageRequest, TenantReport, TenantRule};

impl TenantStore for RedisStore {
    /// Sets the default rule, which applies at once. Tenants that wait because of the old bound are
    /// woken in pieces.
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        let set = with_rule(rule_call(&self.runner, "", "usual"), &rule);
        let number = self.runner.read_number(set).await?;
        if number == 0 {
            return Ok(());
        }
        self.runner
            .run_pages(|after| {
                rule_call(&self.runner, "", "wake")
                    .arg(number)
                    .arg(after)
                    .arg(WAKE_PIECE)
            })
            .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        let call = with_rule(rule_call(&self.runner, tenant.as_str(), "rule"), &rule);
        self.runner.run(call).await.map(drop)
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        let call = rule_call(&self.runner, tenant.as_str(), "unset");
        self.runner.run(call).await.map(drop)
    }

    async fn release_deferred(&self, tenant: &Name, limit: u64) -> StoreResult<u64> {
        release(&self.runner, tenant, limit).await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        self.runner.read_number(query_call(&self.runner, "active")).await
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        let call = query_call(&self.runner, "tenant").arg(name.as_str());
        let reply = ScriptReply::from_optional(self.runner.run(call).await?)?;
        reply.map_or(Ok(None), read_report)
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        paging::page(&self.runner, "tenants", &page, read_report).await
    }

    async fn begin_sampling(&self, every: Duration) -> StoreResult<bool> {
        let call = self.runner.call(&self.runner.scripts.snapshot);
        let call = call.arg("begin").arg(micros(every).max(1));
        Ok(self.runner.read_number(call).await? == 1)
    }

    async fn record_congestion(&self, samples: Vec<CongestionRecord>, keep: Duration) -> StoreResult<()> {
        for piece in samples.chunks(SAMPLE_PIECE) {
            let mut call = self.runner.call(&self.runner.scripts.snapshot);
            call = call.arg("record").arg(micros(keep));
            for sample in piece {
                call.push(sample.tenant.as_str());
                call.push(encode_sample(sample));
            }
            self.runner.run(call).await?;
        }
        Ok(())
    }

    async fn congestion_history(&self, tenant: &Name, limit: usize) -> StoreResult<Vec<CongestionSample>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let call = query_call(&self.runner, "history")
            .arg(tenant.as_str())
            .arg(limit.min(MAX_SAMPLES));
        self.runner.read(call).await?.read_all(|reply| {
            let mut bytes = reply.bytes()?;
            Ok(CongestionSample {
                at: read_time(&mut bytes)?,
                non_ready: read_uint(&mut bytes, 7)?,
                speed: read_uint(&mut bytes, 7)?,
                backoff: Duration::from_micros(read_uint(&mut bytes, 7)?),
            })
        })
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        let call = self.runner.call(&self.runner.scripts.snapshot);
        let call = call.arg("reset").arg(tenant.as_str());
        match self.runner.read_number(call).await? {
            0 => Err(StoreError::refused(format_args!(
                "jobs of {tenant} are deferred: release them, or wait until they have run"
            ))),
            _ => Ok(()),
        }
    }
}

pub(super) fn rule_call<'a>(runner: &'a ScriptRunner, tenant: &str, what: &str) -> ScriptCall<'a> {
    runner.call(&runner.scripts.rule).arg(tenant).arg(what)
}

fn with_rule<'a>(call: ScriptCall<'a>, rule: &TenantRule) -> ScriptCall<'a> {
    let claim = u64::from(rule.weight.as_u32()) * rule.priority.factor();
    call.arg(claim)
        .arg(rule.in_flight.map_or(0, |limit| limit.max(1)))
        .arg(rule.rate.map_or(0, Rate::quantity))
        .arg(rule.rate.map_or(0, |rate| micros(rate.per())))
        .arg(rule.weight.as_u32())
        .arg(class_number(rule.priority))
}

/// Counts all jobs: `counts`, or `stored` without moving due jobs to the waiting ones.
pub(super) async fn job_counts(runner: &ScriptRunner, what: &str) -> StoreResult<JobCounts> {
    read_counts(&mut runner.read(query_call(runner, what)).await?)
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
    let latest = reply.number()?;
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
        latest: (latest > 0).then(|| wall_time(latest)),
        lanes: reply.read_all(read_backlog)?,
    }))
}

fn read_backlog(reply: &mut ScriptReply) -> StoreResult<LaneBacklog> {
    Ok(LaneBacklog {
        lane: reply.name()?,
        jobs: reply.number()?,
    })
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

/// Encodes the numbers of a sample as its list holds them.
fn encode_sample(sample: &CongestionRecord) -> Vec<u8> {
    let numbers = [sample.non_ready, sample.speed, micros(sample.backoff)];
    numbers.into_iter().flat_map(seven_bytes).collect()
}

/// A few milliseconds of the server's time.
const SAMPLE_PIECE: usize = 500;

/// A few milliseconds of the server's time, for any number of lanes.
const WAKE_PIECE: usize = 200;

/// An hour of samples at one a second, and a few more.
const MAX_SAMPLES: usize = 5_000;
