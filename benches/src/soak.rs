//! `soak`: the program under a steady mixed load for hours, and its growth.
//!
//! A real `outflow serve` calls a real mock API that misbehaves by a script. This process makes the calls,
//! watches the program, reloads its configuration and drops connections. Memory, descriptors, threads and files
//! are measured from outside, by the system's account of the process. At the end the program's counters are
//! compared with the sent calls and the API's audit. Growth is reported as a slope: a single number at the end
//! would need the first one to show a leak.

mod admin;
mod call_counts;
mod callers;
mod counters;
mod findings;
mod mock_api;
mod phases;
mod program;
mod reloads;
mod samples;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use outflow_mock::{Script, Server};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::clock;
use crate::figure::Figure;
use crate::tasks::Flavour;
use call_counts::CallCounts;
use callers::Callers;
use counters::MetricsPage;
use findings::Findings;
use phases::Phases;
use program::Program;
use samples::{Sample, Samples};

/// Duration and load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) span: Duration,
    /// Calls a second.
    pub(crate) rate: u32,
}

/// Soaks the program, and returns the findings.
///
/// # Errors
/// If the program was not built, does not start, or ends by itself.
pub(crate) fn figures(wanted: Wanted) -> io::Result<Vec<Figure>> {
    clock::since_begin();
    Flavour::Multi.runtime()?.block_on(async {
        let stage = Stage::set(wanted).await?;
        stage.play().await
    })
}

/// All parts of a soak.
struct Stage {
    wanted: Wanted,
    upstream: Server,
    program: Program,
    phases: Arc<Phases>,
    seen: Arc<CallCounts>,
}

impl Stage {
    async fn set(wanted: Wanted) -> io::Result<Self> {
        let limit = allowed(wanted);
        let upstream = mock_api::start(limit).await?;
        let program = Program::start(upstream.address(), limit)?;
        Ok(Self {
            wanted,
            upstream,
            program,
            phases: Arc::default(),
            seen: Arc::default(),
        })
    }

    async fn play(mut self) -> io::Result<Vec<Figure>> {
        let callers = Callers::new(
            self.program.calls().to_owned(),
            Arc::clone(&self.phases),
            Arc::clone(&self.seen),
        );
        let (api, phases) = (self.upstream.api().clone(), Arc::clone(&self.phases));
        let (admin, changes) = (self.program.admin().to_owned(), self.program.changes());
        let company = async {
            tokio::join!(
                phases.conduct(&api, allowed(self.wanted)),
                callers.call(self.wanted.rate),
                admin::read(&admin, &self.seen),
                admin::listen(&admin, &self.seen),
                reloads::make(&changes, &admin, &self.seen),
            )
        };
        let samples = tokio::select! {
            samples = watched(self.wanted, &mut self.program, &self.seen) => samples?,
            _ = company => return Err(io::Error::other("the load ended by itself")),
        };
        self.end(samples).await
    }

    /// Waits until all calls are over, reads the counters and stops the program.
    async fn end(mut self, samples: Samples) -> io::Result<Vec<Figure>> {
        self.upstream.api().rewrite(Script::new());
        let page = at_rest(self.program.admin(), &self.seen).await?;
        let totals = self.upstream.api().totals();
        let processor = self.program.processor()?;
        let exit = self.program.stop();
        let findings = Findings {
            samples: &samples,
            seen: &self.seen,
            page: &page,
            totals: &totals,
            processor,
            exit,
        };
        Ok(findings.figures())
    }
}

/// Returns the limit of the API: more than the load, at half speed too, because the cache answers a part of the
/// calls.
const fn allowed(wanted: Wanted) -> u32 {
    wanted.rate.saturating_mul(3) / 2
}

/// Samples the program until its time is over, or a signal arrives.
async fn watched(wanted: Wanted, program: &mut Program, seen: &CallCounts) -> io::Result<Samples> {
    let mut samples = Samples::over(wanted.span);
    let mut ticks = interval(samples.every());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let mut reported = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut interrupted => {
                eprintln!("interrupted: the figures so far follow");
                return Ok(samples);
            }
        }
        let sample = program.sample(clock::since_begin())?;
        let minutes = sample.at.as_secs() / 60;
        if minutes > reported {
            reported = minutes;
            println!("{}", progress(&sample, seen));
        }
        samples.push(sample);
        if sample.at >= wanted.span {
            return Ok(samples);
        }
    }
}

fn progress(sample: &Sample, seen: &CallCounts) -> String {
    let seconds = sample.at.as_secs();
    format!(
        "{:>3}:{:02}:{:02}  calls {:>9}  failed {:>7}  unexpected {:>4}  rss {:>7.2} MiB  \
         fds {:>4}  threads {:>3}  log {:>9} B  cache {:>9} B",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        seen.sent(),
        seen.failed(),
        seen.unexpected(),
        sample.rss_mib,
        sample.fds,
        sample.threads,
        sample.log_bytes,
        sample.cache_bytes,
    )
}

/// Returns the metrics page when no call is in flight, or after the timeout.
async fn at_rest(admin: &str, seen: &CallCounts) -> io::Result<MetricsPage> {
    for _ in 0..LOOKS {
        let page = MetricsPage::read(admin).await?;
        if seen.in_flight() == 0 && page.in_flight() == 0.0 {
            return Ok(page);
        }
        sleep(BREATH).await;
    }
    MetricsPage::read(admin).await
}

/// A minute in all: longer than any call may take.
const LOOKS: u32 = 120;
const BREATH: Duration = Duration::from_millis(500);
