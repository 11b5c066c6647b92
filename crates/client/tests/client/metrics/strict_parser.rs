//! A strict parser of the exposition format.

#![expect(clippy::panic, reason = "a page that breaks a rule fails the test that reads it")]

use std::collections::BTreeSet;

/// Checks a page and returns the names of its series.
pub(crate) fn check(page: &str) -> BTreeSet<String> {
    let body = page.strip_suffix("# EOF\n").expect("ends in EOF");
    let mut families = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut family = ("", "");
    let mut below = 0;
    let mut lines = body.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a help text");
            assert!(text.ends_with('.'), "{line}");
            let kind = lines.next().expect("a type after its help");
            let kind = kind.strip_prefix(&format!("# TYPE {name} ")).expect("its type");
            assert!(families.insert(name), "{name} is there twice");
            family = (name, kind);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let number: f64 = value.parse().expect("a number");
        assert!(series.insert(name.to_owned()), "{name} is there twice");
        let (base, labels) = name.split_at(name.find('{').unwrap_or(name.len()));
        let labels = read_labels(labels);
        let suffix = base.strip_prefix(family.0).expect("of its family");
        match (family.1, suffix) {
            ("counter", "_total") => assert!(number >= 0.0 && number.fract() == 0.0, "{line}"),
            ("gauge", "") | ("histogram", "_sum") => assert!(number.is_finite(), "{line}"),
            ("histogram", "_count") => below = 0,
            ("histogram", "_bucket") => {
                let count: u64 = value.parse().expect("whole");
                assert!(count >= below, "{line} is below the bucket before");
                below = count;
                assert_eq!(labels.first().expect("a bound").0, "le", "{line}");
            }
            other => panic!("{line} is {other:?}"),
        }
    }
    check_histograms(body);
    series
}

/// Asserts that the last bucket of each histogram equals its count.
fn check_histograms(body: &str) {
    let of = |part: &str| -> Vec<String> {
        let lines = body.lines().filter(|line| line.contains(part));
        lines
            .map(|line| line.rsplit(' ').next().expect("a value").to_owned())
            .collect()
    };
    assert_eq!(of("_count{"), of("_bucket{le=\"+Inf\""));
}

/// Parses the labels of a series, unescaped.
fn read_labels(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else {
        return labels;
    };
    loop {
        let (name, value) = rest.split_once("=\"").expect("a name and a quote");
        let fits = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(!name.is_empty() && name.chars().all(fits), "{text}");
        let (value, after) = read_value(value);
        labels.push((name.to_owned(), value));
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => break assert_eq!(after, "}", "{text}"),
        }
    }
    labels
}

/// Parses a value up to its closing quote, and returns the rest.
fn read_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().expect("something escaped").1 {
                'n' => value.push('\n'),
                c @ ('"' | '\\') => value.push(c),
                other => panic!("\\{other} is no escape"),
            },
            c => value.push(c),
        }
    }
    panic!("{text} does not end");
}
