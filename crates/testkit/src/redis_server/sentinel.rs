//! A Sentinel: it watches a primary, and promotes a replica when that dies.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use super::command::send;
use super::{ServerAddress, ServerFlavor, free_port, wait_until_it_answers};
use crate::process::Process;

/// Sentinel that ends when this is dropped. Three of them agree on the death of a primary.
#[derive(Debug)]
pub struct RedisSentinel {
    address: SocketAddr,
    process: Process,
    _directory: TempDir,
}

impl RedisSentinel {
    /// Starts a Sentinel for the primary at this address. It takes a silence of half a second for the primary's death;
    /// by default it is thirty, for which a test does not wait.
    ///
    /// # Errors
    /// If no server is installed, or it does not respond within ten seconds.
    pub fn start(name: &str, primary: SocketAddr) -> io::Result<Self> {
        let flavor = ServerFlavor::Either;
        let Some(program) = flavor.program() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, flavor.advice()));
        };
        let (directory, address) = (tempfile::tempdir()?, free_port()?);
        let config = format!(
            "port {}\nbind {}\nsentinel monitor {name} {} {} 2\nsentinel down-after-milliseconds {name} 500\n\
             sentinel failover-timeout {name} 5000\n",
            address.port(),
            address.ip(),
            primary.ip(),
            primary.port()
        );
        // A Sentinel writes what it learns into its configuration.
        fs::write(directory.path().join(CONFIG), config)?;
        let mut command = Command::new(program);
        command.current_dir(directory.path()).args([CONFIG, "--sentinel"]);
        let mut process = Process::start(command)?;
        wait_until_it_answers(&ServerAddress::Port(address), &mut process)?;
        Ok(Self {
            address,
            process,
            _directory: directory,
        })
    }

    /// Returns its port on loopback.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one command on a new connection, and returns the reply as text.
    ///
    /// # Errors
    /// If it does not reply within two seconds, or replies with an error.
    pub fn command(&self, command: &[&str]) -> io::Result<String> {
        send(&ServerAddress::Port(self.address), command)
    }

    /// Kills it like a crash.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }
}

const CONFIG: &str = "sentinel.conf";
