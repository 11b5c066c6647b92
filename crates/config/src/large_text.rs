//! A large text, parsed in pieces.
//!
//! The parser takes a kilobyte for each table and as much again for its words. Of a text with a hundred
//! thousand groups that is more than all that comes of it, and memory that was taken for a moment is
//! full of holes afterwards and never given back. So a large text is cut before the headers of APIs, and
//! each piece is parsed as the document that it is.
//!
//! Nothing is decided here about what a text means: with one mistake in a piece, or two pieces that speak
//! of the same table, all of it is left to the parser, which sees the text as a whole.

use std::collections::HashSet;
use std::ops::Range;

use toml::de::DeTable;

use super::tree::{TextStart, TreeTable, TreeValue, table_of};

/// The table of a text; `None` if it is small, or better parsed as a whole.
pub(super) fn parsed(source: usize, text: &str) -> Option<TreeTable> {
    if text.len() < LARGE {
        return None;
    }
    let (head, pieces) = cut(text, PIECE);
    let mut root = table(source, text, head)?;
    if root.entry(APIS).is_some() {
        return None;
    }
    for piece in pieces {
        let begin = piece.start;
        join(&mut root, table(source, text, piece)?, begin)?;
    }
    let apis = root.table(APIS)?;
    let distinct: HashSet<&str> = apis.iter().map(|api| api.name.as_str()).collect();
    (distinct.len() == apis.iter().count()).then_some(root)
}

fn table(source: usize, text: &str, piece: Range<usize>) -> Option<TreeTable> {
    let begin = TextStart {
        source,
        offset: piece.start,
    };
    let written = DeTable::parse(text.get(piece)?).ok()?;
    Some(table_of(begin, written.get_ref()))
}

/// What comes before the first API, and pieces of about `size` bytes that each begin with the header of
/// one. An API is not cut: what follows under its name stays with it.
fn cut(text: &str, size: usize) -> (Range<usize>, Vec<Range<usize>>) {
    let mut begins: Vec<usize> = Vec::new();
    let mut last = "";
    for (at, _) in text.match_indices(HEADER) {
        let name = text.get(at + HEADER.len()..).unwrap_or_default();
        let name = name.split(['.', ']']).next().unwrap_or_default();
        let is_header = at == 0 || text.get(..at).is_some_and(|before| before.ends_with('\n'));
        let is_full = begins.last().is_none_or(|begin| at - begin >= size);
        if is_header && is_full && name != last {
            begins.push(at);
        }
        if is_header {
            last = name;
        }
    }
    let ends = begins.iter().copied().skip(1).chain([text.len()]);
    let pieces = begins.iter().copied().zip(ends);
    let head = begins.first().copied().unwrap_or(text.len());
    (0..head, pieces.map(|(from, to)| from..to).collect())
}

/// Adds what a piece says to what the ones before it said; `None` if both speak of the same table.
fn join(root: &mut TreeTable, piece: TreeTable, begin: usize) -> Option<()> {
    for entry in piece {
        // Where the table of all APIs has a header of its own, it is there and not in ours.
        if entry.name == APIS && entry.at.start != begin + 1 {
            return None;
        }
        let Some(known) = root.value_mut(&entry.name) else {
            root.put(entry);
            continue;
        };
        match (known, entry.node.value) {
            (TreeValue::Table(apis), TreeValue::Table(more)) if entry.name == APIS => {
                apis.append(more)
            }
            _ => return None,
        }
    }
    Some(())
}

const APIS: &str = "apis";

/// How the header of an API begins.
const HEADER: &str = "[apis.";

/// Texts that people write are smaller, and cost nothing worth saving.
const LARGE: usize = 256 * 1024;

/// A hundred pieces of the largest texts: what one of them takes is a few megabytes.
const PIECE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(text: &str) -> Option<TreeTable> {
        let text = padded(text);
        parsed(3, &text)
    }

    fn whole(text: &str) -> TreeTable {
        let text = padded(text);
        let written = DeTable::parse(&text).expect("valid");
        let begin = TextStart {
            source: 3,
            offset: 0,
        };
        table_of(begin, written.get_ref())
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
        assert!(all.len() > LARGE + PIECE);
        all
    }

    // Before the APIs, between them and within them; headers in a text and in a list are none.
    #[test]
    fn pieces_say_what_the_whole_says_and_where() {
        for text in [
            "",
            "[server]\nlisten = \"127.0.0.1:1\"\n",
            "a.b = 1\n[apis.x]\n[apis.x.groups.y]\n[log]\nlevel = 1\n",
            "[apis.\"q.r\"]\na = 1\n[apis.\"q.r\".b]\nc = 1\n",
            "x = '''\n[server]\n'''\ny = [\n[1],\n]\n",
        ] {
            let pieces = in_pieces(text).expect("in pieces");
            assert_eq!(
                format!("{pieces:?}"),
                format!("{:?}", whole(text)),
                "{text}"
            );
        }
    }

    // A name twice, at once or far apart; a table that is reopened; a mistake; a cut that is none.
    #[test]
    fn what_pieces_could_get_wrong_is_parsed_as_a_whole() {
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
            assert!(in_pieces(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_small_text_is_parsed_as_a_whole() {
        assert!(parsed(0, "[apis.x]\na = 1\n").is_none());
    }
}
