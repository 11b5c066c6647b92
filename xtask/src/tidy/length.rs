//! A file is one noun: long ones hold several.
//!
//! Six hundred lines is refused; four hundred without tests is only said, because a table may have
//! a good reason to be that long.

use super::Finding;
use super::tree::{File, Tree};

/// Finds files that are too long, and notes those that are getting there.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter(|file| is_written(file))
        .filter_map(judge)
        .collect()
}

fn judge(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    if lines > MOST {
        let message = format!("has {lines} lines, more than {MOST}: split it by its nouns");
        return Some(Finding::fault(&file.path, message));
    }
    let product = product_lines(file);
    (product > MANY).then(|| {
        let message = format!("has {product} lines without its tests, more than {MANY}");
        Finding::note(&file.path, message)
    })
}

/// By people, line by line; lock files, data and reports of failed cases are not.
fn is_written(file: &File) -> bool {
    WRITTEN.iter().any(|end| file.ends_with(end))
}

fn product_lines(file: &File) -> usize {
    if !file.ends_with(".rs") || file.path.contains("/tests/") {
        return 0;
    }
    file.text
        .lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .count()
}

const MOST: usize = 600;
const MANY: usize = 400;
const WRITTEN: [&str; 6] = [".rs", ".md", ".toml", ".lua", ".sh", ".js"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<bool> {
        check(&Tree::of([(path, text)]))
            .iter()
            .map(Finding::is_fault)
            .collect()
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        assert_eq!(found("a.rs", &"x\n".repeat(MOST + 1)), [true]);
        assert!(found("docs/a.md", &"x\n".repeat(MOST)).is_empty());
        assert_eq!(found("docs/a.md", &"x\n".repeat(MOST + 1)), [true]);
        assert!(found("Cargo.lock", &"x\n".repeat(MOST + 1)).is_empty());
    }

    #[test]
    fn tests_do_not_count_towards_the_note() {
        let product = "x\n".repeat(MANY + 1);
        assert_eq!(found("a.rs", &product), [false]);
        let tested = format!("{}#[cfg(test)]\n{}", "x\n".repeat(MANY), "y\n".repeat(50));
        assert!(found("a.rs", &tested).is_empty());
        assert!(found("crates/core/tests/a.rs", &product).is_empty());
    }
}
