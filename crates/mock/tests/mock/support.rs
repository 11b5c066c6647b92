//! A client that knows no HTTP: it writes bytes and keeps what comes back.

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

/// Everything that the server says to a request until it closes.
pub(crate) async fn said_to(server: &Server, request: &str) -> String {
    let (said, ended) = talk(server.connect(), request).await;
    ended.expect("an orderly end");
    said
}

/// Everything that is said on a stream until it ends, and how it ends.
pub(crate) async fn talk<I: AsyncRead + AsyncWrite + Unpin>(
    mut stream: I,
    request: &str,
) -> (String, io::Result<()>) {
    stream.write_all(request.as_bytes()).await.expect("written");
    rest(&mut stream).await
}

async fn rest<I: AsyncRead + Unpin>(stream: &mut I) -> (String, io::Result<()>) {
    let mut said = Vec::new();
    let ended = stream.read_to_end(&mut said).await.map(drop);
    (String::from_utf8_lossy(&said).into_owned(), ended)
}

/// So many bytes of what is said, for streams that do not end.
pub(crate) async fn first<I: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut I,
    request: &str,
    length: usize,
) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut said = vec![0; length];
    stream.read_exact(&mut said).await.expect("as much as that");
    String::from_utf8_lossy(&said).into_owned()
}

/// The head of one answer, for connections that go on; its body must be empty or be read apart.
pub(crate) async fn head<I: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut I,
    request: &str,
) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.expect("a head"));
    }
    String::from_utf8_lossy(&said).into_owned()
}

pub(crate) async fn tcp(server: &Server) -> TcpStream {
    TcpStream::connect(server.address())
        .await
        .expect("connected")
}

/// The value of a header in what was said.
pub(crate) fn header<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let lines = said.split("\r\n");
    let mut pairs = lines.filter_map(|line| line.split_once(": "));
    pairs
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// The number in the first line of an answer.
pub(crate) fn status(said: &str) -> &str {
    said.split(' ').nth(1).unwrap_or(said)
}
