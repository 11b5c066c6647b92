//! Transport of script calls: functions where the server has them, scripts elsewhere.
//!
//! A script that the server forgot is sent again in full.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Value, cmd};

use super::connection::{ConnectionSetup, RedisConnection};
use super::error_map;
use super::scripts::ScriptStep;
use super::server_info::ServerInfo;
use crate::contract::StoreResult;

/// What is known about the functions of a server.
#[derive(Default)]
pub(super) struct ScriptTransport {
    /// Set if the server is known to have functions.
    functions: AtomicBool,
    /// Set if the server denies functions to this user.
    functions_denied: AtomicBool,
}

impl ScriptTransport {
    /// Records what a handshake showed.
    pub(super) fn set_server(&self, server: &ServerInfo) {
        self.functions.store(server.has_functions, Ordering::Relaxed);
    }

    /// Runs a step with its arguments; `library` holds the functions of all steps.
    pub(super) async fn run(
        &self,
        connection: &RedisConnection,
        setup: &impl ConnectionSetup,
        library: &str,
        (step, arguments): (&ScriptStep, &Cmd),
    ) -> StoreResult<Value> {
        let call = command("FCALL", &step.function, arguments);
        if let Some(answer) = self.try_function(connection, setup, library, &call).await {
            return answer;
        }
        let call = command("EVALSHA", &step.hash, arguments);
        match connection.send(setup, &call).await {
            Err(error) if error_map::is_unknown_script(&error) => {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(&step.text);
                connection.send(setup, &load).await?;
                connection.send(setup, &call).await
            }
            answer => answer,
        }
    }

    /// Calls a function, or returns `None` if functions are unavailable.
    async fn try_function(
        &self,
        connection: &RedisConnection,
        setup: &impl ConnectionSetup,
        library: &str,
        call: &Cmd,
    ) -> Option<StoreResult<Value>> {
        if !self.functions.load(Ordering::Relaxed) || self.functions_denied.load(Ordering::Relaxed) {
            return None;
        }
        let mut answer = connection.send(setup, call).await;
        if answer.as_ref().is_err_and(error_map::is_unknown_script) {
            let mut load = cmd("FUNCTION");
            load.arg("LOAD").arg(library);
            // Another process may have loaded it first; the call itself shows if it exists.
            answer = match connection.send(setup, &load).await {
                Err(error) if error_map::is_forbidden(&error) => Err(error),
                // A full server takes no library, but scripts.
                Err(error) if error.is_full() => return None,
                _ => connection.send(setup, call).await,
            };
        }
        if answer.as_ref().is_err_and(error_map::is_forbidden) {
            self.functions_denied.store(true, Ordering::Relaxed);
            return None;
        }
        Some(answer)
    }
}

/// Builds the command that passes the arguments.
fn command(name: &str, target: &str, arguments: &Cmd) -> Cmd {
    let mut command = cmd(name);
    command.arg(target);
    for argument in arguments.args_iter() {
        if let redis::Arg::Simple(bytes) = argument {
            command.arg(bytes);
        }
    }
    command
}
