//! Errors of a name lookup.
//!
//! Four kinds, because a different person fixes each: the author of the config, the operator of the
//! resolver or of the network, the owner of the name. The resolver's own text is read once and
//! dropped: it may quote the name, and a name may hold a key.

use std::io;

outflow_core::error_enum! {
    /// Error of a name lookup.
    ///
    /// A custom resolver returns one of these. An [`io::Error`] converts into one; unclear errors
    /// become [`ServerFailed`](Self::ServerFailed).
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use outflow::ResolveError;
    ///
    /// assert_eq!(ResolveError::from(Error::from(ErrorKind::NotFound)), ResolveError::NoSuchName);
    /// assert_eq!(ResolveError::from(Error::other("?")), ResolveError::ServerFailed);
    /// ```
    #[derive(Hash)]
    pub enum ResolveError {
        /// The name does not exist.
        NoSuchName = "the name does not exist: check the host of the base URL",
        /// The resolver failed or gave no reason. The system's resolver also reports its own timeout
        /// like this.
        ServerFailed = "the name lookup failed: check the resolver",
        /// The lookup timed out.
        TimedOut = "the name lookup timed out",
        /// The name exists and has no address.
        NoAddress = "the name has no address",
    }
}

impl ResolveError {
    /// All kinds, for metric series that exist before they count.
    pub const ALL: [Self; 4] = [Self::NoSuchName, Self::ServerFailed, Self::TimedOut, Self::NoAddress];

    /// Returns the label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSuchName => "no_such_name",
            Self::ServerFailed => "server_failed",
            Self::TimedOut => "timed_out",
            Self::NoAddress => "no_address",
        }
    }
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSuchName,
            io::ErrorKind::TimedOut => Self::TimedOut,
            _ => classify_text(&error.to_string()),
        }
    }
}

/// Classifies a lookup by its text: the standard library keeps the text and drops the number.
/// Translated texts get the general error.
fn classify_text(text: &str) -> ResolveError {
    let ends_with_any = |texts: &[&str]| texts.iter().any(|known| text.ends_with(known));
    if ends_with_any(&UNKNOWN) {
        ResolveError::NoSuchName
    } else if ends_with_any(&EMPTY) {
        ResolveError::NoAddress
    } else {
        ResolveError::ServerFailed
    }
}

/// Texts of glibc, musl, macOS and BSD for a name that does not exist.
const UNKNOWN: [&str; 4] = [
    "Name or service not known",
    "Name does not resolve",
    "nodename nor servname provided, or not known",
    "hostname nor servname provided, or not known",
];

/// Their texts for a name without an address.
const EMPTY: [&str; 4] = [
    "No address associated with hostname",
    "No address associated with nodename",
    "Name has no usable address",
    "Address family for hostname not supported",
];

#[cfg(test)]
mod tests {
    use super::*;

    // As the standard library formats them, with each text of this system's C library.
    #[test]
    fn system_texts_map_to_their_error() {
        for (text, error) in [
            ("Name or service not known", ResolveError::NoSuchName),
            ("No address associated with hostname", ResolveError::NoAddress),
            ("Temporary failure in name resolution", ResolveError::ServerFailed),
            ("Non-recoverable failure in name resolution", ResolveError::ServerFailed),
            ("text of a future library", ResolveError::ServerFailed),
        ] {
            let full = format!("failed to lookup address information: {text}");
            assert_eq!(ResolveError::from(io::Error::other(full)), error, "{text}");
        }
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(ResolveError::from(late), ResolveError::TimedOut);
    }

    #[test]
    fn every_kind_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = ResolveError::ALL.map(ResolveError::name).into();
        assert_eq!(names.len(), ResolveError::ALL.len());
    }
}
