//! Rust code without comments, literals and tests.

use std::collections::HashSet;

use super::lexer::SpanKind;
use super::tree::{SourceFile, SourceTree};

/// Returns the code of a file. Spaces replace comments and literals, so that offsets stay valid.
pub(super) fn code_only(file: &SourceFile) -> String {
    let mut code = String::with_capacity(file.text.len());
    for span in file.spans() {
        let text = file.span_text(span);
        if span.kind == SpanKind::Code {
            code.push_str(text);
        } else {
            code.push_str(&blank(text));
        }
    }
    code
}

/// Returns the code of a file without its `#[cfg(test)]` items.
pub(super) fn product_code(file: &SourceFile) -> String {
    let code = code_only(file);
    let mut product = String::with_capacity(code.len());
    let mut copied = 0;
    for item in test_items(&code) {
        if item.start >= copied {
            product.push_str(code.get(copied..item.start).unwrap_or_default());
            product.push_str(&blank(code.get(item.start..item.end).unwrap_or_default()));
            copied = item.end;
        }
    }
    product.push_str(code.get(copied..).unwrap_or_default());
    product
}

/// Lists the files that only tests compile: by name, by folder, or as a `#[cfg(test)]` module.
pub(super) fn test_files(tree: &SourceTree) -> HashSet<String> {
    let mut found = HashSet::new();
    for file in tree.with_suffix(".rs") {
        let is_test = TEST_NAMES.iter().any(|name| file.has_suffix(name));
        if is_test || file.path.contains("/tests/") {
            found.insert(file.path.clone());
        }
        let code = code_only(file);
        for item in test_items(&code) {
            let text = code.get(item.start..item.end).unwrap_or_default();
            if let Some(name) = module_declaration(text) {
                let folder = module_folder(&file.path);
                found.insert(format!("{folder}/{name}.rs"));
                found.insert(format!("{folder}/{name}/mod.rs"));
            }
        }
    }
    found
}

/// Iterates over the identifiers and keywords of a code, with their offsets.
pub(super) fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code.get(at..)?.find(is_part)?;
        let rest = code.get(start..)?;
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        at = start + length;
        Some((start, rest.get(..length)?))
    })
}

/// Range of an item with its attribute.
struct ItemRange {
    start: usize,
    end: usize,
}

fn test_items(code: &str) -> Vec<ItemRange> {
    let mut items = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let attribute = code.get(start..).unwrap_or_default();
        let condition = attribute.trim_start_matches("#[cfg(");
        let end = attribute.find(")]").map_or(code.len(), |end| start + end + 2);
        if condition.starts_with("test)") || condition.starts_with("all(test") {
            let end = item_end(code, end);
            items.push(ItemRange { start, end });
        }
    }
    items
}

/// Returns the end of the item that begins at `at`: its semicolon or its closing brace.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

fn module_declaration(item: &str) -> Option<&str> {
    let words: Vec<_> = item.strip_suffix(';')?.split_whitespace().collect();
    match words[..] {
        [.., "mod", name] => Some(name),
        _ => None,
    }
}

/// Returns the folder of the modules that a file declares.
fn module_folder(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder,
        _ => path.trim_end_matches(".rs"),
    }
}

fn blank(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect()
}

const TEST_NAMES: [&str; 2] = ["/tests.rs", "/test.rs"];

#[cfg(test)]
mod tests {
    use super::*;

    fn product(text: &str) -> String {
        let tree = SourceTree::from_files([("a.rs", text)]);
        let code = product_code(tree.file("a.rs").expect("present"));
        assert_eq!(code.len(), text.len());
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_literals_and_tests_are_blank() {
        for (text, code) in [
            ("// é\nfn a() { b(\"c\") }", "fn a() { b( ) }"),
            ("#[cfg(test)]\nmod tests {\n  fn a() { }\n}\nfn b() {}", "fn b() {}"),
            ("#[cfg(all(test, unix))]\nmod tests;\nfn b() {}", "fn b() {}"),
            ("#[cfg(unix)]\nfn b() {}", "#[cfg(unix)] fn b() {}"),
            (
                "#[cfg(test)]\nmod a {\n #[cfg(test)]\n fn b() {} }\nfn c() {}",
                "fn c() {}",
            ),
        ] {
            assert_eq!(product(text), code);
        }
    }

    #[test]
    fn test_files_are_known_by_name_folder_and_declaration() {
        let tree = SourceTree::from_files([
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod fixture;\nmod other;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\npub(crate) mod oracle;\n"),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/tests/laws/main.rs", ""),
        ]);
        let files = test_files(&tree);
        for path in [
            "crates/a/src/fixture.rs",
            "crates/a/src/b/oracle.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/tests/laws/main.rs",
        ] {
            assert!(files.contains(path), "{path}");
        }
        assert!(!files.contains("crates/a/src/other.rs"));
    }

    #[test]
    fn identifiers_have_offsets() {
        let found: Vec<_> = identifiers("a_1 = b::C;").collect();
        assert_eq!(found, [(0, "a_1"), (6, "b"), (9, "C")]);
    }
}
