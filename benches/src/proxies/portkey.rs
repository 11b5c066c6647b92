//! Portkey's gateway, repeating what was refused where a limit is to be kept.
//!
//! It has no configuration: every call says in its headers where it goes and what is repeated.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{Job, free_port, installed};

pub(super) fn start(upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
    let port = free_port()?;
    // Five is the most that it does.
    let retry = match job {
        Job::Pass => "",
        Job::Spare => r#","retry":{"attempts":5,"on_status_codes":[429]}"#,
    };
    let config = format!(
        r#"{{"provider":"openai","api_key":"none","custom_host":"http://{upstream}/v1"{retry}}}"#
    );
    let proxy = Proxy::start(port, ("unused", ""), |_| {
        let mut command = Command::new("node");
        command.arg(installed(SCRIPT)).arg("--headless");
        command.arg(format!("--port={port}"));
        command
    })?;
    Ok(proxy.told("x-portkey-config", config))
}

const SCRIPT: &str = "peers-portkey/node_modules/@portkey-ai/gateway/build/start-server.js";
