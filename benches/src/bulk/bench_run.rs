//! One contender with its own API, for one scenario.

use std::io;

use outflow_core::{Nanos, Rate};
use outflow_mock::{CallerKey, MockApi, Quota, Server};
use tokio::runtime::Runtime;

use super::contender::{Contender, Run, SelfReport, TENANT};
use super::judge::Judged;
use super::load::Load;
use super::rows::RunResult;
use super::scenario::{Host, LimitScope, Scenario};
use crate::tasks;

/// A running contender and the API that it calls.
pub(super) struct BenchRun<'a> {
    name: &'static str,
    scenario: &'a Scenario,
    api: MockApi,
    begun: Nanos,
    run: Box<dyn Run>,
    _server: Server,
    _load: Option<Load>,
}

impl<'a> BenchRun<'a> {
    /// Starts the API and the contender.
    ///
    /// # Errors
    /// If one of them does not start.
    pub(super) fn begin(runtime: &Runtime, scenario: &'a Scenario, contender: &dyn Contender) -> io::Result<Self> {
        // Tasks that the contender starts belong to the same runtime.
        let _inside = runtime.enter();
        let mut api = MockApi::builder()
            .key(CallerKey::Header(http::HeaderName::from_static(TENANT)))
            .limit(quota(scenario, scenario.limit.quantity)?);
        if let Some(dialect) = scenario.dialect {
            api = api.dialect(dialect);
        }
        let api = api.build().map_err(io::Error::other)?;
        let server = runtime.block_on(api.listen())?;
        let load = match scenario.host {
            Host::Shared => None,
            Host::Loaded => Some(Load::on_every_core()?),
        };
        let run = contender.begin(scenario, &server.url())?;
        // The contender's own startup does not count.
        let begun = api.now();
        for (at, quantity) in scenario.changes.iter().copied() {
            let (api, quota) = (api.clone(), quota(scenario, quantity)?);
            tasks::start(async move {
                tokio::time::sleep(at).await;
                api.limit_to(vec![quota]);
            });
        }
        Ok(Self {
            name: contender.name(),
            scenario,
            api,
            begun,
            run,
            _server: server,
            _load: load,
        })
    }

    /// Waits for the contender's end and evaluates the audit.
    ///
    /// # Errors
    /// If the contender gave up.
    pub(super) fn finish(self) -> io::Result<RunResult> {
        let report: SelfReport = self.run.finish()?;
        Ok(RunResult {
            name: self.name,
            scenario: self.scenario.name,
            makespan: report.makespan.as_secs_f64(),
            over_ideal: report.makespan.as_secs_f64() / self.scenario.ideal.as_secs_f64(),
            throttles: report.throttles,
            jobs: self.scenario.jobs(),
            judged: Judged::from_audit(&self.api.audit(), self.scenario, self.begun),
        })
    }
}

fn quota(scenario: &Scenario, quantity: u64) -> io::Result<Quota> {
    let quota = Quota::sliding(Rate::per_second(quantity).map_err(io::Error::other)?);
    Ok(match scenario.limit.whose {
        LimitScope::EachTenant => quota,
        LimitScope::Everyone => quota.shared(),
    })
}
