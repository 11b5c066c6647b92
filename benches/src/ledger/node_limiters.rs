//! The most used shared limiters of Node, each a program next to the server.

use std::io;

use outflow_testkit::RedisServer;

use super::Limiter;
use crate::program::Program;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeLimiter {
    RateLimiterFlexible,
    Bottleneck,
}

impl NodeLimiter {
    pub(super) const ALL: [Self; 2] = [Self::RateLimiterFlexible, Self::Bottleneck];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::RateLimiterFlexible => "rate-limiter-flexible",
            Self::Bottleneck => "bottleneck",
        }
    }

    /// Starts it on this server.
    ///
    /// # Errors
    /// If it is not installed, or does not start.
    pub(super) fn start(self, server: &RedisServer) -> io::Result<StartedLimiter> {
        let address = server.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let program = Program::node(SCRIPT, &[self.name(), &address.port().to_string()])?;
        Ok(StartedLimiter { which: self, program })
    }
}

/// A limiter on a server.
pub(super) struct StartedLimiter {
    which: NodeLimiter,
    program: Program,
}

impl Limiter for StartedLimiter {
    fn name(&self) -> &'static str {
        self.which.name()
    }

    fn acquire(&mut self, permits: u64) -> io::Result<u64> {
        // One of them takes a hundred times as long for each permit.
        let permits = match self.which {
            NodeLimiter::RateLimiterFlexible => permits,
            NodeLimiter::Bottleneck => permits / 10,
        };
        self.program.run(&format!("acquire {permits}"))?;
        Ok(permits)
    }
}

const SCRIPT: &str = "ledger.js";
