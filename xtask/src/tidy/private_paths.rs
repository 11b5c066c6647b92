//! No absolute path of one machine, which exists nowhere else.

use super::TidyFinding;
use super::tree::{SourceFile, SourceTree};

/// Reports absolute paths into folders that differ between machines.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.files().flat_map(find_private_paths).collect()
}

fn find_private_paths(file: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for folder in FOLDERS.map(|folder| format!("/{folder}/")) {
        for (offset, _) in file.text.match_indices(&folder) {
            if starts_path(&file.text, offset) {
                let message = format!("names a path below {folder}: write it from the root of the repository");
                findings.push(TidyFinding::error(&file.path, message).at(file.line_at(offset)));
            }
        }
    }
    findings
}

/// Returns true if a path starts at `offset`, and not if a longer one continues, as in `docs/home/`.
fn starts_path(text: &str, offset: usize) -> bool {
    let before = text.get(..offset).and_then(|text| text.chars().next_back());
    before.is_none_or(|c| !c.is_alphanumeric() && !"._-}/*~".contains(c))
}

const FOLDERS: [&str; 4] = ["work", "root", "home", "Users"];

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&SourceTree::from_files([("docs/a.md", text)])).len()
    }

    #[test]
    fn a_path_of_one_machine_is_an_error() {
        for folder in FOLDERS {
            assert_eq!(count(&format!("see /{folder}/me/x\n")), 1);
            assert_eq!(count(&format!("\"/{folder}/me\"\n")), 1);
            assert_eq!(count(&format!("/{folder}/me\n")), 1);
        }
    }

    #[test]
    fn the_same_folder_inside_a_path_is_fine() {
        for text in ["docs/home/x", "https://example.org/home/x", "./work/x", "$dir}/root/x"] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
