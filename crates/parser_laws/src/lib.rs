//! Properties of every parser, for every input: one body for the fuzz targets and for the property
//! tests, so that a law cannot be kept by one and forgotten by the other.
//!
//! Each law takes the bytes of one input and panics where it is broken. It is never published, and no
//! product depends on it.

#![expect(
    clippy::missing_panics_doc,
    reason = "a law panics where it is broken, all of them do"
)]

pub mod client;
pub mod program;
pub mod sidecar;
pub mod values;
