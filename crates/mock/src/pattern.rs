//! Which paths a rule is about: whole segments, `*` for one of them, a `**` at the end for the rest.
//!
//! The client has patterns too; these are written again, in the shortest way, so that a mistake
//! there is not repeated here.

/// A pattern of path segments, such as `/v1/orders/*` or `/v1/**`.
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
    /// As it is written; there is nothing that could be wrong with it.
    pub fn new(written: &str) -> Self {
        Self(written.into())
    }

    /// Whether a path, without its query, is meant.
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
        for (pattern, path, means) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/b", "/a/bc", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(path),
                means,
                "{pattern} and {path}"
            );
        }
    }
}
