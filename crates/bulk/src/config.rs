//! The `[bulk]` section of the configuration.

pub(crate) mod location;
