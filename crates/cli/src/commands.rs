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
mod json_fields;
mod mock;
mod serve;
mod set_variable;
pub(crate) mod simulate;

use clap::Subcommand;
use http::Method;

pub(crate) use self::config::{EffectiveValue, effective_values};
pub(crate) use self::config_args::ConfigArgs;

use crate::admin_client::AdminTarget;
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
    /// Make a GET call to a configured API.
    Get(call::CallArgs),
    /// Make a POST call to a configured API.
    Post(call::CallArgs),
    /// Make a PUT call to a configured API.
    Put(call::CallArgs),
    /// Make a DELETE call to a configured API.
    Delete(call::CallArgs),
    Request(call::RequestCommand),
    /// Show the health of each API of a running program, and its waiting calls.
    Status(AdminTarget),
    Limits(control::LimitsCommand),
    Explain(control::ExplainCommand),
    #[command(subcommand)]
    Health(control::HealthCommand),
    Set(set_variable::SetVariableCommand),
    /// Reload the configuration of a running program: all of it or nothing.
    Reload(AdminTarget),
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
            Self::Get(call) => call.run(Method::GET, terminal),
            Self::Post(call) => call.run(Method::POST, terminal),
            Self::Put(call) => call.run(Method::PUT, terminal),
            Self::Delete(call) => call.run(Method::DELETE, terminal),
            Self::Request(request) => request.arguments.run(request.method, terminal),
            Self::Status(target) => control::status(&target),
            Self::Limits(limits) => limits.run(),
            Self::Explain(explain) => explain.run(),
            Self::Health(health) => health.run(),
            Self::Set(set) => set.run(),
            Self::Reload(target) => control::reload(&target),
            Self::Bulk(bulk) => bulk.run(terminal),
            Self::Mock(mock) => mock.run(terminal),
            Self::Simulate(simulate) => simulate.run().map(|()| Exit::Done),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }
}
