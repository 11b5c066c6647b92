//! The client against the mock API: over real sockets where the network matters, over pipes in
//! virtual time where time matters.

mod cache;
mod cancel;
mod connection_faults;
mod connections;
mod deadlines;
mod dns;
mod echoed_secrets;
mod endless_responses;
mod followers;
mod groups;
mod h2_frames;
mod h2_framing;
mod h2_streams;
mod outage;
mod paths;
mod policy;
mod proxies;
mod redirects;
mod retries;
mod secrets;
mod single_flight;
mod size_limits;
mod support;
mod tls;
