//! `outflow dev`: everything at once, without any configuration, to look at.
//!
//! Three strict APIs of our own stand in for providers, so that nothing leaves this machine and every
//! promise can be checked against what the other side counted. The rest is the program as `serve` runs
//! it.

mod banner;
mod load;
mod mock_apis;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use outflow::config::Environment;

use self::mock_apis::MockApis;
use crate::config_sources::ConfigSources;
use crate::exit::Exit;
use crate::program::{Program, StartError};
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, show};

/// Shows everything at work without any configuration: three strict APIs, the sidecar before them, the
/// admin API and some load.
#[derive(Args)]
pub(crate) struct Dev {
    /// Where calls are taken; 0 is any free port.
    #[arg(long, value_name = "PORT", default_value_t = 7070)]
    port: u16,
    /// Where it is watched and operated; 0 is any free port.
    #[arg(long, value_name = "PORT", default_value_t = 7071)]
    admin_port: u16,
    /// Make no calls besides yours.
    #[arg(long)]
    no_load: bool,
    /// Print where everything is as one JSON document.
    #[arg(long)]
    json: bool,
}

impl Dev {
    /// Runs until it is told to stop.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(self.show(terminal))
    }

    async fn show(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut interrupt = ShutdownSignals::listen()?;
        let world = MockApis::start().await?;
        let program = self.start(&world).await?;
        if self.json {
            banner::print_json(&program, &world)?;
        } else {
            banner::print(&program, terminal);
        }
        if !self.no_load {
            load::start(&program)?;
        }
        tokio::select! {
            () = interrupt.wait() => {}
            () = watch(&program, &world, terminal) => {}
        }
        terminal.progress("");
        program.stop().await;
        show(&world.summary());
        Ok(Exit::Done)
    }

    async fn start(&self, world: &MockApis) -> anyhow::Result<Program> {
        let text = world.config(self.port, self.admin_port);
        // The user's own variables are about APIs that there are not here.
        let sources = ConfigSources::new(Vec::new())
            .with(text)
            .in_environment(Environment::empty());
        let started = Program::start(sources).await;
        started.map_err(|error| match error {
            StartError::Listen(why) => anyhow::Error::new(why).context(
                "a port is taken: stop the other program, or say `--port 0 --admin-port 0`",
            ),
            other => other.into(),
        })
    }
}

/// Tells how it goes, on a terminal alone.
async fn watch(program: &Program, world: &MockApis, terminal: Terminal) {
    let mut every = tokio::time::interval(GLANCE);
    every.tick().await;
    loop {
        every.tick().await;
        terminal.progress(&world.glance(program.station().client()));
    }
}

/// Often enough to see a burst go by.
const GLANCE: Duration = Duration::from_secs(1);
