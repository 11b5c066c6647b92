//! The mock API, and a call to it: one connection each, in memory or over a socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use outflow_mock::{MockApi, Server};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cell::{BASE, Cell};

/// A mock API that can be called.
#[derive(Clone)]
pub(crate) struct Site {
    api: MockApi,
    server: Arc<Server>,
    address: Option<SocketAddr>,
}

impl Site {
    /// Starts the API over pipes in memory.
    pub(crate) fn in_memory(cell: Cell) -> Option<Self> {
        let api = mock_api(cell)?;
        let server = Arc::new(api.in_memory());
        Some(Self {
            api,
            server,
            address: None,
        })
    }

    /// Starts the API on a socket of this machine.
    pub(crate) async fn on_a_socket(cell: Cell) -> Option<Self> {
        let api = mock_api(cell)?;
        let server = Arc::new(api.listen().await.ok()?);
        let address = Some(server.address());
        Some(Self { api, server, address })
    }

    /// Returns the API, to change the network midway.
    pub(crate) fn api(&self) -> &MockApi {
        &self.api
    }

    /// Returns the status of one call.
    pub(crate) async fn call(&self) -> io::Result<u16> {
        match self.address {
            None => exchange(self.server.connect()).await,
            Some(address) => exchange(TcpStream::connect(address).await?).await,
        }
    }
}

fn mock_api(cell: Cell) -> Option<MockApi> {
    let ways = cell.latency(BASE);
    let api = MockApi::builder().limit(cell.quota()?).delay(ways, ways);
    api.seed(SEED).build().ok()
}

async fn exchange(mut line: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<u16> {
    line.write_all(b"GET / HTTP/1.1\r\nhost: strict\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = Vec::with_capacity(512);
    line.read_to_end(&mut answer).await?;
    let status = answer.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
    let status = status.and_then(|code| code.parse().ok());
    status.ok_or_else(|| io::Error::other("the response has no status line"))
}

/// Seed of the delays, equal for every contender.
const SEED: u64 = 7;
