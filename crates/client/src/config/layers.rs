//! Merges the layers of a configuration.
//!
//! From the bottom: the preset, the texts in their order, the environment, the runtime overrides. Two keys
//! with the same meaning exclude each other: the key of the higher layer removes the other one below it,
//! so `rate_limit_per_sec` over a preset's `limits` is one limit and not two.

use outflow_config::value_readers::expected;
use outflow_config::{
    DiagnosticCollector, Document, EnvVariable, Environment, Source, TreeEntry, TreeNode, TreeTable, TreeValue,
    ValueError, join_key, parse_layer, unknown_name,
};

use super::operating_variables;
use crate::preset::Preset;

/// Merges all layers into one document, of which each section reads its part.
pub fn load(sources: &[Source], environment: &Environment) -> Document {
    let collector = DiagnosticCollector::default();
    let root = merge_layers(sources, environment, &collector);
    Document::new(root, collector)
}

fn merge_layers(sources: &[Source], environment: &Environment, collector: &DiagnosticCollector) -> TreeTable {
    let mut root = TreeTable::EMPTY;
    for source in sources.iter().filter(|source| !source.is_runtime()) {
        overlay_root(&mut root, parse_source(source, collector));
    }
    let variables = environment.overrides(collector);
    let (presets, others): (Vec<_>, Vec<_>) = variables.into_iter().partition(selects_preset);
    for variable in presets {
        let over = variable.into_table(&root);
        overlay_root(&mut root, over);
    }
    apply_presets(&mut root, collector);
    let operating = operating_variables::find(environment, &root, collector);
    for variable in operating.into_iter().chain(others) {
        let mut over = variable.into_table(&root);
        rename_keys(&mut over, collector);
        overlay_root(&mut root, over);
    }
    for source in sources.iter().filter(|source| source.is_runtime()) {
        overlay_root(&mut root, parse_source(source, collector));
    }
    root
}

fn parse_source(source: &Source, collector: &DiagnosticCollector) -> TreeTable {
    let mut layer = parse_layer(source, "apis", collector);
    rename_keys(&mut layer, collector);
    layer
}

/// Returns true for `apis.NAME.preset`: a preset lies below all other keys, so it is applied first.
fn selects_preset(variable: &EnvVariable) -> bool {
    matches!(variable.levels(), [apis, _, preset] if apis == "apis" && preset == "preset")
}

/// Moves each value to the one name of its key.
fn rename_keys(root: &mut TreeTable, collector: &DiagnosticCollector) {
    root.each_table("apis", |name, api| {
        let prefix = join_key("apis", name);
        for (from, to) in RENAMES {
            if let Err(clash) = rename_key(api, from, to) {
                let (entry, error) = *clash;
                let key = format!("{prefix}.{}", from.join("."));
                collector.report(entry.at, &key, error);
            }
        }
    });
}

fn rename_key(api: &mut TreeTable, from: &[&str], to: &[&str]) -> Result<(), Box<(TreeEntry, ValueError)>> {
    let Some(entry) = api.remove_at(from) else {
        return Ok(());
    };
    if api.entry_at(to).is_some() {
        let (from, to) = (from.join("."), to.join("."));
        let error = ValueError::new(format!("`{from}` and `{to}` say the same"));
        return Err(Box::new((entry, error.help("keep one of them"))));
    }
    api.overlay(TreeTable::nested(to, entry.node));
    Ok(())
}

fn overlay_root(root: &mut TreeTable, over: TreeTable) {
    root.overlay_with(over, |below, above| below.overlay_with(above, overlay_api));
}

/// Lays one API over another. Keys with a choice of forms are replaced as a whole; the others merge.
fn overlay_api(below: &mut TreeTable, mut above: TreeTable) {
    drop_exclusive(below, &above);
    for name in ["key", "cache", "trust", "proxy", "limits", "routes"] {
        if let Some(entry) = above.remove(name) {
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
        TreeValue::Table(above) => own.overlay_with(above, |below, above| {
            drop_exclusive(below, &above);
            below.overlay(above);
        }),
        _ => below.put(groups),
    }
}

fn drop_exclusive(below: &mut TreeTable, above: &TreeTable) {
    for (one, other) in EXCLUSIVE {
        for (set, removed) in [(one, other), (other, one)] {
            if above.entry(set).is_some() {
                below.remove(removed);
            }
        }
    }
}

/// Lays the preset of each API under the API's own keys.
fn apply_presets(root: &mut TreeTable, collector: &DiagnosticCollector) {
    root.each_table("apis", |name, api| {
        let Some(entry) = api.entry("preset") else {
            return;
        };
        let key = join_key(&join_key("apis", name), "preset");
        match find_preset(&entry.node) {
            Ok(preset) => {
                collector.record_origin(&key, Some(entry.node.at));
                let mut below = preset_table(preset, collector);
                overlay_api(&mut below, std::mem::take(api));
                *api = below;
            }
            Err(error) => collector.report(entry.node.at, &key, error),
        }
    });
}

fn find_preset(node: &TreeNode) -> Result<Preset, ValueError> {
    let TreeValue::Text(name) = &node.value else {
        return Err(expected("the name of a preset", &node.value));
    };
    let known = Preset::ALL.iter().map(|preset| preset.name());
    Preset::named(name).ok_or_else(|| unknown_name("preset", name, known))
}

fn preset_table(preset: Preset, collector: &DiagnosticCollector) -> TreeTable {
    let source = Source::preset(preset.name(), preset.text());
    let mut text = parse_source(&source, collector);
    match text.remove("api").map(|entry| entry.node.value) {
        Some(TreeValue::Table(api)) => api,
        _ => TreeTable::EMPTY,
    }
}

/// Alternative names of keys, and the names that readers know.
const RENAMES: [(&[&str], &[&str]); 4] = [
    (&["health_scope"], &["health", "scope"]),
    (&["tls"], &["trust"]),
    (&["health", "concurrency"], &["concurrency"]),
    (&["health", "sem_base"], &["concurrency"]),
];

/// Pairs of keys with the same meaning.
const EXCLUSIVE: [(&str, &str); 2] = [("limits", "rate_limit_per_sec"), ("api_key_env", "api_key_file")];
