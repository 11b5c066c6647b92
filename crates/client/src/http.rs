//! Bytes to an API and back: one pool of connections for each, and nothing that decides.
//!
//! A transport makes one attempt. It does not retry, follow, cache or count; it says what became of
//! the attempt and whether anything of it left this machine, because only then may it be repeated
//! without asking. Names are resolved here and not in the pool, so that the address that was looked
//! at is the address that is called. What goes wrong is told in words from a closed set: the errors
//! below carry URLs and pieces of what the server said, and those may hold a secret.

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
pub(crate) use self::request_body::{BoxError, LentBody, OutgoingBody};
pub(crate) use self::response_body::{BodyReadError, IncomingBody};
pub(crate) use self::transport::{SendHook, Transport, TransportDeps};
