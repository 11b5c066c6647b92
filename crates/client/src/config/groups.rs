//! Reads the groups of an API and the routes that lead to them.
//!
//! A route that leads nowhere, a name that two groups claim, a cost that no limit lets through: each
//! looks right and fails at the first call. They are told here, where the line is still known.

use std::collections::HashSet;

use outflow_core::{Cost, Limit, MAX_LIMITS};
use smol_str::SmolStr;

use super::limits::limits;
use super::rate_share::RateShare;
use super::reader::{FieldValue, TableReader, ValueError, printable, unknown};
use super::tree::TreeEntry;
use super::unreachable_routes;
use super::value_readers::{cost, method, name, text};
use crate::path_pattern::PathPattern;
use crate::rules::{DEFAULT_GROUP, Group, Route, Rules};

/// Reads `groups` and `routes` beside the API's own limits.
pub(super) fn read(fields: &TableReader<'_>, rules: &mut Rules, portion: RateShare) {
    let written = fields.section("groups").entries();
    // One more may follow, for what none of them takes.
    rules.groups.reserve_exact(written.len() + 1);
    for (entry, item) in &written {
        let named = name(&entry.name);
        let named = named.map_err(|wrong| fields.book().report(entry.at, &item.key, wrong));
        let group = group(item, portion).map_err(|wrong| item.report(wrong));
        if let (Ok(name), Ok(group)) = (named, group) {
            rules.groups.push(Group { name, ..group });
        }
    }
    report_clashes(&written);
    let routes = fields.read("routes", |item| Ok(item.each(|item| route(item, rules))));
    rules.routes = routes.unwrap_or_default();
    if let Some(item) = fields.item("routes") {
        unreachable_routes::check(&item, rules);
    }
}

/// Tells of calls that can never pass: too many limits to hold, or a cost above one of them.
pub(super) fn check(fields: &TableReader<'_>, rules: &Rules) {
    if rules.limits.len() > MAX_LIMITS {
        fields.tell("limits", too_many(rules.limits.len()));
    }
    let groups = fields.section("groups");
    for group in &rules.groups {
        let count = rules.limits.len() + group.limits.len();
        if count > MAX_LIMITS && rules.limits.len() <= MAX_LIMITS {
            groups.tell(&group.name, too_many(count));
        }
        if let Some(wrong) = never_passes(rules, Some(group), group.cost) {
            groups.section_of(&group.name).tell("cost", wrong);
        }
    }
    for item in fields.item("routes").iter().flat_map(FieldValue::items) {
        check_route(&item, rules);
    }
}

/// The group of this name or alias.
pub(super) fn group_named<'r>(rules: &'r Rules, wanted: &str) -> Option<&'r Group> {
    rules
        .groups
        .iter()
        .find(|group| group.name == wanted || group.aliases.iter().any(|alias| alias == wanted))
}

fn group(item: &FieldValue<'_>, portion: RateShare) -> Result<Group, ValueError> {
    let fields = item.fields()?;
    let limits = limits(&fields).unwrap_or_default();
    let cost = fields.read("cost", cost);
    let alias = |item: &FieldValue<'_>| name(text(item)?);
    let aliases = fields.read("aliases", |item| Ok(item.each(alias)));
    fields.finish();
    let limits = limits.into_iter().map(|limit| portion.apply(limit));
    Ok(Group {
        aliases: aliases.unwrap_or_default(),
        limits: limits.collect(),
        cost: cost.unwrap_or_default(),
        ..Group::new("", Vec::new())
    })
}

fn route(item: &FieldValue<'_>, rules: &Rules) -> Result<Route, ValueError> {
    let fields = item.fields()?;
    let methods = fields.read("methods", |item| Ok(item.each(method)));
    let pattern = fields.read("path", pattern);
    let group = fields.read("group", |item| target(item, rules));
    let cost = fields.read("cost", cost);
    for (name, help) in [
        ("path", "say `path = \"/orders/**\"`"),
        ("group", "say which group such calls are of"),
    ] {
        if !fields.has(name) {
            fields.tell(
                name,
                ValueError::new(format!("a route needs its {name}")).help(help),
            );
        }
    }
    fields.finish();
    Ok(Route {
        methods: methods.unwrap_or_default(),
        pattern: pattern.ok_or(ValueError::Told)?,
        group: group.ok_or(ValueError::Told)?,
        cost,
    })
}

fn pattern(item: &FieldValue<'_>) -> Result<PathPattern, ValueError> {
    let written = text(item)?;
    let pattern: PathPattern = written
        .parse()
        .map_err(|wrong: crate::path_pattern::InvalidPattern| ValueError::new(wrong.to_string()))?;
    unreachable_routes::possible(written)?;
    Ok(pattern)
}

fn target(item: &FieldValue<'_>, rules: &Rules) -> Result<SmolStr, ValueError> {
    let wanted = text(item)?;
    if wanted == DEFAULT_GROUP || group_named(rules, wanted).is_some() {
        return Ok(SmolStr::new(wanted));
    }
    let names = rules.groups.iter().flat_map(|group| {
        let aliases = group.aliases.iter().map(SmolStr::as_str);
        std::iter::once(group.name.as_str()).chain(aliases)
    });
    Err(unknown("group", wanted, names))
}

/// Every name and alias stands for one group.
fn report_clashes(groups: &[(&TreeEntry, FieldValue<'_>)]) {
    let names = groups.iter().map(|(entry, _)| entry.name.as_str());
    let mut taken: HashSet<&str> = names.collect();
    for (_, item) in groups {
        let aliases = item.fields().ok().and_then(|fields| fields.item("aliases"));
        for alias in aliases.iter().flat_map(FieldValue::items) {
            let Ok(name) = text(&alias) else { continue };
            if !taken.insert(name) {
                let wrong = ValueError::new(format!("the name `{}` is taken", printable(name)));
                alias.report(wrong.help("give each group and alias a name of its own"));
            }
        }
    }
}

fn check_route(item: &FieldValue<'_>, rules: &Rules) {
    let Ok(fields) = item.fields() else { return };
    let (Some(cost_item), Some(group)) = (fields.item("cost"), fields.item("group")) else {
        return;
    };
    let (Ok(cost), Ok(group)) = (cost(&cost_item), text(&group)) else {
        return;
    };
    if let Some(wrong) = never_passes(rules, group_named(rules, group), cost) {
        cost_item.report(wrong);
    }
}

fn never_passes(rules: &Rules, group: Option<&Group>, cost: Cost) -> Option<ValueError> {
    let own = group.into_iter().flat_map(|group| &*group.limits);
    let too_low = |limit: &&Limit| limit.capacity() < cost.units();
    let limit = rules.limits.iter().chain(own).find(too_low)?;
    let message = format!(
        "a call that costs {} never passes a limit of {}",
        cost.units(),
        limit.rate()
    );
    Some(ValueError::new(message).help(format!("the cost is {} at most", limit.capacity())))
}

fn too_many(count: usize) -> ValueError {
    ValueError::new(format!("these are {count} limits for one call")).help(format!(
        "a call counts against {MAX_LIMITS} at most, its API's and its group's together"
    ))
}
