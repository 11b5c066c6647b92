//! Where each value in effect came from.
//!
//! Four texts may speak of the same key, and "why is it ten seconds?" is the first question of anyone
//! who looks at a running program. The answer is kept while reading, because afterwards nobody knows.

use std::fmt;
use std::sync::Arc;

use super::source::SourceKind;
use super::value_notes::{KeyNotes, NotePlace};

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueOrigin {
    /// Nobody said anything.
    Default,
    /// A preset said it.
    Preset {
        /// The preset.
        name: String,
        /// The line in it.
        line: usize,
    },
    /// A text said it.
    Text {
        /// The file's name, as a rule.
        name: String,
        /// The line in it.
        line: usize,
    },
    /// A variable of the environment said it.
    Environment {
        /// The variable.
        variable: String,
    },
    /// Somebody set it while the program runs.
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

/// The origin of every key that was written, and of every key of an API or the program that was not.
///
/// ```
/// use outflow::config::{Config, Environment, Source};
///
/// let text = "[apis.stock]\nbase_url = \"https://stock.example\"\n";
/// let config = Config::read(&[Source::new("outflow.toml", text)], &Environment::empty())?;
/// let origin = |key| config.origins.of(key).unwrap().to_string();
/// assert_eq!(origin("apis.stock.base_url"), "outflow.toml:2");
/// assert_eq!(origin("apis.stock.timeout"), "default");
/// let written = config.origins.written("apis.stock.base_url");
/// assert_eq!(written, Some("\"https://stock.example\""));
/// # Ok::<(), outflow::config::Mistakes>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValueOrigins {
    kept: Arc<OriginTable>,
}

/// What all clones share: nobody changes it after the reading.
#[derive(PartialEq, Eq, Debug, Default)]
struct OriginTable {
    notes: KeyNotes,
    /// Every source that was read; many keys share one name.
    sources: Vec<(SourceKind, String)>,
}

impl ValueOrigins {
    /// Where the value of a key came from; `None` if there is no such key.
    pub fn get(&self, key: &str) -> Option<ValueOrigin> {
        let noted = self.kept.notes.find(key)?;
        Some(self.origin(noted.place))
    }

    /// Every key and its origin, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ValueOrigin)> {
        let notes = self.kept.notes.iter();
        notes.map(|noted| (noted.key, self.origin(noted.place)))
    }

    /// The value of a key as it was written, on one line and without secrets; `None` where nobody wrote
    /// one and the default holds.
    pub fn written(&self, key: &str) -> Option<&str> {
        let noted = self.kept.notes.find(key)?;
        (noted.place != NotePlace::Nowhere).then_some(noted.written)
    }

    /// What was noted while these sources were read.
    pub(super) fn new(notes: KeyNotes, sources: Vec<(SourceKind, String)>) -> Self {
        let notes = notes.in_order();
        Self {
            kept: Arc::new(OriginTable { notes, sources }),
        }
    }

    fn origin(&self, place: NotePlace) -> ValueOrigin {
        let NotePlace::Line { source, line } = place else {
            return ValueOrigin::Default;
        };
        let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (source, line) = (whole(source), whole(line));
        let Some((kind, name)) = self.kept.sources.get(source) else {
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
