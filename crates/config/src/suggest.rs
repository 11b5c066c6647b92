//! "Did you mean": the known name nearest to the written one.

/// Returns the nearest known name, if one is near enough to be meant.
pub fn nearest_name<'n>(written: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let written = written.to_lowercase().replace('-', "_");
    known
        .map(|name| (distance(&written, name), name))
        .filter(|(distance, name)| *distance <= max_distance(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn distance(written: &str, name: &str) -> usize {
    let name = name.to_lowercase().replace('-', "_");
    strsim::damerau_levenshtein(written, &name)
}

/// A short name allows one typing error, a long one two or three; beyond that other names are as likely.
const fn max_distance(name: &str) -> usize {
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
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let known = ["timeout", "max_wait", "proxy"];
        let near = |written| nearest_name(written, known.into_iter());
        assert_eq!(near("timeuot"), Some("timeout"));
        assert_eq!(near("Max-Wait"), Some("max_wait"));
        assert_eq!(near("prxy"), Some("proxy"));
        assert_eq!(near("retries"), None);
    }
}
