//! The commands of the program, one file each.
//!
//! A command is its flags and a `run` that does the work. `run` returns the exit code, or the error for the
//! user. The enumeration is complete: no other command exists.

mod bulk;
mod call;
mod check;
mod completions;
mod config;
mod config_args;
mod control;
mod dev;
mod init;
mod mock;
mod serve;
pub(crate) mod simulate;

use clap::Subcommand;

pub(crate) use self::config::{EffectiveValue, effective_values};

use crate::exit::Exit;
use crate::terminal::Terminal;

/// Commands of the program.
#[derive(Subcommand)]
pub(crate) enum Command {
    Dev(dev::DevCommand),
    Serve(serve::ServeCommand),
    Check(check::CheckCommand),
    Init(init::InitCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Get(call::GetCommand),
    Post(call::PostCommand),
    Put(call::PutCommand),
    Delete(call::DeleteCommand),
    Request(call::RequestCommand),
    Status(control::StatusCommand),
    Limits(control::LimitsCommand),
    Explain(control::ExplainCommand),
    #[command(subcommand)]
    Health(control::HealthCommand),
    Reload(control::ReloadCommand),
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
    Mock(mock::MockCommand),
    Simulate(simulate::SimulateCommand),
    Completions(completions::CompletionsCommand),
    Man(completions::ManCommand),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        match self {
            Self::Dev(dev) => dev.run(terminal),
            Self::Serve(serve) => serve.run(terminal),
            Self::Check(check) => check.run(terminal),
            Self::Init(init) => init.run(terminal),
            Self::Config(config) => config.run(),
            Self::Get(get) => get.run(terminal),
            Self::Post(post) => post.run(terminal),
            Self::Put(put) => put.run(terminal),
            Self::Delete(delete) => delete.run(terminal),
            Self::Request(request) => request.run(terminal),
            Self::Status(status) => status.run(),
            Self::Limits(limits) => limits.run(),
            Self::Explain(explain) => explain.run(),
            Self::Health(health) => health.run(),
            Self::Reload(reload) => reload.run(),
            Self::Bulk(bulk) => bulk.run(terminal),
            Self::Mock(mock) => mock.run(terminal),
            Self::Simulate(simulate) => simulate.run().map(|()| Exit::Done),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }
}
