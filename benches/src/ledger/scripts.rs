//! Limiters that ask a script for each permit, as most programs on Redis do.

use std::io;

use outflow_testkit::RedisServer;
use redis::{Client, Connection, Script, pipe};

use super::{IN_FLIGHT, Limiter};

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimiterScript {
    /// A script that does nothing: the floor of all that ask each time.
    Nothing,
    /// GCRA: one number per limit.
    Gcra,
    /// A log of sends in a sorted set.
    SortedSetLog,
}

impl LimiterScript {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::Gcra, Self::SortedSetLog];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "a script that does nothing",
            Self::Gcra => "GCRA script",
            Self::SortedSetLog => "sorted-set log script",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "return 1",
            Self::Gcra => {
                "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
                 local at = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) \
                 if at - now > 1000000 then return 0 end \
                 redis.call('SET', KEYS[1], string.format('%.3f', at + 0.01), 'PX', 2000) return 1"
            }
            Self::SortedSetLog => {
                "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
                 redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1000000) \
                 if redis.call('ZCARD', KEYS[1]) >= 100000000 then return 0 end \
                 redis.call('ZADD', KEYS[1], now, ARGV[1]) redis.call('PEXPIRE', KEYS[1], 2000) return 1"
            }
        }
    }
}

/// A script on a server, with many calls in flight.
pub(super) struct ScriptLimiter {
    which: LimiterScript,
    script: Script,
    connection: Connection,
    calls: u64,
}

impl ScriptLimiter {
    /// Connects and loads the script.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn new(server: &RedisServer, which: LimiterScript) -> io::Result<Self> {
        let client = Client::open(server.url()).map_err(io::Error::other)?;
        let mut connection = client.get_connection().map_err(io::Error::other)?;
        let script = Script::new(which.text());
        script.prepare_invoke().load(&mut connection).map_err(io::Error::other)?;
        Ok(Self {
            which,
            script,
            connection,
            calls: 0,
        })
    }

    /// Acquires permits of one limit.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) fn acquire_one_key(&mut self, permits: u64) -> io::Result<u64> {
        self.acquire_of(permits, 1)
    }

    fn acquire_of(&mut self, permits: u64, keys: usize) -> io::Result<u64> {
        let mut acquired = 0;
        while acquired < permits {
            let mut pipe = pipe();
            for number in 0..IN_FLIGHT {
                self.calls += 1;
                let key = format!("peer:{}:{}", self.which.name(), number % keys);
                pipe.cmd("EVALSHA").arg(self.script.get_hash()).arg(1).arg(key).arg(self.calls);
            }
            let answers: Vec<u64> = pipe.query(&mut self.connection).map_err(io::Error::other)?;
            acquired += answers.iter().sum::<u64>();
        }
        Ok(acquired)
    }
}

impl Limiter for ScriptLimiter {
    fn name(&self) -> &'static str {
        self.which.name()
    }

    fn acquire(&mut self, permits: u64) -> io::Result<u64> {
        self.acquire_of(permits, IN_FLIGHT)
    }
}
