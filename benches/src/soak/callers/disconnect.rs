//! Callers that disconnect before their response, on bare sockets: a client library would close them cleanly.

use std::io;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Requests a stream and closes the connection somewhere in its middle.
///
/// # Errors
/// If the program does not accept the request.
pub(super) async fn hang_up(place: &str, rng: &mut Rng) -> io::Result<()> {
    let mut stream = connected(place).await?;
    let host = place.trim_start_matches("http://");
    let head = format!(
        "GET /up/stream HTTP/1.1\r\nhost: {host}\r\noutflow-cache: bypass\r\n\
         user-agent: gone\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // Long enough for the request to be read, short enough for the response to be in flight.
    sleep(Duration::from_millis(rng.u64(20..250))).await;
    Ok(())
}

/// Connects and disconnects.
///
/// # Errors
/// If the program does not listen.
pub(super) async fn knock(place: &str) -> io::Result<()> {
    let _stream = connected(place).await?;
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

async fn connected(place: &str) -> io::Result<TcpStream> {
    TcpStream::connect(place.trim_start_matches("http://")).await
}
