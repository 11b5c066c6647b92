//! Reads the groups of an API and the routes to them.
//!
//! An unknown group, a name of two groups, a cost above a limit: each looks right and fails at the first
//! call. They are reported here, where the line is known.

use std::collections::HashSet;

use outflow_config::value_readers::{read_cost, read_name, read_text};
use outflow_config::{FieldValue, TableReader, TreeEntry, ValueError, show_name, unknown_name};
use outflow_core::{Cost, Limit, MAX_LIMITS};
use smol_str::SmolStr;

use super::http_values::read_method;
use super::limits::read_limits;
use super::rate_share::RateShare;
use super::unreachable_routes;
use crate::path_pattern::PathPattern;
use crate::rules::{DEFAULT_GROUP, Group, Route, Rules};

/// Reads `groups` and `routes` into the rules, which have the API's own limits.
pub(super) fn read_groups(table: &TableReader<'_>, rules: &mut Rules, share: RateShare) {
    let groups = table.section("groups");
    let written = groups.entries();
    // One more may follow, for calls of no group.
    rules.groups.reserve_exact(written.len() + 1);
    for (entry, item) in &written {
        let name = read_name(&entry.name).map_err(|error| groups.report_name(entry, error));
        let group = read_group(item, share).map_err(|error| item.report(error));
        if let (Ok(name), Ok(group)) = (name, group) {
            rules.groups.push(Group { name, ..group });
        }
    }
    report_duplicates(&written);
    let routes = table.read("routes", |item| Ok(item.read_items(|item| read_route(item, rules))));
    rules.routes = routes.unwrap_or_default();
    if let Some(item) = table.field("routes") {
        unreachable_routes::check_order(&item, rules);
    }
}

/// Reports calls that can never pass: too many limits, or a cost above a limit.
pub(super) fn check_costs(table: &TableReader<'_>, rules: &Rules) {
    if rules.limits.len() > MAX_LIMITS {
        table.report("limits", too_many_limits(rules.limits.len()));
    }
    let groups = table.section("groups");
    for group in &rules.groups {
        let count = rules.limits.len() + group.limits.len();
        if count > MAX_LIMITS && rules.limits.len() <= MAX_LIMITS {
            groups.report(&group.name, too_many_limits(count));
        }
        if let Some(error) = cost_error(rules, Some(group), group.cost) {
            groups.subtable(&group.name).report("cost", error);
        }
    }
    for item in table.field("routes").iter().flat_map(FieldValue::items) {
        check_route(&item, rules);
    }
}

/// Returns the group of this name or alias.
fn find_group<'r>(rules: &'r Rules, wanted: &str) -> Option<&'r Group> {
    rules
        .groups
        .iter()
        .find(|group| group.name == wanted || group.aliases.iter().any(|alias| alias == wanted))
}

fn read_group(item: &FieldValue<'_>, share: RateShare) -> Result<Group, ValueError> {
    let table = item.table()?;
    let limits = read_limits(&table).unwrap_or_default();
    let cost = table.read("cost", read_cost);
    let alias = |item: &FieldValue<'_>| read_name(read_text(item)?);
    let aliases = table.read("aliases", |item| Ok(item.read_items(alias)));
    table.finish();
    let limits = limits.into_iter().map(|limit| share.apply(limit));
    Ok(Group {
        aliases: aliases.unwrap_or_default(),
        limits: limits.collect(),
        cost: cost.unwrap_or_default(),
        ..Group::new("", Vec::new())
    })
}

fn read_route(item: &FieldValue<'_>, rules: &Rules) -> Result<Route, ValueError> {
    let table = item.table()?;
    let methods = table.read("methods", |item| Ok(item.read_items(read_method)));
    let pattern = table.read("path", read_pattern);
    let group = table.read("group", |item| read_group_name(item, rules));
    let cost = table.read("cost", read_cost);
    for (name, help) in [
        ("path", "say `path = \"/orders/**\"`"),
        ("group", "say which group such calls are of"),
    ] {
        if !table.has(name) {
            table.report(name, ValueError::new(format!("a route needs its {name}")).help(help));
        }
    }
    table.finish();
    Ok(Route {
        methods: methods.unwrap_or_default(),
        pattern: pattern.ok_or(ValueError::Reported)?,
        group: group.ok_or(ValueError::Reported)?,
        cost,
    })
}

fn read_pattern(item: &FieldValue<'_>) -> Result<PathPattern, ValueError> {
    let written = read_text(item)?;
    let pattern: PathPattern = written
        .parse()
        .map_err(|error: crate::path_pattern::InvalidPattern| ValueError::new(error.to_string()))?;
    unreachable_routes::check_pattern(written)?;
    Ok(pattern)
}

fn read_group_name(item: &FieldValue<'_>, rules: &Rules) -> Result<SmolStr, ValueError> {
    let wanted = read_text(item)?;
    if wanted == DEFAULT_GROUP || find_group(rules, wanted).is_some() {
        return Ok(SmolStr::new(wanted));
    }
    let names = rules.groups.iter().flat_map(|group| {
        let aliases = group.aliases.iter().map(SmolStr::as_str);
        std::iter::once(group.name.as_str()).chain(aliases)
    });
    Err(unknown_name("group", wanted, names))
}

/// Reports a name or alias of two groups.
fn report_duplicates(groups: &[(&TreeEntry, FieldValue<'_>)]) {
    let names = groups.iter().map(|(entry, _)| entry.name.as_str());
    let mut taken: HashSet<&str> = names.collect();
    for (_, item) in groups {
        let aliases = item.table().ok().and_then(|table| table.field("aliases"));
        for alias in aliases.iter().flat_map(FieldValue::items) {
            let Ok(name) = read_text(&alias) else {
                continue;
            };
            if !taken.insert(name) {
                let error = ValueError::new(format!("the name `{}` is taken", show_name(name)));
                alias.report(error.help("give each group and alias a name of its own"));
            }
        }
    }
}

fn check_route(item: &FieldValue<'_>, rules: &Rules) {
    let Ok(table) = item.table() else { return };
    let (Some(cost_item), Some(group)) = (table.field("cost"), table.field("group")) else {
        return;
    };
    let (Ok(cost), Ok(group)) = (read_cost(&cost_item), read_text(&group)) else {
        return;
    };
    if let Some(error) = cost_error(rules, find_group(rules, group), cost) {
        cost_item.report(error);
    }
}

fn cost_error(rules: &Rules, group: Option<&Group>, cost: Cost) -> Option<ValueError> {
    let own = group.into_iter().flat_map(|group| &*group.limits);
    let too_low = |limit: &&Limit| limit.capacity() < limit.measure().unit_cost().units(cost).units();
    let limit = rules.limits.iter().chain(own).find(too_low)?;
    let message = format!(
        "a call that costs {} never passes a limit of {}",
        cost.units(),
        limit.rate()
    );
    Some(ValueError::new(message).help(format!("the cost is {} at most", limit.capacity())))
}

fn too_many_limits(count: usize) -> ValueError {
    ValueError::new(format!("these are {count} limits for one call")).help(format!(
        "a call counts against {MAX_LIMITS} at most, its API's and its group's together"
    ))
}
