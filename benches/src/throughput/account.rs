//! Statistics that a Redis server reports.

use std::io;
use std::time::Duration;

use outflow_testkit::RedisServer;

/// Usage of the server. All values except the memory only grow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Account {
    /// Processor time of all its threads, system and user.
    pub(crate) processor: Duration,
    /// Commands, those of scripts included, without the ones that read this account.
    pub(crate) commands: u64,
    /// Bytes of its allocator.
    pub(crate) memory: u64,
}

impl Account {
    /// Reads the account.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn read(server: &RedisServer) -> io::Result<Self> {
        Ok(Self::parse(&server.command(&["INFO", "everything"])?))
    }

    fn parse(text: &str) -> Self {
        let number = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.and_then(|value| value.parse::<f64>().ok())
        };
        let spent = |key| Duration::from_secs_f64(number(key).unwrap_or(0.0));
        let memory = text.lines().find_map(|l| l.strip_prefix("used_memory:"));
        Self {
            processor: spent("used_cpu_user:") + spent("used_cpu_sys:"),
            commands: text.lines().filter_map(calls).sum(),
            memory: memory.and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
        }
    }
}

/// Parses the number of calls of a command from its line.
fn calls(line: &str) -> Option<u64> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (count, _) = rest.split_once(',')?;
    count.parse().ok().filter(|_| name != "info")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines of a real server; 1,234 calls of which 34 read the account.
    #[test]
    fn an_account_is_parsed_from_the_lines_of_a_server() {
        let text = "used_memory:2048\r\nused_memory_human:2.00K\r\nused_cpu_sys:0.250000\r\n\
                    used_cpu_user:0.500000\r\nused_cpu_user_children:9.000000\r\n\
                    cmdstat_set:calls=1000,usec=8,usec_per_call=0.00\r\n\
                    cmdstat_config|get:calls=200,usec=1,usec_per_call=0.00\r\n\
                    cmdstat_info:calls=34,usec=44,usec_per_call=1.00\r\n";
        let wanted = Account {
            processor: Duration::from_millis(750),
            commands: 1_200,
            memory: 2_048,
        };
        assert_eq!(Account::parse(text), wanted);
    }
}
