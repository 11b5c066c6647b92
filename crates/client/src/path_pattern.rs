//! Which paths a route is about.
//!
//! Whole segments only: `*` or `{name}` stands for one of them and a `**` at the end for all that
//! follow, none included. No regular expressions: a route is decided for every call, and who reads a
//! configuration must see at once what it matches.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// A pattern of path segments.
///
/// ```
/// use outflow::Pattern;
///
/// let orders: Pattern = "/v1/orders/{id}".parse()?;
/// assert!(orders.matches("/v1/orders/17"));
/// assert!(!orders.matches("/v1/orders"));
/// assert!(!orders.matches("/v1/orders/17/lines"));
///
/// let everything: Pattern = "/v1/**".parse()?;
/// assert!(everything.matches("/v1") && everything.matches("/v1/a/b?page=2"));
/// # Ok::<(), outflow::InvalidPattern>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    written: Box<str>,
    segments: Vec<PathSegment>,
    rest: PatternTail,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PathSegment {
    This(Box<str>),
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PatternTail {
    Nothing,
    Anything,
}

impl PathPattern {
    /// Whether a path is meant. A query is not looked at, and a trailing slash makes no difference.
    pub fn matches(&self, path: &str) -> bool {
        let mut given = segments(path);
        for wanted in &self.segments {
            match (wanted, given.next()) {
                (_, None) => return false,
                (PathSegment::This(name), Some(segment)) if !same(name, segment) => return false,
                (PathSegment::This(_) | PathSegment::Any, Some(_)) => {}
            }
        }
        self.rest == PatternTail::Anything || given.next().is_none()
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

/// Whether two segments are one to a server: `%6f` is an `o` to all of them. An encoded slash stays
/// within its segment, where many APIs want it.
fn same(one: &str, other: &str) -> bool {
    one == other || percent_decode_str(one).eq(percent_decode_str(other))
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path);
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    (!path.is_empty())
        .then(|| path.split('/'))
        .into_iter()
        .flatten()
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
            rest: PatternTail::Nothing,
        };
        for segment in segments(written) {
            if pattern.rest == PatternTail::Anything {
                return Err(InvalidPattern::NotAtTheEnd);
            }
            match segment {
                "**" => pattern.rest = PatternTail::Anything,
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

/// Why a text is no pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPattern {
    /// It does not begin with a slash.
    NoSlash,
    /// It speaks of a query or fragment, which is not matched.
    Query,
    /// Something follows `**`.
    NotAtTheEnd,
    /// A placeholder is only part of a segment.
    PartOfASegment,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "a path pattern begins with `/`",
            Self::Query => "a path pattern ends before the `?`: queries are not matched",
            Self::NotAtTheEnd => "`**` stands for all that follows: nothing may come after it",
            Self::PartOfASegment => {
                "`*` and `{name}` stand for a whole segment: write `/{name}/` or the exact text"
            }
        })
    }
}

impl std::error::Error for InvalidPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_whole_segments() {
        for (pattern, path, means) in [
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
            let read: PathPattern = pattern.parse().expect("valid");
            assert_eq!(read.matches(path), means, "{pattern} and {path}");
        }
    }

    #[test]
    fn what_cannot_match_as_meant_is_refused() {
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
