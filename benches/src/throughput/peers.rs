//! The alternative queues, each a program next to the server.

use std::io;

use outflow_testkit::RedisServer;

use super::contender::Contender;
use crate::program::Program;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    BullMq,
    BeeQueue,
    Apalis,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::BullMq, Self::BeeQueue, Self::Apalis];

    /// Returns its name in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::BullMq => "BullMQ",
            Self::BeeQueue => "bee-queue",
            Self::Apalis => "apalis",
        }
    }

    /// Starts it on this server. None of them supports tenants, so each has one plain queue.
    ///
    /// # Errors
    /// If it is not installed, or does not start.
    pub(super) fn start(self, server: &RedisServer) -> io::Result<Started> {
        let address = server.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let port = address.port().to_string();
        let program = match self {
            Self::BullMq => Program::node(SCRIPT, &["bullmq", &port]),
            Self::BeeQueue => Program::node(SCRIPT, &["bee-queue", &port]),
            Self::Apalis => Program::sibling("peer-apalis", &[&port]),
        };
        let program = program?;
        Ok(Started { peer: self, program })
    }
}

/// A peer on a server.
pub(super) struct Started {
    peer: Peer,
    program: Program,
}

impl Contender for Started {
    fn name(&self) -> &'static str {
        self.peer.name()
    }

    fn portion(&self) -> u64 {
        match self.peer {
            Peer::BullMq | Peer::BeeQueue => u64::MAX,
            Peer::Apalis => BELOW_ITS_END,
        }
    }

    fn enqueue(&mut self, jobs: u64) -> io::Result<()> {
        self.program.run(&format!("enqueue {jobs}")).map(drop)
    }

    fn drain(&mut self, jobs: u64) -> io::Result<()> {
        self.program.run(&format!("drain {jobs}")).map(drop)
    }
}

const SCRIPT: &str = "throughput.js";

/// apalis gives up when about eight thousand tasks are due ("too many results to unpack").
const BELOW_ITS_END: u64 = 5_000;
