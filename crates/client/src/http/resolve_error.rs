//! Why a name has no address.
//!
//! Four ways, because each calls for other hands: whoever wrote the name, whoever runs the resolver,
//! whoever runs the network, and whoever owns the name. What a resolver says in its own words is read
//! once and dropped: it may quote the name, and a name may hold a key.

use std::fmt;
use std::io;

/// Why a name has no address.
///
/// A resolver of a program's own says it by returning one of these. An [`io::Error`] turns into one,
/// as far as it tells: what it does not tell is [`ServerFailed`](Self::ServerFailed).
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use outflow::Unresolved;
///
/// assert_eq!(Unresolved::from(Error::from(ErrorKind::NotFound)), Unresolved::NoSuchName);
/// assert_eq!(Unresolved::from(Error::other("?")), Unresolved::ServerFailed);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResolveError {
    /// The name does not exist.
    NoSuchName,
    /// Whoever was asked could not tell, or did not say why there is no answer. The system's resolver
    /// also says this when it waited in vain itself.
    ServerFailed,
    /// There was no answer in time.
    TimedOut,
    /// The name exists and has no address.
    NoAddress,
}

impl ResolveError {
    /// All of them, for series that exist before they are counted.
    pub const ALL: [Self; 4] = [
        Self::NoSuchName,
        Self::ServerFailed,
        Self::TimedOut,
        Self::NoAddress,
    ];

    /// The label's value.
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
            _ => by_text(&error.to_string()),
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchName => "the name does not exist: look at the host of the base URL",
            Self::ServerFailed => "the name could not be looked up: look at the resolver",
            Self::TimedOut => "the name was not looked up in time",
            Self::NoAddress => "the name has no address",
        })
    }
}

impl std::error::Error for ResolveError {}

/// The standard library keeps the text of a failed lookup and not its number, so the texts are all
/// that there is to tell one from another. Programs that translate them get the general answer.
fn by_text(text: &str) -> ResolveError {
    let says = |texts: &[&str]| texts.iter().any(|known| text.ends_with(known));
    if says(&UNKNOWN) {
        ResolveError::NoSuchName
    } else if says(&EMPTY) {
        ResolveError::NoAddress
    } else {
        ResolveError::ServerFailed
    }
}

/// What the C libraries of Linux (two of them), macOS and BSD say of a name that does not exist.
const UNKNOWN: [&str; 4] = [
    "Name or service not known",
    "Name does not resolve",
    "nodename nor servname provided, or not known",
    "hostname nor servname provided, or not known",
];

/// And of one without an address.
const EMPTY: [&str; 4] = [
    "No address associated with hostname",
    "No address associated with nodename",
    "Name has no usable address",
    "Address family for hostname not supported",
];

#[cfg(test)]
mod tests {
    use super::*;

    // As the standard library writes them, with each text that the C library of this system has.
    #[test]
    fn the_systems_words_are_told_apart() {
        for (words, why) in [
            ("Name or service not known", ResolveError::NoSuchName),
            (
                "No address associated with hostname",
                ResolveError::NoAddress,
            ),
            (
                "Temporary failure in name resolution",
                ResolveError::ServerFailed,
            ),
            (
                "Non-recoverable failure in name resolution",
                ResolveError::ServerFailed,
            ),
            ("words of a library to come", ResolveError::ServerFailed),
        ] {
            let text = format!("failed to lookup address information: {words}");
            assert_eq!(ResolveError::from(io::Error::other(text)), why, "{words}");
        }
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(ResolveError::from(late), ResolveError::TimedOut);
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = ResolveError::ALL.map(ResolveError::name).into();
        assert_eq!(names.len(), ResolveError::ALL.len());
    }
}
