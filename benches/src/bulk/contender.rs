//! A contender of `bulk`.

use std::io;
use std::time::Duration;

use super::scenario::Scenario;

/// One way to run many jobs through an API.
pub(super) trait Contender {
    /// Returns its name in the table.
    fn name(&self) -> &'static str;

    /// Returns true if it can run this scenario.
    fn takes(&self, scenario: &Scenario) -> bool;

    /// Starts, and returns when the first job is or is about to be submitted. Each job is one call, `GET
    /// {url}/{tenant}/{number}` with the tenant in the header [`TENANT`], numbers from 0 on, until the API
    /// accepts it. The contender submits waves at their times, by its own clock. It does not learn of limit
    /// changes.
    ///
    /// # Errors
    /// If it cannot start.
    fn begin(&self, scenario: &Scenario, url: &str) -> io::Result<Box<dyn Run>>;
}

/// A running contender.
pub(super) trait Run {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it gave up.
    fn finish(self: Box<Self>) -> io::Result<SelfReport>;
}

/// Values that only the contender itself knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SelfReport {
    /// Time from the first submission until it recorded the end of the last job.
    pub(super) makespan: Duration,
    /// Number of times that an accepted job was throttled or deferred.
    pub(super) throttles: u64,
}

/// Header by which the API distinguishes tenants.
pub(super) const TENANT: &str = "x-tenant";
