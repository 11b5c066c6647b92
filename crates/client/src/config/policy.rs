//! Reads the classification of statuses and faults, over the default table.

use outflow_config::value_readers::{read_bool, read_choice};
use outflow_config::{FieldValue, TableReader, TreeValue, ValueError, unknown_name};
use outflow_core::{Fault, Handling, OutcomeClass, Policy, PolicyRule, RetryAfterUse, Retryability, RuleMatch};

/// Reads `policy`: statuses, ranges of them and faults, each with its handling.
pub(super) fn read_policy(api: &TableReader<'_>) -> Policy {
    let table = api.section("policy");
    let mut rules = Vec::new();
    for (entry, item) in table.entries() {
        let when = parse_match(&entry.name).map_err(|error| table.report_name(entry, error));
        let then = read_handling(&item).map_err(|error| item.report(error));
        item.record_origin();
        if let (Ok(when), Ok(then)) = (when, then) {
            rules.push(PolicyRule { when, then });
        }
    }
    Policy::with(&rules)
}

/// Parses `429`, `5xx`, `500-504`, `403 limited`, `dns`.
fn parse_match(name: &str) -> Result<RuleMatch, ValueError> {
    if name == CANCELLED {
        return Ok(RuleMatch::Cancelled);
    }
    if let Some((_, fault)) = Fault::NAMED.iter().find(|(known, _)| *known == name) {
        return Ok(RuleMatch::Fault(*fault));
    }
    let read = if let Some(status) = name.strip_suffix(" limited") {
        parse_status(status).map(RuleMatch::RateLimited)
    } else if let Some(hundred) = name.strip_suffix("xx") {
        let first = hundred.parse::<u16>().ok().filter(|n| (1..=5).contains(n));
        first.map(|n| RuleMatch::Statuses(n * 100, n * 100 + 99))
    } else if let Some((first, last)) = name.split_once('-') {
        let range = parse_status(first).zip(parse_status(last));
        range
            .filter(|(first, last)| first <= last)
            .map(|(first, last)| RuleMatch::Statuses(first, last))
    } else {
        parse_status(name).map(RuleMatch::Status)
    };
    read.ok_or_else(|| match_error(name))
}

fn parse_status(text: &str) -> Option<u16> {
    let code = text.parse().ok()?;
    (100..=599).contains(&code).then_some(code)
}

fn match_error(name: &str) -> ValueError {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return ValueError::new("this is no status").help("write 100 to 599, \"5xx\", \"500-504\" or \"403 limited\"");
    }
    unknown_name(
        "end of an attempt",
        name,
        Fault::ALL.map(Fault::name).into_iter().chain([CANCELLED]),
    )
}

/// Reads a word such as `neutral`, or a table of the three parts.
fn read_handling(item: &FieldValue<'_>) -> Result<Handling, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        return read_choice(&HANDLINGS)(item);
    };
    let table = item.table()?;
    let effect = table.read("counts_as", read_choice(&OutcomeClass::NAMED));
    let again = table.read("retry", read_bool);
    let obey = table.read("obey_retry_after", read_bool);
    if !table.has("counts_as") {
        let error = ValueError::new("a treatment needs what it counts as");
        table.report("counts_as", error.help("say `counts_as = \"neutral\"`"));
    }
    table.finish();
    Ok(Handling {
        effect: effect.ok_or(ValueError::Reported)?,
        retry: match again {
            Some(true) => Retryability::Worthwhile,
            Some(false) | None => Retryability::Pointless,
        },
        waiting: match obey {
            Some(true) => RetryAfterUse::Obey,
            Some(false) | None => RetryAfterUse::Ignore,
        },
    })
}

const CANCELLED: &str = "cancelled";

/// Handlings with a name; `failed` counts and is not retried, like a rejected key.
const HANDLINGS: [(&str, Handling); 8] = [
    ("success", Handling::SUCCESS),
    ("neutral", Handling::NEUTRAL),
    ("cancelled", Handling::CANCELLED),
    ("banned", Handling::BAN),
    ("throttled", Handling::THROTTLED),
    ("slow_down", Handling::SLOW_DOWN),
    ("failed", Handling::failing(OutcomeClass::OtherFailed).not_retryable()),
    ("server_failed", Handling::failing(OutcomeClass::ServerFailed)),
];
