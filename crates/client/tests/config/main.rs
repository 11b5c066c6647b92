//! Configuration: what it means, who speaks last, and what is said about mistakes.

mod bulk;
mod layers;
mod mistakes;
mod presets;
mod report;
mod server;
mod soup;
mod support;
mod values;
