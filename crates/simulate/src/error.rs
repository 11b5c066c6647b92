//! Reasons why a simulation has no result.

use std::error::Error;
use std::fmt;

/// Result of building a part of a simulation from numbers that are valid by construction.
pub(crate) type SetupResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Reason why a simulation has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimulateError {
    /// The rules of the API contradict each other.
    Rules(Box<dyn Error + Send + Sync>),
    /// The numbers of a scenario are invalid.
    Scenario(Box<dyn Error + Send + Sync>),
    /// The log has no readable line.
    NoLines,
    /// Jobs were left when nothing more could happen.
    Unfinished(usize),
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(why) => write!(f, "the rules of this API contradict each other: {why}"),
            Self::Scenario(why) => why.fmt(f),
            Self::NoLines => f.write_str(
                "the log has no readable line: use the combined log format, or lines of JSON with `ts`, \
                 `method` and `path`",
            ),
            Self::Unfinished(jobs) => write!(f, "{jobs} jobs never ended: this is a bug"),
        }
    }
}

impl Error for SimulateError {}
