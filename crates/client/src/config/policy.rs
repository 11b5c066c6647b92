//! Reads what an API's owner makes of statuses and faults, over the usual table.

use outflow_core::{
    Fault, Handling, OutcomeClass, Policy, PolicyRule, RetryAfterUse, Retryability, RuleMatch,
};

use super::reader::{FieldValue, TableReader, ValueError, unknown};
use super::tree::TreeValue;
use super::value_readers::{choice, truth};

/// Reads `policy`: statuses, ranges of them and faults, each with its treatment.
pub(super) fn read(api: &TableReader<'_>) -> Policy {
    let fields = api.section("policy");
    let mut rules = Vec::new();
    for (entry, item) in fields.entries() {
        let when = when(&entry.name);
        let when = when.map_err(|wrong| api.book().report(entry.at, &item.key, wrong));
        let then = treatment(&item).map_err(|wrong| item.report(wrong));
        api.book().note(&item.key, Some(item.node.at));
        if let (Ok(when), Ok(then)) = (when, then) {
            rules.push(PolicyRule { when, then });
        }
    }
    Policy::with(&rules)
}

/// Reads `429`, `5xx`, `500-504`, `403 limited`, `dns`.
fn when(name: &str) -> Result<RuleMatch, ValueError> {
    let named = ENDS.iter().find(|(known, _)| *known == name);
    if let Some((_, when)) = named {
        return Ok(*when);
    }
    let read = if let Some(status) = name.strip_suffix(" limited") {
        status_code(status).map(RuleMatch::RateLimited)
    } else if let Some(hundred) = name.strip_suffix("xx") {
        let first = hundred.parse::<u16>().ok().filter(|n| (1..=5).contains(n));
        first.map(|n| RuleMatch::Statuses(n * 100, n * 100 + 99))
    } else if let Some((first, last)) = name.split_once('-') {
        let range = status_code(first).zip(status_code(last));
        range
            .filter(|(first, last)| first <= last)
            .map(|(first, last)| RuleMatch::Statuses(first, last))
    } else {
        status_code(name).map(RuleMatch::Status)
    };
    read.ok_or_else(|| no_end(name))
}

fn status_code(text: &str) -> Option<u16> {
    let code = text.parse().ok()?;
    (100..=599).contains(&code).then_some(code)
}

fn no_end(name: &str) -> ValueError {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return ValueError::new("this is no status")
            .help("write 100 to 599, \"5xx\", \"500-504\" or \"403 limited\"");
    }
    unknown(
        "end of an attempt",
        name,
        ENDS.iter().map(|(name, _)| *name),
    )
}

/// Reads a word such as `neutral`, or a table of the three parts.
fn treatment(item: &FieldValue<'_>) -> Result<Handling, ValueError> {
    let TreeValue::Table(_) = &item.node.value else {
        return choice(item, &TREATMENTS);
    };
    let fields = item.fields()?;
    let effect = fields.read("counts_as", |item| choice(item, &EFFECTS));
    let again = fields.read("retry", truth);
    let obey = fields.read("obey_retry_after", truth);
    if !fields.has("counts_as") {
        let wrong = ValueError::new("a treatment needs what it counts as");
        fields.tell("counts_as", wrong.help("say `counts_as = \"neutral\"`"));
    }
    fields.finish();
    Ok(Handling {
        effect: effect.ok_or(ValueError::Told)?,
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

const ENDS: [(&str, RuleMatch); 8] = [
    ("connect_timeout", RuleMatch::Fault(Fault::ConnectTimeout)),
    ("read_timeout", RuleMatch::Fault(Fault::ReadTimeout)),
    ("dns", RuleMatch::Fault(Fault::Dns)),
    ("reset", RuleMatch::Fault(Fault::Reset)),
    ("tls_handshake", RuleMatch::Fault(Fault::TlsHandshake)),
    ("tls_certificate", RuleMatch::Fault(Fault::TlsCertificate)),
    ("truncated_body", RuleMatch::Fault(Fault::TruncatedBody)),
    ("cancelled", RuleMatch::Cancelled),
];

const EFFECTS: [(&str, OutcomeClass); 8] = [
    ("success", OutcomeClass::Success),
    ("throttled", OutcomeClass::Throttled),
    ("server_failed", OutcomeClass::ServerFailed),
    ("network_failed", OutcomeClass::NetworkFailed),
    ("failed", OutcomeClass::OtherFailed),
    ("banned", OutcomeClass::Banned),
    ("neutral", OutcomeClass::Neutral),
    ("cancelled", OutcomeClass::Cancelled),
];

/// The treatments that have a name; `failed` counts and is not tried again, as a refused key is.
const TREATMENTS: [(&str, Handling); 8] = [
    ("success", Handling::SUCCESS),
    ("neutral", Handling::NEUTRAL),
    ("cancelled", Handling::CANCELLED),
    ("banned", Handling::BAN),
    ("throttled", Handling::THROTTLED),
    ("slow_down", Handling::SLOW_DOWN),
    (
        "failed",
        Handling::failing(OutcomeClass::OtherFailed).not_retryable(),
    ),
    (
        "server_failed",
        Handling::failing(OutcomeClass::ServerFailed),
    ),
];
