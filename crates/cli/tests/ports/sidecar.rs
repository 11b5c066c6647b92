//! The sidecar over real sockets, before a strict API: whatever is sent to it, and whatever comes back.

mod body_streams;
mod bounds;
mod clients;
mod control_headers;
mod framing;
mod hop_headers;
mod hostile_targets;
mod loop_detection;
mod random_bytes;
mod refusals;
mod stalled_readers;
mod stress;
mod support;
mod token;
