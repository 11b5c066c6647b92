//! Whoever brings many jobs through an API.

use std::io;
use std::time::Duration;

use super::scenario::Scenario;

/// One way of doing it.
pub(super) trait Contender {
    /// What it is called in the table.
    fn name(&self) -> &'static str;

    /// Whether it has a way to do this one.
    fn takes(&self, scenario: &Scenario) -> bool;

    /// Begins, and returns when the first job has been or is about to be submitted. Each job is one call,
    /// `GET {url}/{tenant}/{number}` with the tenant in the header [`TENANT`], numbers from 0 on, until the
    /// API answers well. Waves are submitted at their times, by the contender's own clock; changes of the
    /// limit are not told to it.
    ///
    /// # Errors
    /// If it cannot begin.
    fn begin(&self, scenario: &Scenario, url: &str) -> io::Result<Box<dyn Run>>;
}

/// A contender at work.
pub(super) trait Run {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it gave up.
    fn finish(self: Box<Self>) -> io::Result<Told>;
}

/// What a contender says of itself, because nobody else can know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// From the first submission until the last job was over in its own books.
    pub(super) makespan: Duration,
    /// How often a job was refused or put off after it had been taken up.
    pub(super) throttles: u64,
}

/// The header by which the API tells tenants apart.
pub(super) const TENANT: &str = "x-tenant";
