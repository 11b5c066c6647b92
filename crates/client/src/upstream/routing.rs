//! What callers need to know of the rules before they ask: which call is of which group.
//!
//! Replaced as a whole when the rules change. A group is known here by the number of its lane, which it
//! keeps for as long as the door is open.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use http::Method;
use outflow_core::{Cost, MAX_LIMITS, TooManyLimits};
use smol_str::SmolStr;

use super::Target;
use crate::rules::{DEFAULT_GROUP, Group, Route, Rules, WaitMode};

/// The rules, as far as they are about finding a call's group.
#[derive(Debug)]
pub(super) struct RouteTable {
    names: HashMap<SmolStr, u32>,
    /// Of each lane, its group, if it has one.
    groups: Vec<Option<GroupInfo>>,
    /// Of each lane, where its calls go.
    leads: Vec<u32>,
    routes: Vec<(Route, u32)>,
    default: u32,
    pub(super) mode: WaitMode,
    pub(super) max_wait: Duration,
}

/// What callers need to know of a group.
#[derive(Clone, Debug)]
struct GroupInfo {
    name: SmolStr,
    cost: Cost,
}

impl RouteTable {
    /// The rules, with the lane of each of their groups.
    pub(super) fn new(rules: &Rules, seats: GroupIndex) -> Result<Self, InvalidRules> {
        few_enough(rules)?;
        let groups = groups(rules);
        let mut names = HashMap::with_capacity(groups.len());
        let mut by_lane: Vec<Option<GroupInfo>> = vec![None; seats.leads.len()];
        for (lane, group) in seats.groups.iter().zip(groups) {
            for name in std::iter::once(&group.name).chain(&group.aliases) {
                if names.insert(name.clone(), *lane).is_some() {
                    return Err(InvalidRules::SameName(name.clone()));
                }
            }
            if let Some(place) = by_lane.get_mut(place(*lane)) {
                let Group { name, cost, .. } = group;
                *place = Some(GroupInfo { name, cost });
            }
        }
        let known = |route: &Route| {
            let lane = names.get(&route.group).copied();
            lane.ok_or_else(|| InvalidRules::UnknownGroup(route.group.clone()))
        };
        let routes = rules
            .routes
            .iter()
            .map(|route| Ok::<_, InvalidRules>((route.clone(), known(route)?)));
        Ok(Self {
            routes: routes.collect::<Result<_, _>>()?,
            default: names.get(DEFAULT_GROUP).copied().unwrap_or(0),
            names,
            groups: by_lane,
            leads: seats.leads,
            mode: rules.mode,
            max_wait: rules.max_wait,
        })
    }

    pub(super) fn route(&self, method: &Method, path: &str) -> Target {
        let matching = |(route, _): &&(Route, u32)| {
            let methods = &route.methods;
            (methods.is_empty() || methods.contains(method)) && route.pattern.matches(path)
        };
        match self.routes.iter().find(matching) {
            Some((route, lane)) => {
                let target = self.target(*lane);
                route.cost.map_or(target, |cost| target.costing(cost))
            }
            None => self.target(self.default),
        }
    }

    pub(super) fn group(&self, name: &str) -> Option<Target> {
        self.names.get(name).map(|lane| self.target(*lane))
    }

    pub(super) fn group_name(&self, target: Target) -> SmolStr {
        let group = self.group_info(self.lane(target));
        group.map_or(SmolStr::new_static(DEFAULT_GROUP), |group| {
            group.name.clone()
        })
    }

    /// The lane of a target. One that another door gave may be of a group that there is not here: it
    /// is treated like a call that no route names.
    #[inline]
    pub(super) fn lane(&self, target: Target) -> u32 {
        let lead = self.leads.get(place(target.lane)).copied();
        lead.unwrap_or(self.default)
    }

    fn target(&self, lane: u32) -> Target {
        let cost = self.group_info(lane).map_or(Cost::ONE, |group| group.cost);
        Target { lane, cost }
    }

    #[inline]
    fn group_info(&self, lane: u32) -> Option<&GroupInfo> {
        self.groups.get(place(lane))?.as_ref()
    }
}

/// Where groups are seated.
#[derive(Debug)]
pub(super) struct GroupIndex {
    /// The lane of each group.
    pub(super) groups: Vec<u32>,
    /// Of each lane, where its calls go.
    pub(super) leads: Vec<u32>,
}

impl GroupIndex {
    /// Those of a new door: one after the other.
    pub(super) fn first(rules: &Rules) -> Self {
        let lanes: Vec<u32> = (0_u32..).take(groups(rules).len()).collect();
        Self {
            groups: lanes.clone(),
            leads: lanes,
        }
    }
}

/// The groups of these rules, the one for what no route names included.
pub(super) fn groups(rules: &Rules) -> Vec<Group> {
    let mut groups = rules.groups.clone();
    if !groups.iter().any(|group| group.name == DEFAULT_GROUP) {
        groups.push(Group::new(DEFAULT_GROUP, Vec::new()));
    }
    groups
}

/// Looks whether rules fit together, whatever door they are for.
pub(super) fn check(rules: &Rules) -> Result<(), InvalidRules> {
    RouteTable::new(rules, GroupIndex::first(rules)).map(drop)
}

/// Looks whether each list of limits fits into one set of meters.
fn few_enough(rules: &Rules) -> Result<(), TooManyLimits> {
    let lists = rules.groups.iter().map(|group| group.limits.len());
    let mut lists = lists.chain([rules.limits.len()]);
    if lists.any(|count| count > MAX_LIMITS) {
        return Err(TooManyLimits);
    }
    Ok(())
}

fn place(lane: u32) -> usize {
    usize::try_from(lane).unwrap_or(usize::MAX)
}

/// Why rules do not fit together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidRules {
    /// Two groups have this name or alias.
    SameName(SmolStr),
    /// A route names a group that there is not.
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
                write!(
                    f,
                    "a route leads to the group `{name}`, which there is not: define it"
                )
            }
            Self::TooManyLimits(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for InvalidRules {}
