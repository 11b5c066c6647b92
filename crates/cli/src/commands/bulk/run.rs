//! `outflow bulk run`: a file of calls, made in one process, each exactly once as far as that can be known.
//!
//! All lines are checked before the first job is taken. Jobs are kept in a directory before they are
//! begun, by names that follow from the file, so that the same command goes on where the last one was
//! stopped, by whatever: what is done is not done again, and no result is written twice.

mod checkpoint;
mod line_results;
mod progress_bars;
mod results;
mod run_loop;
mod summary;
mod validate;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::{Outflow, SystemClock};
use outflow_bulk::{
    EngineSettings, OpenError, OpenStore, PreviousRun, StoreLocation, TenantBounds, data_dir,
};
use outflow_core::{Clock, WallTime};
use outflow_store::StoreControl as _;

use self::checkpoint::Checkpoint;
use self::results::ResultWriter;
use self::run_loop::{LoopEnd, RunDeps, RunLoop};
use self::summary::RunSummary;
use self::validate::ValidatedFile;
use super::input::{InputFormat, JobInput};
use crate::command_line::UsageError;
use crate::commands::config_args::{ConfigArgs, quiet};
use crate::config::ProgramConfig;
use crate::exit::Exit;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, answer, answer_json, say, spoken};

/// Makes the calls of a file, and goes on where it was when it is run again.
#[derive(Args)]
#[command(after_help = LINES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct RunCommand {
    /// The file of jobs, or `-` for what is piped in.
    file: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// How jobs are written, if the file's ending does not say it.
    #[arg(long, value_name = "FORMAT")]
    format: Option<InputFormat>,
    /// Where jobs are kept until they are done; otherwise a directory of their own for this file.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Write results to this file instead of the standard output, which `-` is, too.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Try lines anew that failed for good in an earlier run of the file.
    #[arg(long)]
    retry_failed: bool,
    /// Leave out lines that are wrong instead of sending nothing.
    #[arg(long)]
    skip_invalid: bool,
    /// Send nothing: say how long it takes at least.
    #[arg(long = "dry-run")]
    rehearse: bool,
    /// Print the report at the end as one JSON document; results need a file then.
    #[arg(long)]
    json: bool,
}

/// What becomes of lines that failed for good in an earlier sitting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FailedLines {
    /// They stay as they are.
    Left,
    /// They are tried anew.
    TriedAnew,
}

impl RunCommand {
    /// Runs it to its end, or until it is told to stop.
    pub(crate) fn run(mut self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.out = self.out.filter(|out| out != Path::new("-"));
        if self.json && self.out.is_none() && !self.rehearse {
            let told =
                "one document and results do not go together: name a file for results with `--out`";
            return Err(UsageError(told.to_owned()).into());
        }
        let mut config = self.config.sources()?.read()?;
        config.client = quiet(config.client);
        let input = JobInput::read(&self.file, self.format)?;
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(self.work(&config, &input, terminal))
    }

    async fn work(
        &self,
        config: &ProgramConfig,
        input: &JobInput,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let client = Outflow::init(config.client.clone())?;
        let settings = lasting(EngineSettings::from_section(&config.bulk)?);
        let checked = ValidatedFile::new(input, &client, &settings);
        checked.pass(self)?;
        let now = SystemClock::new().wall();
        let forecast = TenantBounds::new(&checked.demand, &client, &settings, now);
        if self.rehearse {
            return self.foretell(&forecast);
        }
        let shift = RunContext {
            client: &client,
            settings: &settings,
            file: &checked,
            terminal,
        };
        let summary = self.sit(config, shift).await?;
        client.close(LAST_WRITES).await;
        if self.json {
            answer_json(&summary.json())?;
        }
        say!("{}", summary.text());
        Ok(summary.exit())
    }

    /// One sitting.
    async fn sit(
        &self,
        config: &ProgramConfig,
        shift: RunContext<'_>,
    ) -> anyhow::Result<RunSummary> {
        let input = shift.file.input;
        let dir = self.place(input);
        let jobs = StoreLocation::Dir(dir.join("jobs"));
        let earlier = PreviousRun::from_location(&jobs);
        // The lock of the jobs is that of everything in the directory, and of the results.
        let opened = OpenStore::open(shift.client, jobs).await.map_err(in_use)?;
        let ledger = Checkpoint::open(&dir, &input.stem, &input.mark)?;
        let tally = opened.store().job_counts().await?;
        ledger.fits(tally.submitted())?;
        let results = ResultWriter::open(self.out.as_deref(), ledger)?;
        let desk = RunDeps {
            store: Arc::clone(opened.store()),
            client: shift.client,
            file: shift.file,
            failed: self.failed(),
        };
        let mut sitting = RunLoop::new(desk, results).await?;
        let ended = if sitting.has_work().await? {
            let over = earlier.all_over_by(&config.client.apis, &config.bulk);
            shift.work(opened, &mut sitting, over).await?
        } else {
            sitting.finish().await?;
            opened.close().await;
            LoopEnd::Finished
        };
        sitting.are_read().await?;
        Ok(sitting.summary(ended, &dir))
    }

    const fn failed(&self) -> FailedLines {
        if self.retry_failed {
            FailedLines::TriedAnew
        } else {
            FailedLines::Left
        }
    }

    /// A directory of its own for each file, so that two never meet.
    fn place(&self, input: &JobInput) -> PathBuf {
        let own = || {
            data_dir()
                .join("runs")
                .join(format!("{}-{}", input.stem, input.mark))
        };
        self.dir.clone().unwrap_or_else(own)
    }

    fn foretell(&self, forecast: &TenantBounds) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(&forecast.json())?;
        } else {
            answer(&foretold(forecast))?;
        }
        Ok(Exit::Done)
    }
}

/// What a sitting that has something to do needs besides.
struct RunContext<'a> {
    client: &'a Outflow,
    settings: &'a EngineSettings,
    file: &'a ValidatedFile<'a>,
    terminal: Terminal,
}

impl RunContext<'_> {
    /// Works to the end, or until somebody interrupts, who may not even wait for the calls under way.
    /// What was sent before is over at this instant.
    async fn work(
        self,
        opened: OpenStore,
        sitting: &mut RunLoop<'_>,
        over: Option<WallTime>,
    ) -> anyhow::Result<LoopEnd> {
        let mut interrupt = ShutdownSignals::listen()?;
        tokio::select! {
            () = wait_out(over) => {}
            () = interrupt.wait() => {
                opened.close().await;
                return Ok(LoopEnd::Interrupted);
            }
        }
        let bulk = opened
            .begin(self.client, self.settings.clone(), None)
            .await?;
        let worked = tokio::select! {
            ended = sitting.work(&bulk, &self.file.demand, self.terminal) => ended,
            () = interrupt.wait() => Ok(LoopEnd::Interrupted),
        };
        if worked.is_err() {
            // What is under way comes to its end, so that the next run need not send it again.
            tokio::select! {
                _ = bulk.stop() => {}
                () = interrupt.wait() => {}
            }
        }
        let mut ended = worked?;
        if ended == LoopEnd::Interrupted {
            say!("finishing the calls under way; once more ends at once");
            tokio::select! {
                _ = bulk.wait_previous_window() => sitting.write_results().await?,
                () = interrupt.wait() => return Ok(ended),
            }
            if !sitting.has_work().await? {
                ended = LoopEnd::Finished;
            }
        }
        bulk.stop().await;
        Ok(ended)
    }
}

/// Waits until nothing counts any more that was sent before.
async fn wait_out(over: Option<WallTime>) {
    let left = over.map(|over| over.since(SystemClock::new().wall()));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        say!(
            "waiting {} for what was sent before to be over",
            spoken(left)
        );
        tokio::time::sleep(left).await;
    }
}

fn in_use(error: OpenError) -> anyhow::Error {
    let is_in_use = matches!(&error, OpenError::Store(why) if why.is_in_use());
    let error = anyhow::Error::new(error);
    if is_in_use {
        return error.context("this file is being run already, and nothing was changed");
    }
    error
}

fn foretold(forecast: &TenantBounds) -> String {
    let mut text = format!(
        "{} jobs take at least {}, by {}\n",
        forecast.jobs,
        spoken(forecast.ideal),
        forecast.because
    );
    for (name, part) in forecast.tenants.iter().take(MOST_TENANTS) {
        let allowed = part.allowed.as_ref();
        let allowed = allowed.map_or("no limit".to_owned(), ToString::to_string);
        // Writing to a string cannot fail.
        let _whole = writeln!(
            text,
            "  {name}: {} jobs, {} if it were alone ({allowed})",
            part.jobs,
            spoken(part.alone)
        );
    }
    let more = forecast.tenants.len().saturating_sub(MOST_TENANTS);
    if more > 0 {
        let _whole = writeln!(text, "  and {more} tenants more");
    }
    text.push_str("nothing was sent\n");
    text
}

/// A directory of a run is kept for one file, and nothing in it is forgotten while somebody may still go
/// on with it. Whatever the file holds has room.
fn lasting(settings: EngineSettings) -> EngineSettings {
    let mut settings = EngineSettings {
        queue_max: u64::MAX,
        shared: None,
        ..settings
    };
    settings.retention.results = FOR_LONG;
    settings.retention.names = FOR_LONG;
    settings.retention.dead = FOR_LONG;
    settings
}

const LINES: &str = "\
A line of NDJSON is an object with `api` and `path`, and may have `tenant`, `method`, `headers`, `body`
or `json`, `cost`, `priority`, `not_before`, `deadline`, `id`, `idempotency_key`, `max_retries` and
`timeout`. The first row of CSV names the same.

Ends with 0 if all are done, 3 if some failed or wait for an API that is gone, 2 if a line is wrong and
nothing was sent, 130 if it was interrupted: run the same again to go on.";

/// A run that nobody went on with for a year is over.
const FOR_LONG: Duration = Duration::from_hours(365 * 24);

/// As many as a screen holds.
const MOST_TENANTS: usize = 20;

/// What was kept goes to the disk before the process ends.
const LAST_WRITES: Duration = Duration::from_secs(2);
