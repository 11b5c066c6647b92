//! Configuration: values, layers, presets and diagnostics.

mod diagnostics;
mod layers;
mod presets;
mod random_bytes;
mod report;
mod support;
mod values;
