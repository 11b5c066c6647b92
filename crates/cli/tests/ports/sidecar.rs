//! The sidecar over real sockets, in front of a mock API: hostile requests and hostile responses.

mod body_streams;
mod bounds;
mod clients;
mod closed_clients;
mod control_headers;
mod evictions;
mod framing;
mod hop_headers;
mod hostile_targets;
mod http2_bounds;
mod loop_detection;
mod memory;
mod memory_stress;
mod random_bytes;
mod refusals;
mod response_framing;
mod response_rows;
mod returned_memory;
mod stalled_readers;
mod stress;
mod support;
mod token;
