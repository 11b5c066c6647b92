//! Position and written form of each key's value.
//!
//! One string holds all keys and values, and a note is five small numbers. A map with a string per key
//! and value would need three times the memory for the life of the process, with a hundred thousand
//! groups.

use std::cmp::Ordering;

/// Notes, searchable by key after [`KeyNotes::into_sorted`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeyNotes {
    text: String,
    list: Vec<KeyNote>,
}

/// One note: offset of the key, end of the key and offset of the value, end of the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeyNote {
    key: u32,
    written: u32,
    end: u32,
    place: NotePlace,
}

/// A line of a source, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotePlace {
    Nowhere,
    Line { source: u32, line: u32 },
}

/// A key with the position and written form of its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotedKey<'a> {
    pub(crate) key: &'a str,
    pub(crate) place: NotePlace,
    /// Redacted.
    pub(crate) written: &'a str,
}

impl KeyNotes {
    /// Adds a note; it replaces an earlier one of the same key.
    pub(crate) fn add(&mut self, noted: NotedKey<'_>) {
        let key = self.text_end();
        self.text.push_str(noted.key);
        let written = self.text_end();
        self.text.push_str(noted.written);
        self.list.push(KeyNote {
            key,
            written,
            end: self.text_end(),
            place: noted.place,
        });
    }

    /// Sorts the notes by key and keeps the latest of each key.
    pub(crate) fn into_sorted(mut self) -> Self {
        let Self { text, list } = &mut self;
        let key = |note: &KeyNote| slice(text, note.key, note.written);
        list.sort_unstable_by(|one, other| {
            let latest_first = other.end.cmp(&one.end);
            key(one).cmp(key(other)).then(latest_first)
        });
        list.dedup_by(|one, other| key(one) == key(other));
        list.shrink_to_fit();
        text.shrink_to_fit();
        self
    }

    /// Returns the note of a key.
    pub(crate) fn find(&self, key: &str) -> Option<NotedKey<'_>> {
        let compare = |note: &KeyNote| -> Ordering { self.read(note).key.cmp(key) };
        let place = self.list.binary_search_by(compare).ok()?;
        self.list.get(place).map(|note| self.read(note))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = NotedKey<'_>> {
        self.list.iter().map(|note| self.read(note))
    }

    fn read(&self, note: &KeyNote) -> NotedKey<'_> {
        NotedKey {
            key: slice(&self.text, note.key, note.written),
            place: note.place,
            written: slice(&self.text, note.written, note.end),
        }
    }

    /// Returns the end of the text. No parsed configuration reaches four gibibytes.
    fn text_end(&self) -> u32 {
        u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }
}

fn slice(text: &str, from: u32, to: u32) -> &str {
    let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    text.get(place(from)..place(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32) -> NotePlace {
        NotePlace::Line { source: 0, line }
    }

    // Not sorted, one key twice, and one key that is a prefix of another.
    #[test]
    fn the_latest_note_of_a_key_is_found_in_any_order() {
        let mut notes = KeyNotes::default();
        for (key, place, written) in [
            ("b.c", line(1), "1"),
            ("a", line(2), "2"),
            ("b", NotePlace::Nowhere, ""),
            ("a", line(3), "[ 3 ]"),
        ] {
            notes.add(NotedKey { key, place, written });
        }
        let notes = notes.into_sorted();
        let keys: Vec<_> = notes.iter().map(|noted| noted.key).collect();
        assert_eq!(keys, ["a", "b", "b.c"]);
        let latest = notes.find("a").expect("noted");
        assert_eq!((latest.place, latest.written), (line(3), "[ 3 ]"));
        assert_eq!(notes.find("c"), None);
    }
}
