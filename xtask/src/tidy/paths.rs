//! No path of anybody's own machine: it works there and nowhere else.

use super::Finding;
use super::tree::{File, Tree};

/// Finds absolute paths into places that differ from machine to machine.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files().flat_map(private_paths).collect()
}

fn private_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for place in PLACES {
            if begins_a_path(line, &format!("/{place}/")) {
                let message =
                    format!("names a path below /{place}: write it from the root of the tree");
                findings.push(Finding::fault(&file.path, message).at(number));
            }
        }
    }
    findings
}

/// True if `place` stands where a path begins, not inside one such as `docs/home/` or an address.
fn begins_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-}/*~".contains(c))
    })
}

const PLACES: [&str; 4] = ["work", "root", "home", "Users"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check(&Tree::of([("docs/a.md", text)])).len()
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for place in PLACES {
            assert_eq!(found(&format!("see /{place}/me/x\n")), 1);
            assert_eq!(found(&format!("\"/{place}/me\"\n")), 1);
            assert_eq!(found(&format!("/{place}/me\n")), 1);
        }
    }

    #[test]
    fn the_same_word_inside_a_path_is_not() {
        for text in [
            "docs/home/x",
            "https://example.org/home/x",
            "./work/x",
            "$dir}/root/x",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }
}
