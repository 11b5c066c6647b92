//! Parses a large text in parts.
//!
//! The parser needs about two kilobytes per table. For a hundred thousand groups that is 240 MB, most of
//! which stays with the process as fragments. So a large text is split before the headers of one table's
//! entries, and each part is parsed as a document.
//!
//! This changes no meaning: if a part does not parse, or two parts define the same table, the parser gets
//! the text as a whole.

use std::collections::HashSet;
use std::ops::Range;

use toml::de::DeTable;

use super::tree::{TextStart, TreeTable, TreeValue, convert_table};

/// Parses a text split before the headers `[SPLIT.NAME]`; `None` if it is small or must be parsed as a
/// whole.
pub(crate) fn parse_in_parts(source: usize, text: &str, split: &str) -> Option<TreeTable> {
    if text.len() < MIN_LARGE {
        return None;
    }
    let (head, parts) = split_text(text, split);
    let mut root = parse_part(source, text, head)?;
    if root.entry(split).is_some() {
        return None;
    }
    for part in parts {
        let begin = part.start;
        let part = parse_part(source, text, part)?;
        append_part(&mut root, part, begin, split)?;
    }
    let entries = root.table(split)?;
    let distinct: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    (distinct.len() == entries.iter().count()).then_some(root)
}

fn parse_part(source: usize, text: &str, part: Range<usize>) -> Option<TreeTable> {
    let begin = TextStart {
        source,
        offset: part.start,
    };
    let written = DeTable::parse(text.get(part)?).ok()?;
    Some(convert_table(begin, written.get_ref()))
}

/// Returns the text before the first entry, and parts of at least [`MIN_PART`] bytes that begin with the
/// header of an entry. All headers of one entry stay in one part.
fn split_text(text: &str, split: &str) -> (Range<usize>, Vec<Range<usize>>) {
    let header = format!("[{split}.");
    let mut begins: Vec<usize> = Vec::new();
    let mut last = "";
    for (at, _) in text.match_indices(&header) {
        let name = text.get(at + header.len()..).unwrap_or_default();
        let name = name.split(['.', ']']).next().unwrap_or_default();
        let is_header = at == 0 || text.get(..at).is_some_and(|before| before.ends_with('\n'));
        let is_full = begins.last().is_none_or(|begin| at - begin >= MIN_PART);
        if is_header && is_full && name != last {
            begins.push(at);
        }
        if is_header {
            last = name;
        }
    }
    let ends = begins.iter().copied().skip(1).chain([text.len()]);
    let parts = begins.iter().copied().zip(ends);
    let head = begins.first().copied().unwrap_or(text.len());
    (0..head, parts.map(|(from, to)| from..to).collect())
}

/// Appends a part to the parts before it; `None` if both define the same table.
fn append_part(root: &mut TreeTable, part: TreeTable, begin: usize, split: &str) -> Option<()> {
    for entry in part {
        // The split table is elsewhere if it has a header of its own.
        if entry.name == split && entry.at.start != begin + 1 {
            return None;
        }
        let Some(known) = root.value_mut(&entry.name) else {
            root.put(entry);
            continue;
        };
        match (known, entry.node.value) {
            (TreeValue::Table(entries), TreeValue::Table(more)) if entry.name == split => entries.append(more),
            _ => return None,
        }
    }
    Some(())
}

/// Texts that people write are smaller and cost little memory.
const MIN_LARGE: usize = 256 * 1024;

/// The largest texts have a hundred parts of this size; each needs a few megabytes.
const MIN_PART: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_parts(text: &str) -> Option<TreeTable> {
        let text = padded(text);
        parse_in_parts(3, &text, "apis")
    }

    fn parse_whole(text: &str) -> TreeTable {
        let text = padded(text);
        let written = DeTable::parse(&text).expect("valid");
        let begin = TextStart { source: 3, offset: 0 };
        convert_table(begin, written.get_ref())
    }

    /// A large text that begins with this one.
    fn padded(text: &str) -> String {
        let api = |n: u32| {
            format!(
                "[apis.pad-{n}]\nbase_url = \"https://pad.example\"\n\
                 groups.a.limits = [\"{n}/s\"]\n[apis.pad-{n}.retry]\ncount = 1\n"
            )
        };
        let padding = (0..4_000).map(api);
        let all: String = std::iter::once(text.to_owned()).chain(padding).collect();
        assert!(all.len() > MIN_LARGE + MIN_PART);
        all
    }

    // Other tables before, between and within the APIs; a header inside a text or a list is not one.
    #[test]
    fn parts_equal_the_whole_including_positions() {
        for text in [
            "",
            "[server]\nlisten = \"127.0.0.1:1\"\n",
            "a.b = 1\n[apis.x]\n[apis.x.groups.y]\n[log]\nlevel = 1\n",
            "[apis.\"q.r\"]\na = 1\n[apis.\"q.r\".b]\nc = 1\n",
            "x = '''\n[server]\n'''\ny = [\n[1],\n]\n",
        ] {
            let parts = parse_parts(text).expect("in parts");
            assert_eq!(format!("{parts:?}"), format!("{:?}", parse_whole(text)), "{text}");
        }
    }

    // A duplicate name, near or far; a reopened table; a syntax error; a header inside a text.
    #[test]
    fn a_text_that_cannot_be_split_is_parsed_as_a_whole() {
        for text in [
            "[apis.pad-3999]\na = 1\n",
            "[apis.pad-3999.a]\nb = 1\n",
            "apis.x.base_url = 1\n",
            "[apis]\n",
            "apis = 1\n",
            "[apis.x]\n[apis]\ny = 1\n",
            "[apis.x]\na = \n",
            "[[apis.x]]\n[[apis.x]]\na = '''\n",
            "x = '''\n[apis.y]\n'''\n",
        ] {
            assert!(parse_parts(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_small_text_is_parsed_as_a_whole() {
        assert!(parse_in_parts(0, "[apis.x]\na = 1\n", "apis").is_none());
    }
}
