//! Properties of every parser, for every input: one body for the fuzz targets and for the property
//! tests, so that both check equal laws.
//!
//! Each law takes the bytes of one input and panics if it is broken. The crate is never published,
//! and no product depends on it.

#![expect(
    clippy::missing_panics_doc,
    reason = "a law panics where it is broken, all of them do"
)]

pub mod client;
pub mod program;
pub mod sidecar;
pub mod values;
