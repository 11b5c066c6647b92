//! Processes that are killed at any moment: nothing is lost, nothing is counted twice, and what is done
//! twice is known by its key.

#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod books;
mod embedded;
mod flapping;
mod fleet;
mod handing;
mod heirs;
mod limits;
mod points;
mod poison;
mod recovery;
mod shared;
