//! Configuration: what it means, who speaks last, and what is said about mistakes.

mod diagnostics;
mod layers;
mod presets;
mod random_bytes;
mod report;
mod support;
mod values;
