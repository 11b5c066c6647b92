//! Routing: the group and the cost of a call.
//!
//! The table is replaced as a whole when the rules change. Groups have numbers, which they keep for the
//! life of the upstream.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use http::Method;
use outflow_core::{Cost, MAX_LIMITS, TooManyLimits};
use smol_str::SmolStr;

use super::endpoint::{EndpointLabel, EndpointTable};
use super::{Target, group_slot};
use crate::rules::{DEFAULT_GROUP, Group, Route, Rules, WaitMode};

/// The rules that callers need before they acquire.
#[derive(Debug)]
pub(super) struct RouteTable {
    names: HashMap<SmolStr, u32>,
    /// Groups by number; dropped groups have no entry.
    groups: Vec<Option<GroupInfo>>,
    /// The group that takes the calls of each number.
    successors: Vec<u32>,
    routes: Vec<RouteEntry>,
    default: u32,
    pub(super) mode: WaitMode,
    pub(super) max_wait: Duration,
}

/// A route with the number of its group and the label of its pattern.
#[derive(Debug)]
struct RouteEntry {
    route: Route,
    group: u32,
    endpoint: EndpointLabel,
}

/// A group's name and default cost.
#[derive(Clone, Debug)]
struct GroupInfo {
    name: SmolStr,
    cost: Cost,
}

impl RouteTable {
    /// Creates the table of rules whose groups have these numbers. The patterns of routes become labels.
    pub(super) fn new(rules: &Rules, index: GroupIndex, endpoints: &EndpointTable) -> Result<Self, InvalidRules> {
        check_limit_count(rules)?;
        let groups = groups(rules);
        let mut names = HashMap::with_capacity(groups.len());
        let mut infos: Vec<Option<GroupInfo>> = vec![None; index.successors.len()];
        for (number, group) in index.groups.iter().zip(groups) {
            for name in std::iter::once(&group.name).chain(&group.aliases) {
                if names.insert(name.clone(), *number).is_some() {
                    return Err(InvalidRules::SameName(name.clone()));
                }
            }
            if let Some(info) = infos.get_mut(group_slot(*number)) {
                let Group { name, cost, .. } = group;
                *info = Some(GroupInfo { name, cost });
            }
        }
        let find = |route: &Route| {
            let group = names.get(&route.group).copied();
            let group = group.ok_or_else(|| InvalidRules::UnknownGroup(route.group.clone()))?;
            Ok::<_, InvalidRules>(RouteEntry {
                route: route.clone(),
                group,
                endpoint: endpoints.label(route.pattern.as_str()),
            })
        };
        let routes = rules.routes.iter().map(find);
        Ok(Self {
            routes: routes.collect::<Result<_, _>>()?,
            default: names.get(DEFAULT_GROUP).copied().unwrap_or(0),
            names,
            groups: infos,
            successors: index.successors,
            mode: rules.mode,
            max_wait: rules.max_wait,
        })
    }

    pub(super) fn route(&self, method: &Method, path: &str) -> Target {
        let matching = |entry: &&RouteEntry| {
            let Route { methods, pattern, .. } = &entry.route;
            (methods.is_empty() || methods.contains(method)) && pattern.matches(path)
        };
        match self.routes.iter().find(matching) {
            Some(entry) => {
                let Target { group, cost, .. } = self.target(entry.group);
                let cost = entry.route.cost.unwrap_or(cost);
                let endpoint = entry.endpoint;
                Target { group, endpoint, cost }
            }
            None => self.target(self.default),
        }
    }

    pub(super) fn group(&self, name: &str) -> Option<Target> {
        self.names.get(name).map(|group| self.target(*group))
    }

    pub(super) fn group_name(&self, target: Target) -> SmolStr {
        let group = self.group_info(self.resolve(target));
        group.map_or(SmolStr::new_static(DEFAULT_GROUP), |group| group.name.clone())
    }

    /// Returns the group of a target. A target of another upstream may name an unknown group; it is
    /// treated like a call without a route.
    #[inline]
    pub(super) fn resolve(&self, target: Target) -> u32 {
        let successor = self.successors.get(group_slot(target.group));
        successor.copied().unwrap_or(self.default)
    }

    fn target(&self, group: u32) -> Target {
        let info = self.group_info(group);
        let cost = info.map_or(Cost::ONE, |info| info.cost);
        let endpoint = EndpointLabel::default();
        Target { group, endpoint, cost }
    }

    #[inline]
    fn group_info(&self, group: u32) -> Option<&GroupInfo> {
        self.groups.get(group_slot(group))?.as_ref()
    }
}

/// Numbers of the groups.
#[derive(Debug)]
pub(super) struct GroupIndex {
    /// The number of each group of the rules.
    pub(super) groups: Vec<u32>,
    /// The group that takes the calls of each number.
    pub(super) successors: Vec<u32>,
}

impl GroupIndex {
    /// Numbers the groups of a new upstream in their order.
    pub(super) fn from_rules(rules: &Rules) -> Self {
        let numbers: Vec<u32> = (0_u32..).take(groups(rules).len()).collect();
        Self {
            groups: numbers.clone(),
            successors: numbers,
        }
    }
}

/// Returns the groups of rules, the default group included.
pub(super) fn groups(rules: &Rules) -> Vec<Group> {
    let mut groups = rules.groups.clone();
    if !groups.iter().any(|group| group.name == DEFAULT_GROUP) {
        groups.push(Group::new(DEFAULT_GROUP, Vec::new()));
    }
    groups
}

/// Checks that rules are consistent.
pub(super) fn check_rules(rules: &Rules) -> Result<(), InvalidRules> {
    RouteTable::new(rules, GroupIndex::from_rules(rules), &EndpointTable::default()).map(drop)
}

/// Checks that each list of limits fits into one set of meters.
fn check_limit_count(rules: &Rules) -> Result<(), TooManyLimits> {
    let lists = rules.groups.iter().map(|group| group.limits.len());
    let mut lists = lists.chain([rules.limits.len()]);
    if lists.any(|count| count > MAX_LIMITS) {
        return Err(TooManyLimits);
    }
    Ok(())
}

/// Contradiction in the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRules {
    /// Two groups have this name or alias.
    SameName(SmolStr),
    /// A route names an unknown group.
    UnknownGroup(SmolStr),
    /// A group, or the API, has too many limits.
    TooManyLimits(TooManyLimits),
}

impl From<TooManyLimits> for InvalidRules {
    fn from(why: TooManyLimits) -> Self {
        Self::TooManyLimits(why)
    }
}

impl fmt::Display for InvalidRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameName(name) => write!(f, "two groups are called `{name}`: rename one"),
            Self::UnknownGroup(name) => {
                write!(f, "a route names the unknown group `{name}`: define it")
            }
            Self::TooManyLimits(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for InvalidRules {}
