//! Durations and shares in the form of a configuration, for flags and headers.
//!
//! Flags with units of their own would be a second language.

use std::fmt;
use std::time::Duration;

use outflow_core::Share;

use super::reader::ValueError;
use super::units;

/// Reads a duration as a configuration writes it: `10s`, `1m30s`, `250ms`.
///
/// ```
/// use std::time::Duration;
/// use outflow_config::read_duration;
///
/// assert_eq!(read_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(read_duration("90").is_err(), "the unit is missing");
/// ```
///
/// # Errors
/// Returns an error that says how to write a duration.
pub fn read_duration(text: &str) -> Result<Duration, InvalidValue> {
    units::parse_duration(text).map_err(InvalidValue::from)
}

/// Reads a share as a configuration writes it: `20%` or `0.2`.
///
/// # Errors
/// Returns an error that says how to write a share.
pub fn read_share(text: &str) -> Result<Share, InvalidValue> {
    units::parse_share(text).map_err(InvalidValue::from)
}

/// Fault of a text, and the right form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidValue {
    message: String,
    help: Option<String>,
}

impl From<ValueError> for InvalidValue {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Reported => Self {
                message: "this is wrong".to_owned(),
                help: None,
            },
            ValueError::Message { message, help, .. } => Self { message, help },
        }
    }
}

impl InvalidValue {
    /// Returns the right form, or the fault if there is no advice.
    pub fn into_advice(self) -> String {
        self.help.unwrap_or(self.message)
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
