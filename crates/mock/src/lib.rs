//! The mock API: a server that enforces and audits limits by arrival time, and fails on script.
//!
//! It judges every promise to stay within a limit. So it counts a request on arrival, after the
//! delay of its way; it implements every limit in the most obvious way and shares no meter with the
//! code it judges. It remembers each request, so that a test can query the real history. It depends
//! on the core's values only.
//!
//! A [`MockApi`] holds the state, a [`Server`] serves it: on a free port of this machine, plain or
//! behind TLS, or on in-memory pipes, with which a whole client runs in tokio's paused time.
//!
//! ```
//! use std::time::Duration;
//! use outflow_mock::{MockApi, Quota};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let api = MockApi::builder()
//!     .limit(Quota::sliding("1/s".parse()?))
//!     .build()?;
//! let server = api.in_memory();
//!
//! let mut pipe = server.connect();
//! pipe.write_all(b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nconnection: close\r\n\r\n").await?;
//! let mut responses = String::new();
//! pipe.read_to_string(&mut responses).await?;
//! assert!(responses.contains("200 OK") && responses.contains("429 Too Many Requests"));
//!
//! let audit = api.audit();
//! assert_eq!(audit.refused(), 1);
//! assert_eq!(audit.most_in_any_window(Duration::from_secs(1)), 2);
//! # Ok(())
//! # }
//! ```

mod api;
mod arrival;
mod audit;
mod ban;
mod builder;
mod chat;
mod clock;
mod credential;
mod decision;
mod dialect;
mod echo;
mod enforcer;
mod exchange;
mod fault;
mod hijacked_io;
mod latency;
mod pattern;
mod payload;
mod protocols;
mod quota;
mod response;
mod route;
mod script;
mod server;
mod tasks;
mod throttle_response;
mod tls;

pub use api::MockApi;
pub use arrival::{Arrival, ArrivalVerdict, Received};
pub use audit::{Audit, EarlyRequest, Totals, WaitAudit};
pub use ban::Bans;
pub use builder::{Builder, InvalidApi};
pub use chat::TokenCount;
pub use clock::TokioClock;
pub use credential::CallerKey;
pub use dialect::{Dialect, ResetForm};
pub use enforcer::Scope;
pub use fault::Fault;
pub use latency::Latency;
pub use pattern::Pattern;
pub use payload::Content;
pub use protocols::Protocols;
pub use quota::Quota;
pub use response::MockResponse;
pub use route::{DEFAULT_ROUTE, Route};
pub use script::{Script, ScriptMatch, ScriptedFault};
pub use server::Server;
pub use throttle_response::{RetryAfterForm, ThrottleResponse};
pub use tls::Tls;
