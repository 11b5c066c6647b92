//! Proxy libraries, as our own programs that are built next to this one.

use std::io;
use std::net::SocketAddr;
use std::process::Command;

use super::free_port;
use super::process::Proxy;

pub(super) fn start(program: &str, upstream: SocketAddr) -> io::Result<Proxy> {
    let port = free_port()?;
    let path = std::env::current_exe()?.with_file_name(program);
    Proxy::start(port, ("unused", ""), |_| {
        let mut command = Command::new(path);
        command.arg(format!("127.0.0.1:{port}"));
        command.arg(upstream.to_string());
        command
    })
}
