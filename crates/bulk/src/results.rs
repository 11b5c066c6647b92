//! Results of jobs: written to the store, summed up and reported.

pub(crate) mod completion_notifier;
pub(crate) mod outcome_pages;
pub(crate) mod result_writer;
pub(crate) mod summary;
pub(crate) mod webhook;
