//! Names of tenants, lanes, actions and jobs.
//!
//! One type for all four: they go into the same keys, file names, log lines and metric labels, so they
//! follow the same rule.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

/// The name of a tenant, a lane, an action or a job: 1 to 128 bytes, without spaces and control
/// characters.
///
/// ```
/// use outflow_store::Name;
///
/// let tenant: Name = "customer-A".parse()?;
/// assert_eq!(tenant.as_str(), "customer-A");
/// assert!("two words".parse::<Name>().is_err());
/// # Ok::<(), outflow_store::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(SmolStr);

impl Name {
    /// Creates a name.
    ///
    /// # Errors
    /// If the text is empty, longer than 128 bytes, or holds a space or a control character.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(InvalidName::Length(text.len()));
        }
        let is_invalid = |character: char| character.is_whitespace() || character.is_control();
        if text.contains(is_invalid) {
            return Err(InvalidName::Letter);
        }
        Ok(Self(SmolStr::new(text)))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Reason why a text is not a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidName {
    /// It has this number of bytes.
    Length(usize),
    /// It holds a space or a control character.
    Letter,
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(0) => f.write_str("a name is empty: give it at least one letter"),
            Self::Length(bytes) => write!(
                f,
                "a name has {bytes} bytes: use at most {MAX_BYTES}, a hash of it for example"
            ),
            Self::Letter => {
                f.write_str("a name holds a space or a control character: use letters, digits and - _ . : /")
            }
        }
    }
}

impl std::error::Error for InvalidName {}

/// Long enough for two UUIDs and a word, short enough for a metric label.
const MAX_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_a_key_and_a_label() {
        for good in ["a", "customer-A", "고객사", "urn:x/1", &"x".repeat(128)] {
            assert_eq!(Name::new(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "two words", "line\n", "\u{0}", &"x".repeat(129)] {
            let error = Name::new(bad).expect_err(bad).to_string();
            assert!(error.contains("use") || error.contains("give"), "{error}");
        }
    }
}
