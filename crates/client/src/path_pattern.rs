//! Path patterns of routes.
//!
//! A pattern matches whole segments: `*` or `{name}` is one of them, and `**` at the end is any number,
//! none included. There are no regular expressions: every call is routed, and the reader of a
//! configuration must see at once what it matches.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// A pattern of path segments.
///
/// ```
/// use outflow::PathPattern;
///
/// let orders: PathPattern = "/v1/orders/{id}".parse()?;
/// assert!(orders.matches("/v1/orders/17"));
/// assert!(!orders.matches("/v1/orders"));
/// assert!(!orders.matches("/v1/orders/17/lines"));
///
/// let everything: PathPattern = "/v1/**".parse()?;
/// assert!(everything.matches("/v1") && everything.matches("/v1/a/b?page=2"));
/// # Ok::<(), outflow::InvalidPattern>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    written: Box<str>,
    segments: Vec<PathSegment>,
    /// True if `**` ends the pattern.
    is_open: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PathSegment {
    This(Box<str>),
    Any,
}

impl PathPattern {
    /// Returns true if the pattern matches a path. Queries and trailing slashes make no difference.
    pub fn matches(&self, path: &str) -> bool {
        let mut given = segments(path);
        for wanted in &self.segments {
            match (wanted, given.next()) {
                (_, None) => return false,
                (PathSegment::This(name), Some(segment)) if !is_same_segment(name, segment) => {
                    return false;
                }
                (PathSegment::This(_) | PathSegment::Any, Some(_)) => {}
            }
        }
        self.is_open || given.next().is_none()
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

/// Returns true if two segments are equal to a server, for which `%6f` is an `o`. An encoded slash stays
/// within its segment, as many APIs expect.
fn is_same_segment(one: &str, other: &str) -> bool {
    one == other || percent_decode_str(one).eq(percent_decode_str(other))
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path);
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    (!path.is_empty()).then(|| path.split('/')).into_iter().flatten()
}

impl FromStr for PathPattern {
    type Err = InvalidPattern;

    fn from_str(written: &str) -> Result<Self, InvalidPattern> {
        if !written.starts_with('/') {
            return Err(InvalidPattern::NoSlash);
        }
        if written.contains(['?', '#']) {
            return Err(InvalidPattern::Query);
        }
        let mut pattern = Self {
            written: written.into(),
            segments: Vec::new(),
            is_open: false,
        };
        for segment in segments(written) {
            if pattern.is_open {
                return Err(InvalidPattern::NotAtTheEnd);
            }
            match segment {
                "**" => pattern.is_open = true,
                "*" => pattern.segments.push(PathSegment::Any),
                named if named.starts_with('{') && named.ends_with('}') => {
                    pattern.segments.push(PathSegment::Any);
                }
                part if part.contains(['*', '{', '}']) => {
                    return Err(InvalidPattern::PartOfASegment);
                }
                literal => pattern.segments.push(PathSegment::This(literal.into())),
            }
        }
        Ok(pattern)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

outflow_core::error_enum! {
    /// Error in a path pattern.
    pub enum InvalidPattern {
        /// It does not begin with a slash.
        NoSlash = "a path pattern begins with `/`",
        /// It contains a query or fragment, which is not matched.
        Query = "a path pattern ends before the `?`: queries are not matched",
        /// Something follows `**`.
        NotAtTheEnd = "`**` matches the rest of the path: nothing may follow it",
        /// A placeholder is only part of a segment.
        PartOfASegment = "`*` and `{name}` match a whole segment: write `/{name}/` or the exact text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_segments() {
        for (pattern, path, matches) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/**", "/", true),
            ("/a/*", "/a/b/", true),
            ("/a/*", "/a/", false),
            ("/a/{id}/c", "/a/b/c?d=/e", true),
            ("/a/b", "/a/bc", false),
            ("/a/b", "/A/b", false),
            ("/orders", "/%6frders", true),
            ("/caf%C3%A9", "/caf%c3%a9", true),
            ("/a/*", "/a/b%2Fc", true),
            ("/a/b", "/a%2Fb", false),
        ] {
            let parsed: PathPattern = pattern.parse().expect("valid");
            assert_eq!(parsed.matches(path), matches, "{pattern} and {path}");
        }
    }

    #[test]
    fn an_ambiguous_pattern_is_rejected() {
        for (pattern, why) in [
            ("a", InvalidPattern::NoSlash),
            ("", InvalidPattern::NoSlash),
            ("/a?b=1", InvalidPattern::Query),
            ("/**/a", InvalidPattern::NotAtTheEnd),
            ("/a*", InvalidPattern::PartOfASegment),
            ("/{id}.json", InvalidPattern::PartOfASegment),
        ] {
            assert_eq!(pattern.parse::<PathPattern>(), Err(why), "{pattern}");
        }
    }
}
