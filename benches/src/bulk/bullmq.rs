//! `BullMQ` with its limiter, a queue for each tenant.
//!
//! Its free edition has no group limits, so it cannot share a limit between tenants and takes no such scenario.

use std::io;
use std::time::Duration;

use outflow_testkit::{RedisOptions, RedisServer};

use super::contender::{Contender, Run, SelfReport};
use super::scenario::{HEADLINE, MAKESPAN_LOADED, Scenario, THOUSAND};
use crate::program::Program;

/// The peer; every run has its own server and program.
pub(super) struct BullMq;

impl BullMq {
    /// Returns the peer if it runs here.
    ///
    /// # Errors
    /// If a part of it is missing.
    pub(super) fn installed() -> io::Result<Self> {
        start().map(|_runs| Self)
    }
}

fn start() -> io::Result<(RedisServer, Program)> {
    let server = RedisServer::start(RedisOptions::default())?;
    let address = server.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let program = Program::node("bulk.js", &[&address.port().to_string()])?;
    Ok((server, program))
}

impl Contender for BullMq {
    fn name(&self) -> &'static str {
        NAME
    }

    fn takes(&self, scenario: &Scenario) -> bool {
        [HEADLINE, THOUSAND, MAKESPAN_LOADED].contains(&scenario.name)
    }

    fn begin(&self, scenario: &Scenario, url: &str) -> io::Result<Box<dyn Run>> {
        let (server, mut program) = start()?;
        let waves = scenario.waves.iter();
        let waves: Vec<_> = waves.map(|w| format!("{}={}", w.tenant, w.jobs)).collect();
        let limit = scenario.limit.quantity;
        program.send(&format!("run {url} {limit} {}", waves.join(" ")))?;
        Ok(Box::new(Running {
            program,
            _server: server,
        }))
    }
}

struct Running {
    program: Program,
    _server: RedisServer,
}

impl Run for Running {
    fn finish(mut self: Box<Self>) -> io::Result<SelfReport> {
        let words = self.program.wait_done()?;
        let mut numbers = words.split(' ').filter_map(|word| word.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(millis), Some(throttles)) => Ok(SelfReport {
                makespan: Duration::from_millis(millis),
                throttles,
            }),
            _ => Err(io::Error::other("it did not report its duration")),
        }
    }
}

pub(super) const NAME: &str = "BullMQ, limiter";
