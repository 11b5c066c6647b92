//! The sidecar over real sockets, in front of a mock API: hostile requests and hostile responses.

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
mod returned_memory;
mod response_framing;
mod response_rows;
mod stalled_readers;
mod stress;
mod support;
mod token;
