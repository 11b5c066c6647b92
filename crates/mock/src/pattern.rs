//! Path patterns of a rule: whole segments, `*` for one of them, a `**` at the end for the rest.
//!
//! The client has patterns too; these are a separate minimal implementation, so that an error there
//! is not repeated here.

/// Pattern of path segments, such as `/v1/orders/*` or `/v1/**`.
///
/// ```
/// use outflow_mock::Pattern;
///
/// assert!(Pattern::new("/v1/**").matches("/v1/orders/7"));
/// assert!(!Pattern::new("/v1/*").matches("/v1/orders/7"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Parses a pattern; every text is valid.
    pub fn new(written: &str) -> Self {
        Self(written.into())
    }

    /// Returns true if a path, without its query, matches.
    pub fn matches(&self, path: &str) -> bool {
        let mut given = segments(path);
        for wanted in segments(&self.0) {
            if wanted == "**" {
                return true;
            }
            match given.next() {
                Some(segment) if wanted == "*" || wanted == segment => {}
                _ => return false,
            }
        }
        given.next().is_none()
    }
}

impl From<&str> for Pattern {
    fn from(written: &str) -> Self {
        Self::new(written)
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
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
            ("/**", "/a/b", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/b", "/a/bc", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(path), matches, "{pattern} and {path}");
        }
    }
}
