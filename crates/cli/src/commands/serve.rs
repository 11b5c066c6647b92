//! `outflow serve`: the sidecar and the admin API with the user's configuration, until it is told to
//! stop.
//!
//! A flag is a line of configuration that lies over the files, so that it is checked, shown and kept
//! through a reload as any other line is.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::Api;
use outflow::config::{LogLevel, Source, quoted, read_duration};
use outflow::log::RollingFile;
use tokio::runtime::{Builder, Runtime};

use super::config_args::ConfigArgs;
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::program::{ConfigWatch, Program, StartError};
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, say};

/// Governs calls as a sidecar: point the base URL of any program at it.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where calls are taken, over `server.listen`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where it is watched and operated, over `admin.listen`.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Make no calls: every API is held asleep until it is released, and the cache answers.
    #[arg(long)]
    offline: bool,
    /// How often an API that only the cache answers for is tried again, over `health.auto_recover`.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    auto_recover: Option<Duration>,
    /// How many threads serve, over `server.workers`.
    #[arg(long, value_name = "COUNT")]
    workers: Option<u16>,
    /// Work on jobs, too: take them over the admin API and with `outflow bulk submit`.
    #[arg(long)]
    bulk: bool,
    /// Do not read the files again when they change; SIGHUP and `outflow reload` still do.
    #[arg(long)]
    no_watch: bool,
}

impl Serve {
    /// Serves until the program is told to stop.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let offline = self.offline;
        let watch = if self.no_watch {
            ConfigWatch::Nothing
        } else {
            ConfigWatch::Files
        };
        let (sources, config) = self.sources()?;
        runtime(&config)?.block_on(async move {
            let mut interrupt = ShutdownSignals::listen()?;
            let program = start(config, sources, watch).await?;
            print_started(&program, terminal);
            if offline {
                say!("offline: no call is made, and the cache answers what it can");
            }
            interrupt.wait().await;
            say!("finishing the calls under way; once more ends at once");
            tokio::select! {
                all_finished = program.stop() => Ok(if all_finished {
                    Exit::Done
                } else {
                    Exit::Failed
                }),
                () = interrupt.wait() => Ok(Exit::Interrupted),
            }
        })
    }

    /// The files with the flags over them, and what they say together.
    fn sources(self) -> anyhow::Result<(ConfigSources, ProgramConfig)> {
        let flags = [
            (
                "--listen",
                "server.listen",
                self.listen.as_deref().map(quoted),
            ),
            ("--admin", "admin.listen", self.admin.as_deref().map(quoted)),
            (
                "--workers",
                "server.workers",
                self.workers.map(|count| count.to_string()),
            ),
        ];
        let mut sources = self.config.sources()?;
        for (flag, key, value) in flags {
            if let Some(value) = value {
                sources = sources.with(Source::new(flag, format!("{key} = {value}\n")));
            }
        }
        if let Some(every) = self.auto_recover {
            sources = sources.recovering(every);
        }
        if self.offline {
            sources = sources.offline();
        }
        if self.bulk {
            sources = sources.bulk();
        }
        let config = sources.read()?;
        Ok((sources, config))
    }
}

fn runtime(config: &ProgramConfig) -> anyhow::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = config.server.workers {
        builder.worker_threads(usize::from(workers).max(1));
    }
    let built = builder.enable_all().build();
    built.context("no runtime can be started")
}

async fn start(
    config: ProgramConfig,
    sources: ConfigSources,
    watch: ConfigWatch,
) -> anyhow::Result<Program> {
    let started = Program::start_with(config, sources, watch).await;
    started.map_err(|error| match error {
        StartError::Config(mistakes) => mistakes.into(),
        other => other.into(),
    })
}

fn print_started(program: &Program, terminal: Terminal) {
    let config = program.station().config();
    let config = &config.client;
    if !config.warnings.is_empty() {
        say!("{}\n", config.warnings.render(terminal.style()));
    }
    let (calls, admin) = (program.sidecar(), program.admin());
    say!(
        "{} {}",
        terminal.strong("outflow"),
        env!("CARGO_PKG_VERSION")
    );
    say!("  calls     {calls}/NAME/PATH");
    say!("  operation {admin}/");
    say!("  metrics   {admin}/metrics");
    if program.station().sources().is_bulk() {
        say!("  jobs      {admin}/v1/bulk");
    }
    if config.apis.is_empty() {
        say!("  no API is configured: add one to a file, and it is served");
    }
    if let Some(why) = unwritable_log(config) {
        say!("  the log cannot be written, and nothing of it is kept: {why}");
    }
    for api in &config.apis {
        say!("  {}: {} ({})", api.name, api.base_url, allowed(api));
    }
}

fn allowed(api: &Api) -> String {
    let limits = api.rules.limits.iter();
    let limits: Vec<_> = limits.map(|limit| limit.rate().to_string()).collect();
    match (limits.is_empty(), api.rules.groups.len()) {
        (true, 0) => "no limit".to_owned(),
        (true, groups) => format!("limits of {groups} groups"),
        (false, _) => limits.join(", "),
    }
}

/// Why no line would reach the log's file, if none would. Writing nothing opens it as a line does.
fn unwritable_log(config: &outflow::Config) -> Option<std::io::Error> {
    let log = &config.log;
    if log.level == LogLevel::Off {
        return None;
    }
    let mut file = RollingFile::new(log.file.as_ref()?, log.max_size, log.max_files).ok()?;
    let written = file.write(b"");
    written.err()
}
