//! One command over one connection, in the server's own protocol: enough to probe it and inspect
//! its data. Tests of a client use that client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::ServerAddress;

/// Sends it and reads the reply.
pub(super) fn send(server_address: &ServerAddress, command: &[&str]) -> io::Result<String> {
    match server_address {
        ServerAddress::Port(address) => {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, command)
        }
        ServerAddress::Socket(path) | ServerAddress::Tls(_, path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, command)
        }
    }
}

fn exchange(mut stream: impl Read + Write, command: &[&str]) -> io::Result<String> {
    let mut request = format!("*{}\r\n", command.len());
    for word in command {
        request += &["$", &word.len().to_string(), "\r\n", word, "\r\n"].concat();
    }
    stream.write_all(request.as_bytes())?;
    answer(&mut BufReader::new(stream))
}

/// Reads a status, a number or a text; a null is an empty text.
fn answer(from: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    from.read_line(&mut head)?;
    let head = head.trim_end();
    let (kind, rest) = head.split_at_checked(1).unwrap_or_default();
    match kind {
        "+" | ":" => Ok(rest.to_owned()),
        "-" => Err(io::Error::other(rest.to_owned())),
        "$" => text(from, rest.parse().unwrap_or(0)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no answer that can be shown",
        )),
    }
}

fn text(from: &mut impl BufRead, length: usize) -> io::Result<String> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A server on this machine replies in microseconds, unless it is frozen.
const TIMEOUT: Duration = Duration::from_secs(2);
