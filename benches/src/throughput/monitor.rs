//! Round trips per job: what clients ask of the server, without what scripts call inside it.
//!
//! The server's statistics add both up, so this has the server repeat every command (`MONITOR`), which
//! marks those of scripts. That slows it down, so it is a run of its own, without a watch. A command counts
//! as one trip even if it shared a packet with others: who sends a thousand commands at once still has a
//! thousand answers to wait for, and a script that does the same is one command.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use outflow_testkit::RedisServer;

use super::contender::Contender;
use crate::measure::approx;

/// Commands that a contender sends for each job.
///
/// # Errors
/// If the contender or the server gives up.
pub(super) fn trips_per_job(
    contender: &mut dyn Contender,
    server: &RedisServer,
) -> io::Result<f64> {
    server.ask(&["FLUSHALL", "SYNC"])?;
    contender.emptied()?;
    let mut repeated = listen(server)?;
    contender.enqueue(JOBS)?;
    contender.drain(JOBS)?;
    server.ask(&["ECHO", OVER])?;
    let mut asked = 0_u64;
    let mut line = String::new();
    while repeated.read_line(&mut line)? > 0 && !line.contains(OVER) {
        asked += u64::from(is_of_a_client(&line));
        line.clear();
    }
    Ok(approx(asked) / approx(JOBS))
}

fn listen(server: &RedisServer) -> io::Result<BufReader<TcpStream>> {
    let address = server.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut repeated = BufReader::new(stream);
    // It answers before it repeats anything.
    repeated.read_line(&mut String::new())?;
    Ok(repeated)
}

/// A line begins with the time and, in brackets, the database and the client's address or `lua`.
fn is_of_a_client(line: &str) -> bool {
    let who = line.split_once(']').map(|(who, _)| who);
    who.is_some_and(|who| !who.ends_with(" lua"))
}

/// Enough that a connection's own greetings weigh nothing, and few enough for the server to keep what it
/// repeats until it is read.
const JOBS: u64 = 2_000;

/// What is said behind the last command.
const OVER: &str = "outflow-bench-over";

/// What it repeats lies ready when it is read.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_no_trip() {
        let asked = r#"+1339518083.107412 [0 127.0.0.1:60866] "evalsha" "1 lua]" "2""#;
        let called = r#"+1339518083.107412 [0 lua] "set" "a" "1""#;
        assert!(is_of_a_client(asked) && !is_of_a_client(called) && !is_of_a_client("+OK"));
    }
}
