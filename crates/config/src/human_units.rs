//! Times and shares as a configuration writes them, for whoever reads them elsewhere.
//!
//! A flag that took other words for five seconds than the file does would be a second language.

use std::fmt;
use std::time::Duration;

use outflow_core::Share;

use super::reader::ValueError;
use super::units;

/// Reads a time as it is written in a configuration.
///
/// ```
/// use std::time::Duration;
/// use outflow::config::read_duration;
///
/// assert_eq!(read_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(read_duration("90").is_err(), "ninety of what?");
/// ```
///
/// # Errors
/// If it is none; the error says how one is written.
pub fn read_duration(text: &str) -> Result<Duration, InvalidValue> {
    units::duration(text).map_err(InvalidValue::from)
}

/// Reads a share as it is written in a configuration: `20%` or `0.2`.
///
/// # Errors
/// If it is none; the error says how one is written.
pub fn read_share(text: &str) -> Result<Share, InvalidValue> {
    units::share(text).map_err(InvalidValue::from)
}

/// Why a text is not what it should be, and how to write it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidValue {
    message: String,
    help: Option<String>,
}

impl From<ValueError> for InvalidValue {
    fn from(wrong: ValueError) -> Self {
        match wrong {
            ValueError::Told => Self {
                message: "this is wrong".to_owned(),
                help: None,
            },
            ValueError::Said { message, help, .. } => Self { message, help },
        }
    }
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}: {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for InvalidValue {}
