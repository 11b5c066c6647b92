//! The written values, each with its place, and how one text is laid over another.
//!
//! The obvious other way, reading each text into a type and merging the types, loses where a value
//! came from and what was left out. Here texts are merged as they were written, and read once. Tables
//! are laid over each other key by key; everything else, lists too, is replaced as a whole.

use toml::de::{DeTable, DeValue};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct TreeNode {
    pub(super) value: TreeValue,
    pub(super) at: SourceSpan,
}

/// A place: which source, and from where to where in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SourceSpan {
    pub(super) source: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What can be written.
#[derive(Clone, Debug)]
pub(super) enum TreeValue {
    Text(String),
    /// A whole number; `None` is one of more than 128 bits.
    Whole(Option<i128>),
    /// A number with a point, as it was written: 0.1 is exact in decimal and in nothing else.
    Decimal(String),
    Truth(bool),
    Date,
    List(Vec<TreeNode>),
    Table(TreeTable),
}

impl TreeValue {
    /// What it is called in a message.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Whole(_) => "a number",
            Self::Decimal(_) => "a number with a point",
            Self::Truth(_) => "a boolean",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Names and their values, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeTable {
    entries: Vec<TreeEntry>,
}

/// A name and its value.
#[derive(Clone, Debug)]
pub(super) struct TreeEntry {
    pub(super) name: String,
    pub(super) at: SourceSpan,
    pub(super) node: TreeNode,
}

impl TreeTable {
    pub(super) const EMPTY: Self = Self {
        entries: Vec::new(),
    };

    pub(super) fn iter(&self) -> impl Iterator<Item = &TreeEntry> {
        self.entries.iter()
    }

    pub(super) fn entry(&self, name: &str) -> Option<&TreeEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The table of this name, if it is one.
    pub(super) fn table(&self, name: &str) -> Option<&Self> {
        match &self.entry(name)?.node.value {
            TreeValue::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<TreeEntry> {
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at))
    }

    /// Puts an entry in the place of the one of its name, or at the end.
    pub(super) fn put(&mut self, entry: TreeEntry) {
        match self.entries.iter_mut().find(|old| old.name == entry.name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Adds entries of other names at the end.
    pub(super) fn append(&mut self, more: Self) {
        self.entries.extend(more.entries);
    }

    /// The entry at the end of some levels.
    pub(super) fn entry_at(&self, levels: &[&str]) -> Option<&TreeEntry> {
        match levels {
            [] => None,
            [name] => self.entry(name),
            [first, rest @ ..] => self.table(first)?.entry_at(rest),
        }
    }

    /// Takes the entry at the end of some levels away.
    pub(super) fn remove_at(&mut self, levels: &[&str]) -> Option<TreeEntry> {
        match levels {
            [] => None,
            [name] => self.remove(name),
            [first, rest @ ..] => match self.value_mut(first)? {
                TreeValue::Table(table) => table.remove_at(rest),
                _ => None,
            },
        }
    }

    pub(super) fn value_mut(&mut self, name: &str) -> Option<&mut TreeValue> {
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        Some(&mut entry.node.value)
    }

    /// Goes through the tables within the table of a name.
    pub(super) fn each_table(&mut self, name: &str, mut change: impl FnMut(&str, &mut Self)) {
        let Some(TreeValue::Table(outer)) = self.value_mut(name) else {
            return;
        };
        for entry in &mut outer.entries {
            if let TreeValue::Table(inner) = &mut entry.node.value {
                change(&entry.name, inner);
            }
        }
    }

    /// A value under some levels, each of them a table of one entry.
    pub(super) fn nested(levels: &[&str], node: TreeNode) -> Self {
        match levels {
            [] => Self::EMPTY,
            [name] => Self::new(name, node),
            [first, rest @ ..] => {
                let at = node.at;
                let value = TreeValue::Table(Self::nested(rest, node));
                Self::new(first, TreeNode { value, at })
            }
        }
    }

    /// A table of one entry, which stands where its value does.
    fn new(name: &str, node: TreeNode) -> Self {
        let (name, at) = (name.to_owned(), node.at);
        Self {
            entries: vec![TreeEntry { name, at, node }],
        }
    }

    /// Lays a table over this one, key by key and all the way down.
    pub(super) fn overlay(&mut self, over: Self) {
        self.overlay_by(over, Self::overlay);
    }

    /// Lays a table over this one; tables that meet are merged by `merge`.
    pub(super) fn overlay_by(&mut self, over: Self, merge: impl Fn(&mut Self, Self)) {
        for entry in over.entries {
            let below = self.entries.iter_mut().find(|old| old.name == entry.name);
            match (below.map(|old| &mut old.node.value), entry.node.value) {
                (Some(TreeValue::Table(below)), TreeValue::Table(above)) => merge(below, above),
                (_, value) => self.put(TreeEntry {
                    node: TreeNode {
                        value,
                        at: entry.node.at,
                    },
                    ..entry
                }),
            }
        }
    }
}

impl IntoIterator for TreeTable {
    type Item = TreeEntry;
    type IntoIter = std::vec::IntoIter<TreeEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// Where a text that is parsed begins: in which source, and how far in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStart {
    pub(super) source: usize,
    pub(super) offset: usize,
}

impl TextStart {
    /// At the beginning of a source.
    pub(super) const fn from_source(source: usize) -> Self {
        Self { source, offset: 0 }
    }
}

/// The table that was written from there on.
pub(super) fn table_of(begin: TextStart, written: &DeTable<'_>) -> TreeTable {
    // Room for these and no more: most tables are of one entry, and there may be very many.
    let mut entries = Vec::with_capacity(written.len());
    entries.extend(written.iter().map(|(name, value)| TreeEntry {
        name: name.get_ref().clone().into_owned(),
        at: at(begin, name.span()),
        node: node_of(begin, value),
    }));
    // The parser sorts by name; people expect their own order in lists of APIs and in messages.
    entries.sort_by_key(|entry| entry.at.start);
    TreeTable { entries }
}

/// The value that was written from there on.
pub(super) fn node_of(begin: TextStart, written: &toml::Spanned<DeValue<'_>>) -> TreeNode {
    let value = match written.get_ref() {
        DeValue::String(text) => TreeValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => {
            TreeValue::Whole(i128::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Float(number) => TreeValue::Decimal(number.as_str().to_owned()),
        DeValue::Boolean(truth) => TreeValue::Truth(*truth),
        DeValue::Datetime(_) => TreeValue::Date,
        DeValue::Array(items) => {
            TreeValue::List(items.iter().map(|item| node_of(begin, item)).collect())
        }
        DeValue::Table(table) => TreeValue::Table(table_of(begin, table)),
    };
    TreeNode {
        value,
        at: at(begin, written.span()),
    }
}

const fn at(begin: TextStart, span: std::ops::Range<usize>) -> SourceSpan {
    SourceSpan {
        source: begin.source,
        start: begin.offset + span.start,
        end: begin.offset + span.end,
    }
}
