//! `HAProxy` as a plain proxy.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::free_port;
use super::process::Proxy;

pub(super) fn start(upstream: SocketAddr) -> io::Result<Proxy> {
    let port = free_port()?;
    let text = format!(
        "global\n  nbthread 1\n  maxconn 8192\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         option http-keep-alive\n  http-reuse always\n\
         frontend in\n  bind 127.0.0.1:{port}\n  \
         stick-table type ip size 1k expire 10s store http_req_rate(1s)\n  \
         http-request track-sc0 src\n  \
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}\n  \
         default_backend up\n\
         backend up\n  server up {upstream} maxconn 4096\n"
    );
    Proxy::start(port, ("haproxy.cfg", &text), |file| {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        command
    })
}
