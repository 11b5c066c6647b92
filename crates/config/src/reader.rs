//! Reads a table field by field, and reports the names that no reader asked for.
//!
//! The requested names are the schema: no second list can differ from them. A value that cannot be read
//! is reported and treated as absent, so that one error does not hide the next.

use std::cell::RefCell;

use secrecy::SecretString;

use super::collector::DiagnosticCollector;
use super::diagnostic::DiagnosticSeverity;
use super::redact::{show_key, show_name};
use super::secret::SecretKeys;
use super::suggest::nearest_name;
use super::tree::{SourceSpan, TreeEntry, TreeNode, TreeTable, TreeValue};

/// Reason why a value cannot be used.
#[derive(Debug)]
pub enum ValueError {
    /// A part of the value has been reported already.
    Reported,
    /// A fault that is not reported yet.
    Message {
        /// Error or warning.
        severity: DiagnosticSeverity,
        /// The fault.
        message: String,
        /// The remedy.
        help: Option<String>,
    },
}

impl ValueError {
    /// Creates an error.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_severity(DiagnosticSeverity::Error, message)
    }

    /// Creates a warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::with_severity(DiagnosticSeverity::Warning, message)
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        if let Self::Message { help, .. } = &mut self {
            *help = Some(text.into());
        }
        self
    }

    fn with_severity(severity: DiagnosticSeverity, message: impl Into<String>) -> Self {
        Self::Message {
            severity,
            message: message.into(),
            help: None,
        }
    }
}

/// A value with its key and the collector for its errors.
#[derive(Clone, Debug)]
pub struct FieldValue<'a> {
    collector: &'a DiagnosticCollector,
    /// The value and its position.
    pub node: &'a TreeNode,
    /// Its full key.
    pub key: String,
}

impl<'a> FieldValue<'a> {
    /// Reports an error at this value.
    pub fn report(&self, error: ValueError) {
        self.collector.report(self.node.at, &self.key, error);
    }

    /// Records this value as the origin of its key.
    pub fn record_origin(&self) {
        self.collector.record_origin(&self.key, Some(self.node.at));
    }

    pub(crate) fn record_file(&self, path: &str) {
        self.collector.add_file(path);
    }

    /// Returns true if the user, and not a preset, wrote this value.
    pub fn is_from_user(&self) -> bool {
        self.collector.is_from_user(self.node.at)
    }

    /// Returns a reader of this table that records no defaults: a configuration may have a hundred
    /// thousand groups.
    ///
    /// # Errors
    /// Returns an error if this is no table.
    pub fn table(&self) -> Result<TableReader<'a>, ValueError> {
        self.section().map(|table| TableReader {
            records_defaults: false,
            ..table
        })
    }

    /// Returns a reader of this table that also records each key whose default holds.
    ///
    /// # Errors
    /// Returns an error if this is no table.
    pub fn section(&self) -> Result<TableReader<'a>, ValueError> {
        match &self.node.value {
            TreeValue::Table(table) => {
                let reader = TableReader::new(self.collector, table, self.node.at, &self.key);
                Ok(reader)
            }
            other => Err(ValueError::new(format!(
                "a table is expected here, and this is {}",
                other.kind()
            ))),
        }
    }

    /// Returns the items of this list; any other value is a list of one.
    pub fn items(&self) -> Vec<FieldValue<'a>> {
        match &self.node.value {
            TreeValue::List(nodes) => nodes
                .iter()
                .enumerate()
                .map(|(at, node)| FieldValue {
                    collector: self.collector,
                    node,
                    key: format!("{}[{at}]", self.key),
                })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// Reads every item of this list and reports the errors of each.
    pub fn read_items<T>(&self, read: impl Fn(&FieldValue<'a>) -> Result<T, ValueError>) -> Vec<T> {
        let read = |item: &FieldValue<'a>| read(item).map_err(|error| item.report(error)).ok();
        self.items().iter().filter_map(read).collect()
    }
}

/// A table that is being read.
#[derive(Debug)]
pub struct TableReader<'a> {
    collector: &'a DiagnosticCollector,
    table: &'a TreeTable,
    at: SourceSpan,
    key: String,
    requested: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<SecretKeys>>,
    records_defaults: bool,
}

impl<'a> TableReader<'a> {
    pub(crate) fn new(collector: &'a DiagnosticCollector, table: &'a TreeTable, at: SourceSpan, key: &str) -> Self {
        Self {
            collector,
            table,
            at,
            key: key.to_owned(),
            requested: RefCell::default(),
            refused: RefCell::default(),
            records_defaults: true,
        }
    }

    /// Returns the value of a name, if there is one.
    pub fn field(&self, name: &'static str) -> Option<FieldValue<'a>> {
        self.expect_names(&[name]);
        self.table.entry(name).map(|entry| self.field_of(entry))
    }

    /// Reads the value of a name; `None` if it is absent or wrong.
    pub fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&FieldValue<'a>) -> Result<T, ValueError>,
    ) -> Option<T> {
        let field = self.field(name);
        let at = field.as_ref().map(|field| field.node.at);
        if at.is_some() || self.records_defaults {
            self.collector.record_origin(&self.key_of(name), at);
        }
        let field = field?;
        read(&field).map_err(|error| field.report(error)).ok()
    }

    /// Returns a reader of the table of a name, or of an empty one instead.
    #[must_use]
    pub fn section(&self, name: &'static str) -> TableReader<'a> {
        let field = self.field(name);
        let table = field.and_then(|field| field.section().map_err(|e| field.report(e)).ok());
        table.unwrap_or_else(|| TableReader::new(self.collector, EMPTY, self.at, &self.key_of(name)))
    }

    /// Returns a reader of the table of a name that is not part of the schema, or of an empty one.
    #[must_use]
    pub fn subtable(&self, name: &str) -> TableReader<'a> {
        let key = self.key_of(name);
        match self.table.entry(name).map(|entry| &entry.node) {
            Some(TreeNode { value, at }) => {
                let table = match value {
                    TreeValue::Table(table) => table,
                    _ => EMPTY,
                };
                TableReader::new(self.collector, table, *at, &key)
            }
            None => TableReader::new(self.collector, EMPTY, self.at, &key),
        }
    }

    /// Returns every entry, of any name.
    pub fn entries(&self) -> Vec<(&'a TreeEntry, FieldValue<'a>)> {
        let field = |entry| (entry, self.field_of(entry));
        self.table.iter().map(field).collect()
    }

    /// Reports an error at the value of a name, or at the table if the name is absent.
    pub fn report(&self, name: &str, error: ValueError) {
        let at = self.table.entry(name).map_or(self.at, |entry| entry.node.at);
        self.collector.report(at, &self.key_of(name), error);
    }

    /// Reports an error at the name of an entry.
    pub fn report_name(&self, entry: &TreeEntry, error: ValueError) {
        let key = self.key_of(&entry.name);
        self.collector.report(entry.at, &key, error);
    }

    /// Returns true if the name is present.
    pub fn has(&self, name: &str) -> bool {
        self.table.entry(name).is_some()
    }

    /// Returns the number of diagnostics so far, in the whole document.
    pub fn diagnostic_count(&self) -> usize {
        self.collector.count()
    }

    /// Adds names to the schema without reading them.
    pub fn expect_names(&self, names: &[&'static str]) {
        let mut requested = self.requested.borrow_mut();
        for name in names {
            if !requested.contains(name) {
                requested.push(name);
            }
        }
    }

    /// Reports every name that no reader asked for.
    pub fn finish(&self) {
        let requested = self.requested.borrow();
        for entry in self.table.iter() {
            if !requested.contains(&entry.name.as_str()) {
                self.collector.hide_value(&entry.node);
                let is_shown = self.collector.shows_name(entry.at);
                let name = if is_shown { entry.name.as_str() } else { HIDDEN_NAME };
                let error = self.unknown_key(name, &requested);
                self.collector.report(entry.at, &self.key_of(name), error);
            }
        }
    }

    /// Adds a name to the schema that is refused wherever it stands.
    pub(crate) fn refuse_inline(&self, keys: SecretKeys) -> Option<FieldValue<'a>> {
        self.refused.borrow_mut().push(keys);
        self.field(keys.inline)
    }

    /// Returns the error of an unknown key. A name that is always refused is no remedy, but the key of its
    /// variable is.
    fn unknown_key(&self, name: &str, requested: &[&'static str]) -> ValueError {
        let refused = self.refused.borrow();
        let of_secret = |name: &str| refused.iter().find(|keys| keys.inline == name);
        let known = requested.iter().copied().filter(|name| of_secret(name).is_none());
        let error = unknown_name("key", name, known);
        match nearest_name(name, requested.iter().copied()).and_then(of_secret) {
            Some(keys) => error.help(format!(
                "did you mean `{}`? It names the variable that holds the key; `{}` names a file",
                show_key(&self.key_of(keys.variable)),
                keys.file
            )),
            None => error,
        }
    }

    pub(crate) fn record_secret(&self, secret: &SecretString) {
        self.collector.add_secret(secret);
    }

    fn key_of(&self, name: &str) -> String {
        join_key(&self.key, name)
    }

    fn field_of(&self, entry: &'a TreeEntry) -> FieldValue<'a> {
        FieldValue {
            collector: self.collector,
            node: &entry.node,
            key: self.key_of(&entry.name),
        }
    }
}

/// Returns the error of a name that is not known, with the known name that is probably meant. Known names may
/// be a user's, so they are quoted only if they are plain, too.
pub fn unknown_name<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str>) -> ValueError {
    let error = ValueError::new(match show_name(name) {
        shown if shown == name => format!("unknown {kind} `{name}`"),
        _ => format!("this {kind} is unknown"),
    });
    let known: Vec<_> = known.filter(|known| show_name(known) == *known).collect();
    match nearest_name(name, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => match list_known(&known) {
            Some(all) => error.help(all),
            None => error,
        },
    }
}

/// Appends a name to a key, in quotes if the name needs them.
pub fn join_key(key: &str, name: &str) -> String {
    let bare = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    let mut joined = String::with_capacity(key.len() + name.len() + 1);
    if !key.is_empty() {
        joined.push_str(key);
        joined.push('.');
    }
    if !name.is_empty() && name.bytes().all(bare) {
        joined.push_str(name);
    } else {
        let shortened: String = name.chars().take(MAX_SHOWN_CHARS).collect();
        joined.extend(["\"", &shortened.escape_debug().to_string(), "\""]);
    }
    joined
}

fn list_known(known: &[&str]) -> Option<String> {
    match known {
        [] => None,
        [only] => Some(format!("only `{only}` is known")),
        [..] if known.len() > MAX_LISTED => None,
        [first @ .., last] => Some(format!("known are {} and {last}", first.join(", "))),
    }
}

/// Stands for a name that the excerpt hides; no message shows it.
const HIDDEN_NAME: &str = "?";

/// A longer list does not help a user to choose.
const MAX_LISTED: usize = 12;

/// Enough to recognise a name.
const MAX_SHOWN_CHARS: usize = 60;

static EMPTY: &TreeTable = &TreeTable::EMPTY;
