//! No absolute path of one machine, which exists nowhere else.

use super::TidyFinding;
use super::lexer::pattern;
use super::tree::SourceTree;

/// Reports absolute paths into folders that differ between machines, and no longer path such as
/// `docs/home/` that contains one.
pub(super) fn check(tree: &SourceTree) -> Vec<TidyFinding> {
    let paths = pattern(&format!(r"(?:^|[^\w.}}/*~-])(/(?:{})/)", FOLDERS.join("|")));
    let report = |folder: &str| format!("names a path below {folder}: write it from the root of the repository");
    let files = tree.files.iter();
    files.flat_map(|file| file.report_matches(&paths, report)).collect()
}

const FOLDERS: [&str; 4] = ["work", "root", "home", "Users"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn count(text: &str) -> usize {
        findings(check, [("docs/a.md", text)]).len()
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
