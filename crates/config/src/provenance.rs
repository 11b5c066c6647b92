//! Origin of each value in effect.
//!
//! Several layers may set the same key, and an operator asks first why a timeout is ten seconds. The
//! origin is recorded while reading, because the values alone do not contain it.

use std::fmt;
use std::sync::Arc;

use super::source::SourceKind;
use super::value_notes::{KeyNotes, NotePlace};

/// Origin of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueOrigin {
    /// No layer sets it.
    Default,
    /// A preset sets it.
    Preset {
        /// Name of the preset.
        name: String,
        /// Line in it.
        line: usize,
    },
    /// A text sets it.
    Text {
        /// Name of the text, usually a file's.
        name: String,
        /// Line in it.
        line: usize,
    },
    /// A variable of the environment sets it.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// An operator set it while the program runs.
    Runtime,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset { name, line } => write!(f, "preset {name}:{line}"),
            Self::Text { name, line } => write!(f, "{name}:{line}"),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Runtime => f.write_str("runtime"),
        }
    }
}

/// Origins of all written keys, and of all keys of APIs and sections that are not written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValueOrigins {
    table: Arc<OriginTable>,
}

/// The part that all clones share; it does not change after the reading.
#[derive(PartialEq, Eq, Debug, Default)]
struct OriginTable {
    notes: KeyNotes,
    /// All sources; many keys share the name of one.
    sources: Vec<(SourceKind, String)>,
}

impl ValueOrigins {
    /// Returns the origin of a key's value; `None` if there is no such key.
    pub fn get(&self, key: &str) -> Option<ValueOrigin> {
        let noted = self.table.notes.find(key)?;
        Some(self.origin(noted.place))
    }

    /// Iterates over all keys and their origins, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ValueOrigin)> {
        let notes = self.table.notes.iter();
        notes.map(|noted| (noted.key, self.origin(noted.place)))
    }

    /// Returns the written value of a key, on one line and redacted; `None` if the default holds.
    pub fn written(&self, key: &str) -> Option<&str> {
        let noted = self.table.notes.find(key)?;
        (noted.place != NotePlace::Nowhere).then_some(noted.written)
    }

    pub(crate) fn new(notes: KeyNotes, sources: Vec<(SourceKind, String)>) -> Self {
        let notes = notes.into_sorted();
        Self {
            table: Arc::new(OriginTable { notes, sources }),
        }
    }

    fn origin(&self, place: NotePlace) -> ValueOrigin {
        let NotePlace::Line { source, line } = place else {
            return ValueOrigin::Default;
        };
        let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (source, line) = (wide(source), wide(line));
        let Some((kind, name)) = self.table.sources.get(source) else {
            return ValueOrigin::Default;
        };
        let name = name.clone();
        match kind {
            SourceKind::Text => ValueOrigin::Text { name, line },
            SourceKind::Preset => ValueOrigin::Preset { name, line },
            SourceKind::Variable => ValueOrigin::Environment { variable: name },
            SourceKind::Runtime => ValueOrigin::Runtime,
        }
    }
}
