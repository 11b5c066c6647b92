//! `outflow serve`: runs the sidecar and the admin API with the user's configuration until a shutdown signal.
//!
//! A flag is a line of configuration over the files. It is checked, shown and kept through a reload as a line
//! of a file is.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::{LogLevel, Source, quoted, read_duration};
use outflow::log::RollingFile;
use outflow::{Api, redact};
use tokio::runtime::{Builder, Runtime};

use super::config_args::ConfigArgs;
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::program::{ConfigWatch, Program, StartError};
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, say};

/// Run the sidecar, which sends the calls of any program within the limits.
#[derive(Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    config: ConfigArgs,
    /// Accept calls at this address instead of `server.listen`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve the admin API at this address instead of `admin.listen`.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Make no calls: force every API to sleep until a release, and answer from the cache.
    #[arg(long)]
    offline: bool,
    /// Probe an API in the state `cache_only` at this interval, instead of `health.auto_recover`.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    auto_recover: Option<Duration>,
    /// Use this number of threads instead of `server.workers`.
    #[arg(long, value_name = "COUNT")]
    workers: Option<u16>,
    /// Run the bulk engine, which accepts jobs over the admin API and from `outflow bulk submit`.
    #[arg(long)]
    bulk: bool,
    /// Do not reload when files change; SIGHUP and `outflow reload` still do.
    #[arg(long)]
    no_watch: bool,
}

impl ServeCommand {
    /// Serves until a shutdown signal.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let offline = self.offline;
        let watch = if self.no_watch {
            ConfigWatch::Nothing
        } else {
            ConfigWatch::Files
        };
        let (sources, config) = self.sources()?;
        runtime(&config)?.block_on(async move {
            let mut signals = ShutdownSignals::listen()?;
            let program = start(config, sources, watch).await?;
            print_started(&program, terminal);
            if offline {
                say!("offline: no call is sent, and the cache answers");
            }
            signals.wait().await;
            say!("finishing calls in flight; press Ctrl-C again to end at once");
            tokio::select! {
                all_finished = program.stop() => Ok(if all_finished {
                    Exit::Done
                } else {
                    Exit::Failed
                }),
                () = signals.wait() => Ok(Exit::Interrupted),
            }
        })
    }

    /// Returns the files with the flags over them, and their configuration.
    fn sources(self) -> anyhow::Result<(ConfigSources, ProgramConfig)> {
        let flags = [
            ("--listen", "server.listen", self.listen.as_deref().map(quoted)),
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
                sources = sources.with_text(Source::new(flag, format!("{key} = {value}\n")));
            }
        }
        if let Some(every) = self.auto_recover {
            sources = sources.with_auto_recover(every);
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
    built.context("cannot start the runtime")
}

async fn start(config: ProgramConfig, sources: ConfigSources, watch: ConfigWatch) -> anyhow::Result<Program> {
    let started = Program::start_with(config, sources, watch).await;
    started.map_err(|error| match error {
        StartError::Config(diagnostics) => diagnostics.into(),
        other => other.into(),
    })
}

fn print_started(program: &Program, terminal: Terminal) {
    let config = program.state().config();
    let config = &config.client;
    if !config.warnings.is_empty() {
        say!("{}\n", config.warnings.render(terminal.style));
    }
    let (calls, admin) = (program.sidecar(), program.admin());
    say!("{} {}", terminal.strong("outflow"), env!("CARGO_PKG_VERSION"));
    say!("  calls     {calls}/NAME/PATH");
    say!("  operation {admin}/");
    say!("  metrics   {admin}/metrics");
    if program.state().sources.bulk {
        say!("  jobs      {admin}/v1/bulk");
    }
    let sidecar = program.state().sidecar();
    if sidecar.max_connections() < program.state().config().server.max_connections {
        let (connections, files) = (sidecar.max_connections(), sidecar.descriptors().files());
        say!("  at most {connections} connections: the system allows {files} open files (`ulimit -Hn`)");
    }
    if config.apis.is_empty() {
        say!("  no API is configured: add one to a file");
    }
    if let Some(why) = unwritable_log(config) {
        say!("  cannot write the log, and its lines are lost: {why}");
    }
    for api in &config.apis {
        let url = api.base_url.to_string();
        say!("  {}: {} ({})", api.name, redact::Url(&url), allowed(api));
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

/// Returns the error of writing to the log's file, if there is one. An empty write opens the file.
fn unwritable_log(config: &outflow::Config) -> Option<std::io::Error> {
    let log = &config.log;
    if log.level == LogLevel::Off {
        return None;
    }
    let mut file = RollingFile::new(log.file.as_ref()?, log.max_size, log.max_files).ok()?;
    let written = file.write(b"");
    written.err()
}
