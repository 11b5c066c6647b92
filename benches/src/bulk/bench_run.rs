//! One contender before an API of its own, for one scenario.

use std::io;

use outflow_core::{Nanos, Rate};
use outflow_mock::{CallerKey, Quota, Server, MockApi};
use tokio::runtime::Runtime;

use super::contender::{Contender, Run, TENANT, Told};
use super::judge::Judged;
use super::load::Load;
use super::rows::Verdict;
use super::scenario::{Host, Scenario, Whose};
use crate::tasks;

/// A contender at work, and its judge.
pub(super) struct Stand<'a> {
    name: &'static str,
    scenario: &'a Scenario,
    api: MockApi,
    begun: Nanos,
    run: Box<dyn Run>,
    _server: Server,
    _load: Option<Load>,
}

impl<'a> Stand<'a> {
    /// Starts the API and has the contender begin.
    ///
    /// # Errors
    /// If one of them does not start.
    pub(super) fn begin(
        runtime: &Runtime,
        scenario: &'a Scenario,
        contender: &dyn Contender,
    ) -> io::Result<Self> {
        // What the contender starts on the way belongs to the same runtime.
        let _inside = runtime.enter();
        let mut api = MockApi::builder()
            .key(CallerKey::Header(http::HeaderName::from_static(TENANT)))
            .limit(quota(scenario, scenario.limit.quantity)?);
        if let Some(dialect) = scenario.tells {
            api = api.dialect(dialect);
        }
        let api = api.build().map_err(io::Error::other)?;
        let server = runtime.block_on(api.listen())?;
        let load = match scenario.host {
            Host::Shared => None,
            Host::Loaded => Some(Load::on_every_core()?),
        };
        let run = contender.begin(scenario, &server.url())?;
        // Whatever it had to start first is not its time.
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

    /// Waits for the contender's end and judges what the API saw.
    ///
    /// # Errors
    /// If the contender gave up.
    pub(super) fn finish(self) -> io::Result<Verdict> {
        let told: Told = self.run.finish()?;
        Ok(Verdict {
            name: self.name,
            scenario: self.scenario.name,
            makespan: told.makespan.as_secs_f64(),
            over_ideal: told.makespan.as_secs_f64() / self.scenario.ideal.as_secs_f64(),
            throttles: told.throttles,
            jobs: self.scenario.jobs(),
            judged: Judged::by(&self.api.audit(), self.scenario, self.begun),
        })
    }
}

fn quota(scenario: &Scenario, quantity: u64) -> io::Result<Quota> {
    let quota = Quota::sliding(Rate::per_second(quantity).map_err(io::Error::other)?);
    Ok(match scenario.limit.whose {
        Whose::EachTenant => quota,
        Whose::Everyone => quota.shared(),
    })
}
