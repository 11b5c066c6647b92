//! The commands of the program, one file each.
//!
//! A command is its flags and a `run` that does the work and answers how the program ends, or the
//! error for the user. The enumeration is the whole list: what is not here cannot be called.

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

pub(crate) use self::config::{Effective, effective};

use crate::exit::Exit;
use crate::terminal::Terminal;

/// What the program can be told to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Dev(dev::Dev),
    Serve(serve::Serve),
    Check(check::Check),
    Init(init::Init),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Get(call::Get),
    Post(call::Post),
    Put(call::Put),
    Delete(call::Delete),
    Request(call::AnyMethod),
    Status(control::StatusCommand),
    Limits(control::Limits),
    Explain(control::Explain),
    #[command(subcommand)]
    Health(control::HealthCommand),
    Reload(control::Reload),
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
    Upstream(mock::MockCommand),
    Simulate(simulate::Simulate),
    Completions(completions::Completions),
    Man(completions::Man),
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
            Self::Upstream(upstream) => upstream.run(terminal),
            Self::Simulate(simulate) => simulate.run().map(|()| Exit::Done),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }
}
