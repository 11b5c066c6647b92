//! What is noted of each key while a configuration is read: where its value stands, and how it was
//! written there.
//!
//! One text holds all keys and values, and a note is five small numbers. A map with a key and a value of
//! its own for each note would take three times as much, for as long as the program runs, and there may
//! be a hundred thousand groups.

use std::cmp::Ordering;

/// Notes, found by their keys once they are in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KeyNotes {
    text: String,
    list: Vec<KeyNote>,
}

/// One key: where in the text it begins, where it ends and its value begins, and where that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeyNote {
    key: u32,
    written: u32,
    end: u32,
    place: NotePlace,
}

/// A line of a source, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotePlace {
    Nowhere,
    Line { source: u32, line: u32 },
}

/// A key, where its value was written and how, if it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotedKey<'a> {
    pub(super) key: &'a str,
    pub(super) place: NotePlace,
    /// With stars in the place of what may be a key.
    pub(super) written: &'a str,
}

impl KeyNotes {
    /// Takes a note, which holds in the place of one of the same key.
    pub(super) fn add(&mut self, noted: NotedKey<'_>) {
        let key = self.here();
        self.text.push_str(noted.key);
        let written = self.here();
        self.text.push_str(noted.written);
        self.list.push(KeyNote {
            key,
            written,
            end: self.here(),
            place: noted.place,
        });
    }

    /// The same in the order of their keys, of each key the latest.
    pub(super) fn in_order(mut self) -> Self {
        let Self { text, list } = &mut self;
        let key = |note: &KeyNote| part(text, note.key, note.written);
        list.sort_unstable_by(|one, other| {
            let latest_first = other.end.cmp(&one.end);
            key(one).cmp(key(other)).then(latest_first)
        });
        list.dedup_by(|one, other| key(one) == key(other));
        list.shrink_to_fit();
        text.shrink_to_fit();
        self
    }

    /// What was noted of a key.
    pub(super) fn find(&self, key: &str) -> Option<NotedKey<'_>> {
        let compare = |note: &KeyNote| -> Ordering { self.read(note).key.cmp(key) };
        let place = self.list.binary_search_by(compare).ok()?;
        self.list.get(place).map(|note| self.read(note))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NotedKey<'_>> {
        self.list.iter().map(|note| self.read(note))
    }

    fn read(&self, note: &KeyNote) -> NotedKey<'_> {
        NotedKey {
            key: part(&self.text, note.key, note.written),
            place: note.place,
            written: part(&self.text, note.written, note.end),
        }
    }

    /// Where the text ends. No configuration of four gibibytes was ever parsed.
    fn here(&self) -> u32 {
        u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }
}

fn part(text: &str, from: u32, to: u32) -> &str {
    let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    text.get(place(from)..place(to)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32) -> NotePlace {
        NotePlace::Line { source: 0, line }
    }

    // Out of order, one key twice, and one that is the beginning of another.
    #[test]
    fn the_latest_note_of_a_key_is_found_whatever_the_order() {
        let mut notes = KeyNotes::default();
        for (key, place, written) in [
            ("b.c", line(1), "1"),
            ("a", line(2), "2"),
            ("b", NotePlace::Nowhere, ""),
            ("a", line(3), "[ 3 ]"),
        ] {
            notes.add(NotedKey {
                key,
                place,
                written,
            });
        }
        let notes = notes.in_order();
        let keys: Vec<_> = notes.iter().map(|noted| noted.key).collect();
        assert_eq!(keys, ["a", "b", "b.c"]);
        let latest = notes.find("a").expect("noted");
        assert_eq!((latest.place, latest.written), (line(3), "[ 3 ]"));
        assert_eq!(notes.find("c"), None);
    }
}
