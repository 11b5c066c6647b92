//! Lays texts, presets and the environment over each other.
//!
//! From the bottom: the preset, the texts in their order, the environment, what was set while the program
//! runs. What is laid over speaks last. Two keys that say the same thing in two ways are rivals: the upper one takes the lower one
//! away, so that `rate_limit_per_sec` over a preset's `limits` is one limit and not two.

use toml::de::DeTable;

use super::collector::DiagnosticCollector;
use super::environment::{EnvVariable, Environment};
use super::nesting_limit::too_deep;
use super::pieces;
use super::reader::{ValueError, joined, unknown};
use super::source::{Source, SourceKind};
use super::syntax_hints;
use super::tree::{SourceSpan, TextStart, TreeEntry, TreeNode, TreeTable, TreeValue, table_of};
use crate::preset::Preset;

/// All layers as one table.
pub(super) fn merged(
    sources: &[Source],
    environment: &Environment,
    book: &DiagnosticCollector,
) -> TreeTable {
    let mut root = TreeTable::EMPTY;
    let over_all = |source: &&Source| source.kind() == SourceKind::Runtime;
    for source in sources.iter().filter(|source| !over_all(source)) {
        overlay_root(&mut root, parsed(source, book));
    }
    let variables = environment.overrides(book);
    let (presets, others): (Vec<_>, Vec<_>) =
        variables.into_iter().partition(EnvVariable::names_a_preset);
    for variable in presets {
        let over = variable.into_table(&root);
        overlay_root(&mut root, over);
    }
    lay_presets_under(&mut root, book);
    for variable in environment.operating(&root, book).into_iter().chain(others) {
        let over = variable.into_table(&root);
        overlay_root(&mut root, canonical(over, book));
    }
    for source in sources.iter().filter(over_all) {
        overlay_root(&mut root, parsed(source, book));
    }
    root
}

/// The table of a source, and a mistake for everything in it that does not parse.
fn parsed(source: &Source, book: &DiagnosticCollector) -> TreeTable {
    let number = book.add(source.clone());
    if let Some(start) = too_deep(source.text()) {
        let at = SourceSpan {
            source: number,
            start,
            end: start + 1,
        };
        let wrong = ValueError::new("no key has so many parts");
        book.report(at, "", wrong.help("nothing of this text was read"));
        return TreeTable::EMPTY;
    }
    if let Some(table) = pieces::parsed(number, source.text()) {
        return canonical(table, book);
    }
    let (table, errors) = DeTable::parse_recoverable(source.text());
    for error in errors {
        let span = error.span().unwrap_or_default();
        let at = SourceSpan {
            source: number,
            start: span.start,
            end: span.end,
        };
        book.doubt(
            number,
            syntax_hints::doubtful_lines(source.text(), at.start),
        );
        book.report(
            at,
            "",
            syntax_hints::explain_syntax(source.text(), span, error.message()),
        );
    }
    canonical(
        table_of(TextStart::from_source(number), table.get_ref()),
        book,
    )
}

/// The same table with each key under its one name.
fn canonical(mut root: TreeTable, book: &DiagnosticCollector) -> TreeTable {
    root.each_table("apis", |name, api| {
        let prefix = joined("apis", name);
        rename(
            api,
            &["health_scope"],
            &["health", "scope"],
            (book, &prefix),
        );
        rename(api, &["tls"], &["trust"], (book, &prefix));
        rename(
            api,
            &["health", "concurrency"],
            &["concurrency"],
            (book, &prefix),
        );
        rename(
            api,
            &["health", "sem_base"],
            &["concurrency"],
            (book, &prefix),
        );
    });
    root
}

/// Moves a value to the key that it is another name of.
fn rename(api: &mut TreeTable, from: &[&str], to: &[&str], told: (&DiagnosticCollector, &str)) {
    let Some(entry) = api.remove_at(from) else {
        return;
    };
    if api.entry_at(to).is_some() {
        let (book, prefix) = told;
        let (from, to) = (from.join("."), to.join("."));
        let wrong = ValueError::new(format!("`{from}` and `{to}` say the same"));
        book.report(
            entry.at,
            &format!("{prefix}.{from}"),
            wrong.help("keep one of them"),
        );
        return;
    }
    api.overlay(TreeTable::nested(to, entry.node));
}

fn overlay_root(root: &mut TreeTable, over: TreeTable) {
    root.overlay_by(over, |below, above| below.overlay_by(above, overlay_api));
}

/// One API over another. Whatever is a choice among forms is replaced; the rest is merged.
fn overlay_api(below: &mut TreeTable, mut above: TreeTable) {
    drop_rivals(below, &above);
    for whole in ["key", "cache", "trust", "proxy", "limits", "routes"] {
        if let Some(entry) = above.remove(whole) {
            below.put(entry);
        }
    }
    if let Some(groups) = above.remove("groups") {
        overlay_groups(below, groups);
    }
    below.overlay(above);
}

fn overlay_groups(below: &mut TreeTable, groups: TreeEntry) {
    let Some(TreeValue::Table(own)) = below.value_mut("groups") else {
        below.put(groups);
        return;
    };
    match groups.node.value {
        TreeValue::Table(above) => own.overlay_by(above, |below, above| {
            drop_rivals(below, &above);
            below.overlay(above);
        }),
        _ => below.put(groups),
    }
}

fn drop_rivals(below: &mut TreeTable, above: &TreeTable) {
    for (one, other) in RIVALS {
        for (said, silenced) in [(one, other), (other, one)] {
            if above.entry(said).is_some() {
                below.remove(silenced);
            }
        }
    }
}

/// Lays the preset that an API names under what the API says itself.
fn lay_presets_under(root: &mut TreeTable, book: &DiagnosticCollector) {
    root.each_table("apis", |name, api| {
        let Some(entry) = api.entry("preset") else {
            return;
        };
        let key = joined(&joined("apis", name), "preset");
        match preset(&entry.node) {
            Ok(preset) => {
                book.note(&key, Some(entry.node.at));
                let mut below = preset_table(preset, book);
                overlay_api(&mut below, std::mem::take(api));
                *api = below;
            }
            Err(wrong) => book.report(entry.node.at, &key, wrong),
        }
    });
}

fn preset(node: &TreeNode) -> Result<Preset, ValueError> {
    let TreeValue::Text(name) = &node.value else {
        return Err(super::value_readers::expected(
            "the name of a preset",
            &node.value,
        ));
    };
    let known = Preset::ALL.iter().map(|preset| preset.name());
    Preset::named(name).ok_or_else(|| unknown("preset", name, known))
}

fn preset_table(preset: Preset, book: &DiagnosticCollector) -> TreeTable {
    let mut text = parsed(&Source::preset(preset.name(), preset.text()), book);
    match text.remove("api").map(|entry| entry.node.value) {
        Some(TreeValue::Table(api)) => api,
        _ => TreeTable::EMPTY,
    }
}

/// Two ways to say the same.
const RIVALS: [(&str, &str); 2] = [
    ("limits", "rate_limit_per_sec"),
    ("api_key_env", "api_key_file"),
];
