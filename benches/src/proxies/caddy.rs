//! Caddy as a plain proxy. It has no built-in limit.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{free_port, installed};

pub(super) fn start(upstream: SocketAddr) -> io::Result<Proxy> {
    let port = free_port()?;
    // By default it pools half the connections that this benchmark needs.
    let text = format!(
        "{{\n  admin off\n  auto_https off\n  persist_config off\n  storage file_system HOME\n}}\n\
         http://127.0.0.1:{port} {{\n  bind 127.0.0.1\n\
         reverse_proxy {upstream} {{\n\
         transport http {{\n  keepalive_idle_conns_per_host 256\n}}\n}}\n}}\n"
    );
    Proxy::start(port, ("Caddyfile", &text), |file| {
        let mut command = Command::new(installed("peers/bin/caddy"));
        // One thread that runs Go is its one worker.
        command.env("GOMAXPROCS", "1");
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file);
        command
    })
}
