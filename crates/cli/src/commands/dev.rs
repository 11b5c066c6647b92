//! `outflow dev`: a demonstration of all parts without configuration.
//!
//! Three mock APIs replace providers: no packet leaves this machine, and the mocks' own counts prove every
//! claim. All other parts run as in `serve`.

mod banner;
mod load;
mod mock_apis;

use std::time::Duration;

use anyhow::Context;
use clap::Args;

use self::mock_apis::MockApis;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::program::{Program, StartError};
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, show};

/// Run a demonstration without configuration: three mock APIs, the sidecar, the admin API and some load.
#[derive(Args)]
pub(crate) struct DevCommand {
    /// Accept calls on this port; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 7070)]
    port: u16,
    /// Serve the admin API on this port; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 7071)]
    admin_port: u16,
    /// Send no load.
    #[arg(long)]
    no_load: bool,
    /// Print all addresses as one JSON document.
    #[arg(long)]
    json: bool,
}

impl DevCommand {
    /// Runs until a shutdown signal.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(self.demonstrate(terminal))
    }

    async fn demonstrate(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut signals = ShutdownSignals::listen()?;
        let apis = MockApis::start().await?;
        let program = self.start(&apis).await?;
        if self.json {
            banner::print_json(&program, &apis)?;
        } else {
            banner::print(&program, terminal);
        }
        if !self.no_load {
            load::start(&program)?;
        }
        tokio::select! {
            () = signals.wait() => {}
            () = watch(&program, &apis, terminal) => {}
        }
        terminal.progress("");
        program.stop().await;
        show(&apis.summary());
        Ok(Exit::Done)
    }

    async fn start(&self, apis: &MockApis) -> anyhow::Result<Program> {
        let text = apis.config(self.port, self.admin_port);
        // The user's variables configure other APIs.
        let sources = ConfigSources::new(Vec::new())
            .with_text(text)
            .in_environment(MockApis::environment());
        let started = Program::start(sources).await;
        started.map_err(|error| match error {
            StartError::Listen(why) => anyhow::Error::new(why)
                .context("a port is in use: stop the other program, or use `--port 0 --admin-port 0`"),
            other => other.into(),
        })
    }
}

/// Shows the state on a terminal, once a second.
async fn watch(program: &Program, apis: &MockApis, terminal: Terminal) {
    let mut every = tokio::time::interval(REFRESH);
    every.tick().await;
    loop {
        every.tick().await;
        terminal.progress(&apis.status_line(program.state().client()));
    }
}

/// Often enough to show a burst.
const REFRESH: Duration = Duration::from_secs(1);
