//! Reads a table field by field, and knows afterwards which names nobody asked for.
//!
//! The names that are asked for are the schema: there is no second list that could differ from it. A
//! value that is wrong is noted and read as if it had been left out, so that one mistake does not hide
//! the next.

use std::cell::RefCell;

use super::collector::DiagnosticCollector;
use super::diagnostic::DiagnosticSeverity;
use super::suggest::nearest;
use super::tree::{SourceSpan, TreeEntry, TreeNode, TreeTable, TreeValue};

/// What is wrong with a value.
#[derive(Debug)]
pub(super) enum ValueError {
    /// It has been told already, further down.
    Told,
    /// This is.
    Said {
        severity: DiagnosticSeverity,
        message: String,
        help: Option<String>,
    },
}

impl ValueError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Said {
            severity: DiagnosticSeverity::Error,
            message: message.into(),
            help: None,
        }
    }

    /// What to do about it, in words.
    pub(super) fn advice(self) -> String {
        match self {
            Self::Said { message, help, .. } => help.unwrap_or(message),
            Self::Told => String::new(),
        }
    }

    pub(super) fn warning(message: impl Into<String>) -> Self {
        Self::Said {
            severity: DiagnosticSeverity::Warning,
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn help(self, text: impl Into<String>) -> Self {
        match self {
            Self::Told => Self::Told,
            Self::Said {
                severity, message, ..
            } => Self::Said {
                severity,
                message,
                help: Some(text.into()),
            },
        }
    }
}

/// A value, the key it is under, and where to say what is wrong with it.
#[derive(Clone, Debug)]
pub(super) struct FieldValue<'a> {
    pub(super) book: &'a DiagnosticCollector,
    pub(super) node: &'a TreeNode,
    pub(super) key: String,
}

impl<'a> FieldValue<'a> {
    /// Notes what is wrong here.
    pub(super) fn report(&self, wrong: ValueError) {
        self.book.report(self.node.at, &self.key, wrong);
    }

    /// The table that this is. What it leaves out is not noted: there may be a hundred thousand groups,
    /// and nobody asks where their silence came from.
    pub(super) fn fields(&self) -> Result<TableReader<'a>, ValueError> {
        self.section().map(|fields| TableReader {
            silence: MissingKey::Ignored,
            ..fields
        })
    }

    /// The table that this is, as one of which every key can be asked for.
    pub(super) fn section(&self) -> Result<TableReader<'a>, ValueError> {
        match &self.node.value {
            TreeValue::Table(table) => {
                Ok(TableReader::new(self.book, table, self.node.at, &self.key))
            }
            other => Err(ValueError::new(format!(
                "a table is expected here, and this is {}",
                other.kind()
            ))),
        }
    }

    /// The items of the list that this is; one value alone is a list of it.
    pub(super) fn items(&self) -> Vec<FieldValue<'a>> {
        match &self.node.value {
            TreeValue::List(nodes) => nodes
                .iter()
                .enumerate()
                .map(|(at, node)| FieldValue {
                    book: self.book,
                    node,
                    key: format!("{}[{at}]", self.key),
                })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// Reads every item of the list that this is, and tells what is wrong with each.
    pub(super) fn each<T>(
        &self,
        read: impl Fn(&FieldValue<'a>) -> Result<T, ValueError>,
    ) -> Vec<T> {
        let read = |item: &FieldValue<'a>| read(item).map_err(|wrong| item.report(wrong)).ok();
        self.items().iter().filter_map(read).collect()
    }
}

/// A table that is being read.
#[derive(Debug)]
pub(super) struct TableReader<'a> {
    book: &'a DiagnosticCollector,
    table: &'a TreeTable,
    pub(super) at: SourceSpan,
    pub(super) key: String,
    asked: RefCell<Vec<&'static str>>,
    silence: MissingKey,
}

/// What becomes of a key that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MissingKey {
    /// It is noted as one whose default holds.
    Noted,
    /// It is not.
    Ignored,
}

impl<'a> TableReader<'a> {
    pub(super) fn new(
        book: &'a DiagnosticCollector,
        table: &'a TreeTable,
        at: SourceSpan,
        key: &str,
    ) -> Self {
        Self {
            book,
            table,
            at,
            key: key.to_owned(),
            asked: RefCell::default(),
            silence: MissingKey::Noted,
        }
    }

    /// The value of a name, if there is one.
    pub(super) fn item(&self, name: &'static str) -> Option<FieldValue<'a>> {
        self.asked.borrow_mut().push(name);
        self.table.entry(name).map(|entry| self.item_of(entry))
    }

    /// What `read` makes of the value of a name; `None` if it is not there or wrong.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&FieldValue<'a>) -> Result<T, ValueError>,
    ) -> Option<T> {
        let item = self.item(name);
        let at = item.as_ref().map(|item| item.node.at);
        if at.is_some() || self.silence == MissingKey::Noted {
            self.book.note(&self.key_of(name), at);
        }
        let item = item?;
        read(&item).map_err(|wrong| item.report(wrong)).ok()
    }

    /// The table of a name, or an empty one in its place.
    pub(super) fn section(&self, name: &'static str) -> TableReader<'a> {
        let item = self.item(name);
        let fields = item.and_then(|item| item.section().map_err(|wrong| item.report(wrong)).ok());
        fields.unwrap_or_else(|| TableReader::new(self.book, EMPTY, self.at, &self.key_of(name)))
    }

    /// The table of a name that is not part of the schema, or an empty one in its place.
    pub(super) fn section_of(&self, name: &str) -> TableReader<'a> {
        let key = self.key_of(name);
        match self
            .table
            .entry(name)
            .map(|entry| (&entry.node.value, entry.node.at))
        {
            Some((TreeValue::Table(table), at)) => TableReader::new(self.book, table, at, &key),
            Some((_, at)) => TableReader::new(self.book, EMPTY, at, &key),
            None => TableReader::new(self.book, EMPTY, self.at, &key),
        }
    }

    /// Every entry, whatever its name.
    pub(super) fn entries(&self) -> Vec<(&'a TreeEntry, FieldValue<'a>)> {
        let item = |entry| (entry, self.item_of(entry));
        self.table.iter().map(item).collect()
    }

    /// Notes what is wrong with the value of a name, or with the table if it is not there.
    pub(super) fn tell(&self, name: &str, wrong: ValueError) {
        let at = self
            .table
            .entry(name)
            .map_or(self.at, |entry| entry.node.at);
        self.book.report(at, &self.key_of(name), wrong);
    }

    /// True if the name is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.entry(name).is_some()
    }

    pub(super) fn key_of(&self, name: &str) -> String {
        joined(&self.key, name)
    }

    pub(super) const fn book(&self) -> &'a DiagnosticCollector {
        self.book
    }

    /// Tells of every name that nobody asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for entry in self.table.iter() {
            if !asked.contains(&entry.name.as_str()) {
                let wrong = unknown("key", &entry.name, asked.iter().copied());
                self.book.report(entry.at, &self.key_of(&entry.name), wrong);
            }
        }
    }

    fn item_of(&self, entry: &'a TreeEntry) -> FieldValue<'a> {
        FieldValue {
            book: self.book,
            node: &entry.node,
            key: self.key_of(&entry.name),
        }
    }
}

/// A name that is none of those known, with the one that it may have been meant to be.
pub(super) fn unknown<'n>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> ValueError {
    let wrong = ValueError::new(format!("unknown {what} `{}`", printable(name)));
    match nearest(name, known.clone()) {
        Some(near) => wrong.help(format!("did you mean `{near}`?")),
        None => match listed(known) {
            Some(all) => wrong.help(all),
            None => wrong,
        },
    }
}

/// A key one level down, in quotes if its name needs them.
pub(super) fn joined(key: &str, name: &str) -> String {
    let bare = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    let mut joined = String::with_capacity(key.len() + name.len() + 1);
    if !key.is_empty() {
        joined.push_str(key);
        joined.push('.');
    }
    if !name.is_empty() && name.bytes().all(bare) {
        joined.push_str(name);
    } else {
        joined.extend(["\"", &printable(name), "\""]);
    }
    joined
}

/// A name as it can be shown: short, and without the controls that could steer a terminal.
pub(super) fn printable(name: &str) -> String {
    let shown: String = name.chars().take(LONGEST_SHOWN).collect();
    shown.escape_debug().to_string()
}

fn listed<'n>(known: impl Iterator<Item = &'n str>) -> Option<String> {
    let known: Vec<_> = known.collect();
    match known.as_slice() {
        [] => None,
        [only] => Some(format!("only `{only}` is known")),
        [..] if known.len() > MOST_LISTED => None,
        [first @ .., last] => Some(format!("known are {} and {last}", first.join(", "))),
    }
}

/// A list of more names says less than none.
const MOST_LISTED: usize = 12;

/// Enough to recognise a name by.
const LONGEST_SHOWN: usize = 60;

static EMPTY: &TreeTable = &TreeTable::EMPTY;
