//! Warnings about routes that no call can reach.
//!
//! The first route that matches decides, so a wide route before a narrow one makes the narrow one
//! useless. That is a warning and not an error: nothing fails, but it is probably unintended.

use http::Method;
use outflow_config::value_readers::read_text;
use outflow_config::{FieldValue, ValueError, show_name};

use crate::path_pattern::PathPattern;
use crate::rules::{Route, Rules};

/// Warns of each route all of whose calls match an earlier route.
pub(super) fn check_order(routes: &FieldValue<'_>, rules: &Rules) {
    let items = routes.items();
    // A route that could not be read is not in the list, so positions would not agree.
    if items.len() != rules.routes.len() {
        return;
    }
    for (at, (item, route)) in items.iter().zip(&rules.routes).enumerate() {
        let earlier = rules.routes.iter().take(at);
        if let Some(shadow) = earlier.into_iter().find(|earlier| covers(earlier, route)) {
            let message = format!(
                "no call reaches this route: `{}` comes first",
                show_name(shadow.pattern.as_str())
            );
            item.report(ValueError::warning(message).help("put the narrower route in front"));
        }
    }
}

/// Warns of routes that repeat the path of the base URL.
pub(super) fn check_prefix(routes: &FieldValue<'_>, prefix: &str) {
    if prefix.is_empty() {
        return;
    }
    for item in routes.items() {
        let path = item.table().ok().and_then(|table| table.field("path"));
        let Some(path) = path else { continue };
        let repeats = read_text(&path).is_ok_and(|path| {
            path.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if repeats {
            let message = format!("the base URL already ends in `{}`", show_name(prefix));
            path.report(ValueError::warning(message).help("routes match the path that a call names"));
        }
    }
}

/// Warns of routes whose methods the API does not allow.
pub(super) fn check_methods(routes: &FieldValue<'_>, rules: &Rules, allowed: &[Method]) {
    let items = routes.items();
    if allowed.is_empty() || items.len() != rules.routes.len() {
        return;
    }
    for (item, route) in items.iter().zip(&rules.routes) {
        let usable = |method| allowed.contains(method);
        if !route.methods.is_empty() && !route.methods.iter().any(usable) {
            let error = ValueError::warning("no call reaches this route: its methods may not be used");
            item.report(error.help("add one of them to the API's `methods`, or drop the route"));
        }
    }
}

/// Reports a pattern that matches no path: dots are resolved and blanks encoded before matching.
pub(super) fn check_pattern(pattern: &str) -> Result<(), ValueError> {
    if let Some(odd) = pattern.chars().find(|c| c.is_whitespace() || c.is_control()) {
        let help = format!("write it encoded, as %{:02X}", u32::from(odd));
        return Err(ValueError::new("no path holds a blank").help(help));
    }
    let dots = |segment: &str| segment == "." || segment == "..";
    if pattern.split('/').any(dots) {
        return Err(
            ValueError::new("`.` and `..` are resolved before a path is matched").help("write the path without them")
        );
    }
    Ok(())
}

fn covers(first: &Route, second: &Route) -> bool {
    covers_methods(&first.methods, &second.methods) && covers_paths(&first.pattern, &second.pattern)
}

/// Returns true if every method of the second is one of the first; an empty list is all methods.
fn covers_methods(first: &[Method], second: &[Method]) -> bool {
    first.is_empty() || (!second.is_empty() && second.iter().all(|method| first.contains(method)))
}

/// Returns true if every path of the second matches the first.
fn covers_paths(first: &PathPattern, second: &PathPattern) -> bool {
    let (mut wide, mut narrow) = (segments(first), segments(second));
    loop {
        match (wide.next(), narrow.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some(_), None | Some("**")) | (None, Some(_)) => return false,
            (Some(wide), Some(narrow)) if is_wildcard(wide) || wide == narrow => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

fn segments(pattern: &PathPattern) -> impl Iterator<Item = &str> {
    let path = pattern.as_str().trim_matches('/');
    path.split('/').filter(|segment| !segment.is_empty())
}

fn is_wildcard(segment: &str) -> bool {
    segment == "*" || segment.starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_exactly_the_paths_that_it_matches() {
        for (first, second, covered) in [
            ("/**", "/a/b", true),
            ("/a/**", "/a", true),
            ("/a/*", "/a/{id}", true),
            ("/a/{id}", "/a/b", true),
            ("/a/b", "/a/{id}", false),
            ("/a/*", "/a/**", false),
            ("/a", "/a/b", false),
            ("/a/b", "/a", false),
            ("/a/*/c", "/a/b/c", true),
        ] {
            let pattern = |text: &str| text.parse::<PathPattern>().expect("valid");
            assert_eq!(
                covers_paths(&pattern(first), &pattern(second)),
                covered,
                "{first} and {second}"
            );
        }
    }
}
