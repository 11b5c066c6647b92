//! The program during changes of its configuration and at its end: real processes, signals and files.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

mod file_changes;
mod flags;
mod overrides;
mod shutdown;
mod supervisor;
mod support;
