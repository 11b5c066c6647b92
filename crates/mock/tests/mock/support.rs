//! A client without HTTP: it writes bytes and keeps the responses.

use std::io;

use outflow_mock::{Builder, MockApi, Server};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server in memory.
pub(crate) fn serving(builder: Builder) -> Server {
    api(builder).in_memory()
}

pub(crate) fn api(builder: Builder) -> MockApi {
    builder.build().expect("a valid API")
}

/// A request that ends its connection.
pub(crate) fn last_get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: strict.test\r\nconnection: close\r\n\r\n")
}

/// A request that keeps its connection.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: strict.test\r\n\r\n")
}

/// Returns everything that the server sends to a request until it closes.
pub(crate) async fn said_to(server: &Server, request: &str) -> String {
    let (received, ended) = talk(server.connect(), request).await;
    ended.expect("an orderly end");
    received
}

/// Returns everything that is sent on a stream until it ends, and its end.
pub(crate) async fn talk<I: AsyncRead + AsyncWrite + Unpin>(mut stream: I, request: &str) -> (String, io::Result<()>) {
    stream.write_all(request.as_bytes()).await.expect("written");
    rest(&mut stream).await
}

async fn rest<I: AsyncRead + Unpin>(stream: &mut I) -> (String, io::Result<()>) {
    let mut received = Vec::new();
    let ended = stream.read_to_end(&mut received).await.map(drop);
    (String::from_utf8_lossy(&received).into_owned(), ended)
}

/// Returns the first bytes of a stream that does not end.
pub(crate) async fn first<I: AsyncRead + AsyncWrite + Unpin>(stream: &mut I, request: &str, length: usize) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut received = vec![0; length];
    stream.read_exact(&mut received).await.expect("as much as that");
    String::from_utf8_lossy(&received).into_owned()
}

/// Returns the head of one response on a connection that continues; its body must be empty or be
/// read separately.
pub(crate) async fn head<I: AsyncRead + AsyncWrite + Unpin>(stream: &mut I, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        received.push(stream.read_u8().await.expect("a head"));
    }
    String::from_utf8_lossy(&received).into_owned()
}

pub(crate) async fn tcp(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.expect("connected")
}

/// Returns the value of a header in a response.
pub(crate) fn header<'a>(received: &'a str, name: &str) -> Option<&'a str> {
    let lines = received.split("\r\n");
    let mut pairs = lines.filter_map(|line| line.split_once(": "));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Returns the number in the first line of a response.
pub(crate) fn status(received: &str) -> &str {
    received.split(' ').nth(1).unwrap_or(received)
}
