//! The program while its configuration changes, and at its end: real processes, real signals, real files.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, in its helpers too"
)]

mod by_hand;
mod changing;
mod ending;
mod flags;
mod supervised;
mod support;
