//! "Did you mean": the known name that is nearest to what was written.

/// The nearest of some names, if any is near enough to have been meant.
pub(super) fn nearest<'n>(written: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let written = written.to_lowercase().replace('-', "_");
    known
        .map(|name| (distance(&written, name), name))
        .filter(|(distance, name)| *distance <= allowed(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn distance(written: &str, name: &str) -> usize {
    let name = name.to_lowercase().replace('-', "_");
    strsim::damerau_levenshtein(written, &name)
}

/// One slip in a short name, two in a long one: beyond that another name is as likely.
const fn allowed(name: &str) -> usize {
    match name.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["timeout", "max_wait", "proxy"];
        let near = |written| nearest(written, known.into_iter());
        assert_eq!(near("timeuot"), Some("timeout"));
        assert_eq!(near("Max-Wait"), Some("max_wait"));
        assert_eq!(near("prxy"), Some("proxy"));
        assert_eq!(near("retries"), None);
    }
}
