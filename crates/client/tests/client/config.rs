//! Configuration: what it means, who speaks last, and what is said about mistakes.

mod bulk;
mod diagnostics;
mod layers;
mod presets;
mod random_bytes;
mod report;
mod server;
mod support;
mod values;
