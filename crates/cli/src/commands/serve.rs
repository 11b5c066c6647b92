//! `outflow serve`: the sidecar and the admin API with the user's configuration, until it is told to
//! stop.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use outflow::config::Style;

use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::program::{Program, StartError};
use crate::sources::Sources;

/// Governs calls as a sidecar: point the base URL of any program at it.
#[derive(Args)]
pub(crate) struct Serve {
    /// A configuration file; later ones lie over earlier ones.
    #[arg(long, short, value_name = "FILE", default_value = "outflow.toml")]
    config: Vec<PathBuf>,
}

impl Serve {
    /// Serves until the program is told to stop.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let runtime = tokio::runtime::Runtime::new().context("no runtime can be started")?;
        runtime.block_on(serve(Sources::new(self.config)))
    }
}

async fn serve(sources: Sources) -> anyhow::Result<Exit> {
    let mut interrupt = Interrupt::listen()?;
    let program = match Program::start(sources).await {
        Ok(program) => program,
        Err(StartError::Config(mistakes)) => {
            eprint!("{}", mistakes.render(Style::Plain));
            return Ok(Exit::Usage);
        }
        Err(other) => return Err(other.into()),
    };
    eprintln!("calls      {}/NAME/PATH", program.sidecar());
    eprintln!("operation  {}", program.admin());
    interrupt.told().await;
    eprintln!("finishing the calls under way; once more ends at once");
    tokio::select! {
        all_finished = program.stop() => Ok(if all_finished {
            Exit::Done
        } else {
            Exit::Failed
        }),
        () = interrupt.told() => Ok(Exit::Interrupted),
    }
}
