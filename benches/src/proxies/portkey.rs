//! Portkey's gateway, with retries of throttled calls in the limited mode.
//!
//! It has no configuration: every call names its target and its retries in headers.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{Job, free_port, installed};

pub(super) fn start(upstream: SocketAddr, job: Job) -> io::Result<Proxy> {
    let port = free_port()?;
    // Five is its maximum.
    let retry = match job {
        Job::Pass => "",
        Job::Spare => r#","retry":{"attempts":5,"on_status_codes":[429]}"#,
    };
    let config = format!(r#"{{"provider":"openai","api_key":"none","custom_host":"http://{upstream}/v1"{retry}}}"#);
    let proxy = Proxy::start(port, ("unused", ""), |_| {
        let mut command = Command::new("node");
        command.arg(installed(SCRIPT)).arg("--headless");
        command.arg(format!("--port={port}"));
        command
    })?;
    Ok(proxy.with_header("x-portkey-config", config))
}

const SCRIPT: &str = "peers-portkey/node_modules/@portkey-ai/gateway/build/start-server.js";
