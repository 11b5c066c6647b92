//! Traefik, with a limit that is counted and never reached.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::process::Proxy;
use super::{free_port, installed};

pub(super) fn start(upstream: SocketAddr) -> io::Result<Proxy> {
    let port = free_port()?;
    let text = format!(
        "http:
  routers:
    all: {{ entryPoints: [in], rule: 'PathPrefix(`/`)', middlewares: [limit], service: up }}
  middlewares:
    limit: {{ rateLimit: {{ average: 1000000, burst: 1000000 }} }}
  services:
    up: {{ loadBalancer: {{ servers: [{{ url: 'http://{upstream}' }}] }} }}
"
    );
    Proxy::start(port, ("routes.yaml", &text), |file| {
        let mut command = Command::new(installed("peers/bin/traefik"));
        // One thread that runs Go is its one worker.
        command.env("GOMAXPROCS", "1");
        command.args([
            &format!("--entryPoints.in.address=127.0.0.1:{port}"),
            &format!("--providers.file.filename={}", file.display()),
            "--global.checkNewVersion=false",
            "--global.sendAnonymousUsage=false",
        ]);
        command
    })
}
