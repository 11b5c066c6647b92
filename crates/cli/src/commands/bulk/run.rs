//! `outflow bulk run`: a file of calls, made in one process, each exactly once as far as that can be known.
//!
//! All lines are checked before the first job is taken. Jobs are kept in a directory before they are
//! begun, by names that follow from the file, so that the same command goes on where the last one was
//! stopped, by whatever: what is done is not done again, and no result is written twice.

mod board;
mod checked;
mod earlier;
mod ledger;
mod results;
mod sitting;
mod summary;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::{Config, Outflow, SystemClock};
use outflow_bulk::Settings;
use outflow_core::Clock;

use self::checked::Checked;
use self::ledger::Ledger;
use self::results::Results;
use self::sitting::{Ended, Sitting};
use super::input::{Format, Input};
use crate::bulk::{Bulk, Forecast, Place, data};
use crate::command_line::Misuse;
use crate::commands::user_config::{UserConfig, quiet};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::terminal::{Terminal, answer, answer_json, say, spoken};

/// Makes the calls of a file, and goes on where it was when it is run again.
#[derive(Args)]
#[command(after_help = LINES)]
pub(crate) struct Run {
    /// The file of jobs, or `-` for what is piped in.
    file: String,
    #[command(flatten)]
    config: UserConfig,
    /// How jobs are written, if the file's ending does not say it.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Where jobs are kept until they are done; otherwise a directory of their own for this file.
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Write results to this file instead of the standard output.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
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

impl Run {
    /// Runs it to its end, or until it is told to stop.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        if self.json && self.out.is_none() && !self.rehearse {
            let told =
                "one document and results do not go together: name a file for results with `--out`";
            return Err(Misuse(told.to_owned()).into());
        }
        let config = quiet(self.config.sources()?.read()?);
        let input = Input::read(&self.file, self.format)?;
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(self.work(&config, &input, terminal))
    }

    async fn work(
        &self,
        config: &Config,
        input: &Input,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let client = Outflow::init(config.clone())?;
        let checked = Checked::of(input, &client);
        if checked.is_refused(self, terminal) {
            return Ok(Exit::Usage);
        }
        let settings = lasting(Settings::of(&config.bulk)?);
        let now = SystemClock::new().wall();
        let forecast = Forecast::of(&checked.demand, &client, &settings, now);
        if self.rehearse {
            return self.foretell(&forecast);
        }
        let mut interrupt = Interrupt::listen()?;
        let dir = self.place(input);
        let ledger = Ledger::open(&dir, &input.stem, &input.mark)?;
        let results = Results::open(self.out.as_deref(), ledger)?;
        let jobs = dir.join("jobs");
        tokio::select! {
            () = earlier::wait_out(&jobs, config) => {}
            () = interrupt.told() => return Ok(Exit::Interrupted),
        }
        let bulk = Bulk::start(&client, Place::Dir(jobs), settings, None).await?;
        let mut sitting = Sitting::new(&bulk, &client, input, results).await?;
        let ended = tokio::select! {
            ended = sitting.work(&checked.demand, terminal) => ended?,
            () = interrupt.told() => Ended::Interrupted,
        };
        if ended == Ended::Interrupted {
            say!("finishing the calls under way; once more ends at once");
            tokio::select! {
                _ = bulk.rest() => sitting.write_results().await?,
                () = interrupt.told() => return Ok(Exit::Interrupted),
            }
        }
        bulk.stop().await;
        client.close(LAST_WRITES).await;
        let summary = sitting.summary(ended, &dir);
        if self.json {
            answer_json(&summary.json())?;
        }
        say!("{}", summary.text());
        Ok(summary.exit())
    }

    /// A directory of its own for each file, so that two never meet.
    fn place(&self, input: &Input) -> PathBuf {
        let own = || {
            data()
                .join("runs")
                .join(format!("{}-{}", input.stem, input.mark))
        };
        self.dir.clone().unwrap_or_else(own)
    }

    fn foretell(&self, forecast: &Forecast) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(&forecast.json())?;
        } else {
            answer(&foretold(forecast))?;
        }
        Ok(Exit::Done)
    }
}

fn foretold(forecast: &Forecast) -> String {
    let mut text = format!(
        "{} jobs take at least {}, by {}\n",
        forecast.jobs,
        spoken(forecast.ideal),
        forecast.because
    );
    for (name, part) in forecast.tenants.iter().take(MOST_TENANTS) {
        let allowed = part
            .allowed
            .map_or("no limit".to_owned(), |rate| rate.to_string());
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
fn lasting(settings: Settings) -> Settings {
    let mut settings = Settings {
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

Ends with 0 if all are done, 3 if some failed, 2 if a line is wrong and nothing was sent, 130 if it was
interrupted: run the same again to go on.";

/// A run that nobody went on with for a year is over.
const FOR_LONG: Duration = Duration::from_hours(365 * 24);

/// As many as a screen holds.
const MOST_TENANTS: usize = 20;

/// What was kept goes to the disk before the process ends.
const LAST_WRITES: Duration = Duration::from_secs(2);
