//! What a tenant may use at most, by what it calls.
//!
//! The limits of one API hold together, so the slowest counts; the limits of several APIs do not, so what
//! they allow is added up. The tenant's own rate bounds all of it.

use std::collections::BTreeMap;
use std::fmt;

use outflow::{Api, DEFAULT_GROUP, Outflow};
use outflow_bulk::{Amount, Lane};
use outflow_core::{Limit, Rate};
use outflow_store::Name;

/// A rate, or several of them added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowance {
    /// As it is written, if it is one.
    rate: Option<Rate>,
    /// How many millionths of a unit a second.
    millionths: u128,
}

impl Allowance {
    /// What these lanes allow; nothing if one of them has no limit.
    pub(super) fn of(
        client: &Outflow,
        lanes: &BTreeMap<Name, Amount>,
        own: Option<&Limit>,
    ) -> Option<Self> {
        let mut apis: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for lane in lanes.keys() {
            if let Lane::Api { api, group } = Lane::of(lane) {
                let group = group.unwrap_or_else(|| DEFAULT_GROUP.to_owned());
                apis.entry(api).or_default().push(group);
            }
        }
        let each = apis.iter().map(|(api, groups)| {
            let api = client.api(api)?;
            let groups = groups.iter().map(|group| slowest(of_group(&api, group)));
            smaller(slowest(api.rules.limits.iter()), sum(groups))
        });
        smaller(sum(each), own.map(Self::from))
    }
}

fn of_group<'a>(api: &'a Api, name: &str) -> impl Iterator<Item = &'a Limit> {
    let group = api.rules.groups.iter().find(|group| group.name == name);
    group.into_iter().flat_map(|group| group.limits.iter())
}

fn slowest<'a>(limits: impl Iterator<Item = &'a Limit>) -> Option<Allowance> {
    limits
        .map(Allowance::from)
        .min_by_key(|allowance| allowance.millionths)
}

/// All of them together; nothing if one is not bounded.
fn sum(parts: impl Iterator<Item = Option<Allowance>>) -> Option<Allowance> {
    let parts: Option<Vec<Allowance>> = parts.collect();
    parts?.into_iter().reduce(|one, other| Allowance {
        rate: None,
        millionths: one.millionths.saturating_add(other.millionths),
    })
}

/// The tighter bound; one that is not there bounds nothing.
fn smaller(one: Option<Allowance>, other: Option<Allowance>) -> Option<Allowance> {
    let both = one.into_iter().chain(other);
    both.min_by_key(|allowance| allowance.millionths)
}

impl From<&Limit> for Allowance {
    fn from(limit: &Limit) -> Self {
        let rate = limit.rate();
        let units = u128::from(rate.quantity()).saturating_mul(MILLION * NANOS);
        Self {
            rate: Some(rate),
            millionths: units / rate.per().as_nanos().max(1),
        }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rate) = self.rate {
            return rate.fmt(f);
        }
        let tenths = self.millionths * 10 / MILLION;
        write!(f, "{}.{}/s", tenths / 10, tenths % 10)
    }
}

const MILLION: u128 = 1_000_000;

/// So many are a second.
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use outflow::Config;
    use outflow::config::{Environment, Source};

    use super::*;

    fn allowed(lanes: &[&str], own: Option<&str>) -> Option<String> {
        let text = "[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"30/s\"]\n\
                    groups.slow.limits = [\"2/s\"]\n\
                    [apis.day]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"90/min\"]\n";
        let config = Config::read(&[Source::new("test", text)], &Environment::empty());
        let apis = config.expect("a configuration").apis.into_iter();
        let builder = apis.fold(Outflow::builder(), outflow::Builder::api);
        let client = builder.build().expect("a client");
        let lanes = lanes
            .iter()
            .map(|lane| (lane.parse().expect("a name"), Amount::default()));
        let own = own.map(|rate| Limit::sliding(rate.parse().expect("a rate")));
        let allowance = Allowance::of(&client, &lanes.collect(), own.as_ref());
        allowance.map(|allowance| allowance.to_string())
    }

    // A group at 2/s bounds its own lane and not the other: both together have what the API allows.
    #[test]
    fn lanes_of_one_api_share_and_apis_add_up() {
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(allowed(&["up"], None), said("30/s"));
        assert_eq!(allowed(&["up/slow"], None), said("2/s"));
        assert_eq!(allowed(&["up", "up/slow"], None), said("30/s"));
        assert_eq!(allowed(&["up", "day"], None), said("31.5/s"));
        assert_eq!(allowed(&["up", "day"], Some("4/s")), said("4/s"));
        assert_eq!(allowed(&["up", "gone"], None), None);
    }
}
