//! Written values with their positions, and the merge of two tables.
//!
//! Reading each text into a type and merging the types would lose origins and absent keys. So texts are
//! merged as trees and read once. Tables merge key by key; every other value, lists too, is replaced.

use toml::de::{DeTable, DeValue};

/// A value and its position.
#[derive(Clone, Debug)]
pub struct TreeNode {
    /// The value.
    pub value: TreeValue,
    /// Its position.
    pub at: SourceSpan,
}

/// A range of bytes in one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceSpan {
    /// Number of the source.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

/// A value of any type.
#[derive(Clone, Debug)]
pub enum TreeValue {
    /// A string.
    Text(String),
    /// A whole number; `None` if it has more than 128 bits.
    Integer(Option<i128>),
    /// A number with a point, as written: 0.1 is exact in decimal only.
    Decimal(String),
    /// A boolean.
    Bool(bool),
    /// A date or time, which no key takes.
    Date,
    /// A list.
    List(Vec<TreeNode>),
    /// A table.
    Table(TreeTable),
}

impl TreeValue {
    /// Returns its type as named in messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a number",
            Self::Decimal(_) => "a number with a point",
            Self::Bool(_) => "a boolean",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Names and their values, in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct TreeTable {
    entries: Vec<TreeEntry>,
}

/// A name and its value.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// The name.
    pub name: String,
    /// Position of the name.
    pub at: SourceSpan,
    /// The value.
    pub node: TreeNode,
}

impl TreeTable {
    /// A table without entries.
    pub const EMPTY: Self = Self { entries: Vec::new() };

    /// Iterates over the entries.
    pub fn iter(&self) -> impl Iterator<Item = &TreeEntry> {
        self.entries.iter()
    }

    /// Returns the entry of a name.
    pub fn entry(&self, name: &str) -> Option<&TreeEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Returns the table of a name, if it is one.
    pub fn table(&self, name: &str) -> Option<&Self> {
        match &self.entry(name)?.node.value {
            TreeValue::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Removes and returns the entry of a name.
    pub fn remove(&mut self, name: &str) -> Option<TreeEntry> {
        let at = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(at))
    }

    /// Replaces the entry of the same name, or appends the entry.
    pub fn put(&mut self, entry: TreeEntry) {
        match self.entries.iter_mut().find(|old| old.name == entry.name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Appends entries of other names.
    pub(crate) fn append(&mut self, more: Self) {
        self.entries.extend(more.entries);
    }

    /// Returns the entry at a path.
    pub fn entry_at(&self, levels: &[&str]) -> Option<&TreeEntry> {
        match levels {
            [] => None,
            [name] => self.entry(name),
            [first, rest @ ..] => self.table(first)?.entry_at(rest),
        }
    }

    /// Removes and returns the entry at a path.
    pub fn remove_at(&mut self, levels: &[&str]) -> Option<TreeEntry> {
        match levels {
            [] => None,
            [name] => self.remove(name),
            [first, rest @ ..] => match self.value_mut(first)? {
                TreeValue::Table(table) => table.remove_at(rest),
                _ => None,
            },
        }
    }

    /// Returns the value of a name for changing.
    pub fn value_mut(&mut self, name: &str) -> Option<&mut TreeValue> {
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        Some(&mut entry.node.value)
    }

    /// Calls `change` with each table within the table of a name.
    pub fn each_table(&mut self, name: &str, mut change: impl FnMut(&str, &mut Self)) {
        let Some(TreeValue::Table(outer)) = self.value_mut(name) else {
            return;
        };
        for entry in &mut outer.entries {
            if let TreeValue::Table(inner) = &mut entry.node.value {
                change(&entry.name, inner);
            }
        }
    }

    /// Creates a value at a path, each level a table of one entry.
    pub fn nested(levels: &[&str], node: TreeNode) -> Self {
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

    /// Creates a table of one entry, at the position of its value.
    fn new(name: &str, node: TreeNode) -> Self {
        let (name, at) = (name.to_owned(), node.at);
        Self {
            entries: vec![TreeEntry { name, at, node }],
        }
    }

    /// Lays a table over this one, key by key at every level.
    pub fn overlay(&mut self, over: Self) {
        self.overlay_with(over, Self::overlay);
    }

    /// Lays a table over this one; `merge` merges two tables of the same name.
    pub fn overlay_with(&mut self, over: Self, merge: impl Fn(&mut Self, Self)) {
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

/// Start of a parsed text: its source and its offset there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStart {
    pub(crate) source: usize,
    pub(crate) offset: usize,
}

impl TextStart {
    /// Creates the start of a source.
    pub(crate) const fn from_source(source: usize) -> Self {
        Self { source, offset: 0 }
    }
}

/// Converts a parsed table.
pub(crate) fn convert_table(begin: TextStart, written: &DeTable<'_>) -> TreeTable {
    // Exact capacity: most tables have one entry, and a configuration may have very many tables.
    let mut entries = Vec::with_capacity(written.len());
    entries.extend(written.iter().map(|(name, value)| TreeEntry {
        name: name.get_ref().clone().into_owned(),
        at: span_from(begin, name.span()),
        node: convert_node(begin, value),
    }));
    // The parser sorts by name; users expect their own order in lists of APIs and in messages.
    entries.sort_by_key(|entry| entry.at.start);
    TreeTable { entries }
}

/// Converts a parsed value.
pub(crate) fn convert_node(begin: TextStart, written: &toml::Spanned<DeValue<'_>>) -> TreeNode {
    let value = match written.get_ref() {
        DeValue::String(text) => TreeValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => TreeValue::Integer(i128::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Float(number) => TreeValue::Decimal(number.as_str().to_owned()),
        DeValue::Boolean(value) => TreeValue::Bool(*value),
        DeValue::Datetime(_) => TreeValue::Date,
        DeValue::Array(items) => TreeValue::List(items.iter().map(|item| convert_node(begin, item)).collect()),
        DeValue::Table(table) => TreeValue::Table(convert_table(begin, table)),
    };
    TreeNode {
        value,
        at: span_from(begin, written.span()),
    }
}

const fn span_from(begin: TextStart, span: std::ops::Range<usize>) -> SourceSpan {
    SourceSpan {
        source: begin.source,
        start: begin.offset + span.start,
        end: begin.offset + span.end,
    }
}
