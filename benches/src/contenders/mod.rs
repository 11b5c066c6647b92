//! Who runs against whom: each file makes one library answer the same questions.

pub(crate) mod designs;
pub(crate) mod governor;
