//! HTTP transport: one connection pool per API and no policy.
//!
//! A transport makes one attempt. It does not retry, follow redirects, cache or count. It reports
//! the result and whether any byte left this machine, because only an unsent request may always be
//! sent again. Names are resolved here and not in the pool, so that the checked address is the
//! called address. Failure messages come from a closed set: errors of lower layers may quote a URL
//! or the server, and with it a secret.

mod connect;
mod deadline;
mod failure;
mod hop_by_hop;
mod pool;
mod proxy;
mod public_address;
mod request_body;
mod resolve;
mod resolve_error;
mod response_body;
mod response_framing;
mod system_resolver;
mod tls;
mod tls_connector;
mod transport;

pub use self::connect::{Connect, Connecting, IoStream};
pub use self::hop_by_hop::HOP_BY_HOP;
pub use self::resolve::{Resolve, Resolving};
pub use self::resolve_error::ResolveError;
pub use self::transport::InvalidTransport;

pub(crate) use self::deadline::AttemptDeadline;
pub(crate) use self::failure::{AttemptFailure, BytesSent, FailureKind, FailureMessage};
pub(crate) use self::request_body::{BorrowedBody, BoxError, OutgoingBody};
pub(crate) use self::response_body::{BodyReadError, CollectedBody, IncomingBody, SMALL_BODY};
pub(crate) use self::transport::{SendHook, Transport, TransportDeps};
