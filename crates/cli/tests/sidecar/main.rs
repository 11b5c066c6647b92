//! The sidecar over real sockets, before a strict API: whatever is sent to it, and whatever comes back.

mod bounds;
mod clients;
mod framing;
mod hops;
mod hostile;
mod readers;
mod refusals;
mod soup;
mod steering;
mod streaming;
mod stress;
mod support;
mod token;
