//! Bytes to an API and back: one pool of connections for each, and nothing that decides.
//!
//! A transport makes one attempt. It does not retry, follow, cache or count; it says what became of
//! the attempt and whether anything of it left this machine, because only then may it be repeated
//! without asking. Names are resolved here and not in the pool, so that the address that was looked
//! at is the address that is called. What goes wrong is told in words from a closed set: the errors
//! below carry URLs and pieces of what the server said, and those may hold a secret.

mod address;
mod connect;
mod dial;
mod end;
mod failure;
mod incoming;
mod outgoing;
mod pool;
mod proxy;
mod resolve;
mod tls;
mod transport;

pub use self::connect::{Connect, Connecting, Stream};
pub use self::resolve::{Resolve, Resolving};
pub use self::transport::InvalidTransport;

pub(crate) use self::end::End;
pub(crate) use self::failure::{Failure, Left, Trouble, Words};
pub(crate) use self::incoming::{Incoming, Unread};
pub(crate) use self::outgoing::{BoxError, Lent, Outgoing};
pub(crate) use self::transport::{Leave, Transport, Wiring};
