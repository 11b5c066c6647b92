//! Round trips per job: commands of the clients, without commands inside scripts.
//!
//! The server's statistics add both up, so this run uses `MONITOR`, which marks the commands of scripts. That
//! slows the server, so it is a separate run without time measurement. A command counts as one trip even if it
//! shared a packet with others: a client that pipelines a thousand commands still waits for a thousand replies,
//! while a script is one command.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use outflow_testkit::RedisServer;

use super::contender::Contender;
use crate::measure::approx;

/// Returns the commands that a contender sends for each job.
///
/// # Errors
/// If the contender or the server gives up.
pub(super) fn trips_per_job(contender: &mut dyn Contender, server: &RedisServer) -> io::Result<f64> {
    server.command(&["FLUSHALL", "SYNC"])?;
    contender.emptied()?;
    let mut repeated = listen(server)?;
    contender.enqueue(JOBS)?;
    contender.drain(JOBS)?;
    server.command(&["ECHO", OVER])?;
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
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut repeated = BufReader::new(stream);
    // It acknowledges before it sends the first command.
    repeated.read_line(&mut String::new())?;
    Ok(repeated)
}

/// Reads the start of a line: the time and, in brackets, the database and the client's address or `lua`.
fn is_of_a_client(line: &str) -> bool {
    let who = line.split_once(']').map(|(who, _)| who);
    who.is_some_and(|who| !who.ends_with(" lua"))
}

/// Enough that the commands of a new connection do not count, and few enough for the server's output buffer.
const JOBS: u64 = 2_000;

/// Marker after the last command.
const OVER: &str = "outflow-bench-over";

/// Timeout for lines that the server has already buffered.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_inside_a_script_is_no_round_trip() {
        let asked = r#"+1339518083.107412 [0 127.0.0.1:60866] "evalsha" "1 lua]" "2""#;
        let called = r#"+1339518083.107412 [0 lua] "set" "a" "1""#;
        assert!(is_of_a_client(asked) && !is_of_a_client(called) && !is_of_a_client("+OK"));
    }
}
