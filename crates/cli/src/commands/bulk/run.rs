//! `outflow bulk run`: runs the jobs of a file in one process.
//!
//! All lines are validated before the first job starts. Jobs are stored in a directory before they start,
//! with ids derived from the file. A repeated command therefore resumes after any interruption: finished jobs
//! do not run again, and no result is written twice.

mod checkpoint;
mod estimate;
mod line_results;
mod progress_bars;
mod results;
mod run_loop;
mod summary;
mod validate;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::read_duration;
use outflow::{Outflow, SystemClock};
use outflow_bulk::{EngineSettings, OpenError, OpenStore, PreviousRun, StoreLocation, TenantBounds, data_dir};
use outflow_core::{Clock, WallTime};
use outflow_store::StoreControl as _;

use self::checkpoint::Checkpoint;
use self::estimate::RunEstimate;
use self::results::ResultWriter;
use self::run_loop::{LoopEnd, RunLoop};
use self::summary::RunSummary;
use self::validate::ValidatedFile;
use super::input::{InputFormat, JobInput};
use crate::command_line::UsageError;
use crate::commands::config_args::{ConfigArgs, without_log};
use crate::config::ProgramConfig;
use crate::exit::Exit;
use crate::shared_ledger;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, answer, answer_json, format_span, say};

/// Run the jobs of a file; a repeated command resumes where the last one stopped.
#[derive(Args)]
#[command(after_help = LINES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct RunCommand {
    /// Read jobs from this file, or from the standard input for `-`.
    file: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Read this format; by default the file's extension decides.
    #[arg(long, value_name = "FORMAT")]
    format: Option<InputFormat>,
    /// Store jobs in this directory; by default one for each file.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Write results to this file; `-`, the default, is the standard output.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Retry lines that failed permanently in an earlier run of the file.
    #[arg(long)]
    retry_failed: bool,
    /// Skip invalid lines instead of sending nothing.
    #[arg(long)]
    skip_invalid: bool,
    /// Send nothing: estimate the time of the run by limits and latency.
    #[arg(long)]
    dry_run: bool,
    /// Assume this time of a call in a dry run, for bounds on calls in flight.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = read_duration, requires = "dry_run")]
    latency: Duration,
    /// Print the final report as one JSON document; results then need a file.
    #[arg(long)]
    json: bool,
}

/// Treatment of lines that failed permanently in an earlier run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailedLines {
    /// They stay failed.
    Left,
    /// They are retried.
    Retried,
}

impl RunCommand {
    /// Runs until the last job is over, or until a signal.
    pub(crate) fn run(mut self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.out = self.out.filter(|out| out != Path::new("-"));
        if self.json && self.out.is_none() && !self.dry_run {
            let message = "`--json` needs the standard output: name a file for results with `--out`";
            return Err(UsageError(message.to_owned()).into());
        }
        let mut config = self.config.sources()?.read()?;
        config.client = without_log(config.client);
        let input = JobInput::read(&self.file, self.format)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
        runtime.block_on(self.work(&config, &input, terminal))
    }

    async fn work(&self, config: &ProgramConfig, input: &JobInput, terminal: Terminal) -> anyhow::Result<Exit> {
        let client = Outflow::init(shared_ledger::client_config(config)?)?;
        let settings = run_settings(EngineSettings::from_section(&config.bulk));
        let file = ValidatedFile::new(input, &client, &settings);
        file.accept(self)?;
        let now = SystemClock::new().wall();
        if self.dry_run {
            let workload = &file.workload;
            let estimate = RunEstimate {
                bounds: TenantBounds::new(workload, &client, &settings, now),
                expected: workload.expected_time(&client, &settings, self.latency),
                in_flight: workload.in_flight_bound(&client, &settings, self.latency),
                latency: self.latency,
            };
            return self.print_estimate(&estimate);
        }
        let context = RunContext {
            client: &client,
            settings: &settings,
            file: &file,
            terminal,
        };
        let summary = self.run_jobs(config, context).await?;
        client.close(LAST_WRITES).await;
        if self.json {
            answer_json(&summary.to_json())?;
        }
        say!("{}", summary.to_text());
        Ok(summary.exit())
    }

    /// Runs the jobs that are left.
    async fn run_jobs(&self, config: &ProgramConfig, context: RunContext<'_>) -> anyhow::Result<RunSummary> {
        let input = context.file.input;
        let dir = self.directory(input);
        let jobs = StoreLocation::Dir(dir.join("jobs"));
        let previous = PreviousRun::from_location(&jobs);
        // The lock of the job store protects the whole directory and the results.
        let opened = OpenStore::open(context.client, jobs).await.map_err(explain_lock)?;
        let checkpoint = Checkpoint::open(&dir, &input.stem, &input.mark)?;
        let counts = opened.store().job_counts().await?;
        checkpoint.check_jobs(counts.submitted())?;
        let results = ResultWriter::open(self.out.as_deref(), checkpoint)?;
        let store = Arc::clone(opened.store());
        let mut run = RunLoop::new(&context, store, self.failed_lines(), results).await?;
        let ended = if run.has_work().await? {
            let start = previous.all_over_by(&config.client.apis, &config.bulk);
            context.work(opened, &mut run, start).await?
        } else {
            run.finish().await?;
            opened.close().await;
            LoopEnd::Finished
        };
        run.check_readers().await?;
        Ok(run.summary(ended, &dir))
    }

    const fn failed_lines(&self) -> FailedLines {
        if self.retry_failed {
            FailedLines::Retried
        } else {
            FailedLines::Left
        }
    }

    /// Returns the directory of a file; each file has its own.
    fn directory(&self, input: &JobInput) -> PathBuf {
        let own = || data_dir().join("runs").join(format!("{}-{}", input.stem, input.mark));
        self.dir.clone().unwrap_or_else(own)
    }

    fn print_estimate(&self, estimate: &RunEstimate) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(&estimate.to_json())?;
        } else {
            answer(&estimate.to_text())?;
        }
        Ok(Exit::Done)
    }
}

/// Dependencies of a run that has work to do.
struct RunContext<'a> {
    client: &'a Outflow,
    settings: &'a EngineSettings,
    file: &'a ValidatedFile<'a>,
    terminal: Terminal,
}

impl RunContext<'_> {
    /// Works until the last job is over, or until a signal. A second signal does not wait for calls in
    /// flight. Jobs start after the given instant, when earlier calls no longer count.
    async fn work(self, opened: OpenStore, run: &mut RunLoop<'_>, start: Option<WallTime>) -> anyhow::Result<LoopEnd> {
        let mut signals = ShutdownSignals::listen()?;
        tokio::select! {
            () = wait_for_start(start) => {}
            () = signals.wait() => {
                opened.close().await;
                return Ok(LoopEnd::Interrupted);
            }
        }
        let bulk = opened.begin(self.client, self.settings.clone(), None).await?;
        let worked = tokio::select! {
            ended = run.work(&bulk, &self.file.workload, self.terminal) => ended,
            () = signals.wait() => Ok(LoopEnd::Interrupted),
        };
        if worked.is_err() {
            // Calls in flight finish, so that the next run need not repeat them.
            tokio::select! {
                _ = bulk.stop() => {}
                () = signals.wait() => {}
            }
        }
        let mut ended = worked?;
        if ended == LoopEnd::Interrupted {
            say!("finishing calls in flight; press Ctrl-C again to end at once");
            tokio::select! {
                _ = bulk.drain() => run.write_results(bulk.engine()).await?,
                () = signals.wait() => return Ok(ended),
            }
            if !run.has_work().await? {
                ended = LoopEnd::Finished;
            }
        }
        bulk.stop().await;
        Ok(ended)
    }
}

/// Waits until the calls of an earlier run no longer count.
async fn wait_for_start(start: Option<WallTime>) {
    let left = start.map(|start| start.since(SystemClock::new().wall()));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        say!("waiting {} until earlier calls no longer count", format_span(left));
        tokio::time::sleep(left).await;
    }
}

fn explain_lock(error: OpenError) -> anyhow::Error {
    let is_in_use = matches!(&error, OpenError::Store(why) if why.is_in_use());
    let error = anyhow::Error::new(error);
    if is_in_use {
        return error.context("another process runs this file: nothing was changed");
    }
    error
}

/// Adjusts settings for a run: nothing in its directory expires while the run may be resumed, and the queue
/// holds the whole file.
fn run_settings(settings: EngineSettings) -> EngineSettings {
    let mut settings = EngineSettings {
        queue_max: u64::MAX,
        shared: false,
        ..settings
    };
    settings.retention.results = RETENTION;
    settings.retention.names = RETENTION;
    settings.retention.dead = RETENTION;
    settings
}

const LINES: &str = "\
A line of NDJSON is an object with `api` and `path`, and may have `tenant`, `method`, `headers`, `body`
or `json`, `cost`, `priority`, `not_before`, `deadline`, `id`, `idempotency_key`, `max_retries` and
`timeout`. The header of a CSV file has the same names.

Exit codes: 0 if all jobs are done, 3 if some failed or wait for a removed API, 2 if a line is invalid and
nothing was sent, 130 after an interruption: repeat the command to resume.";

/// A run that is not resumed within a year is abandoned.
const RETENTION: Duration = Duration::from_hours(365 * 24);

/// Time for the cache to write to the disk before the process ends.
const LAST_WRITES: Duration = Duration::from_secs(2);
