//! The figures, each family in its file.

pub(crate) mod designs;
