//! Reads what an API's owner makes of statuses and faults, over the usual table.

use outflow_core::{Effect, Fault, Policy, Retry, Rule, Treatment, Waiting, When};

use super::fields::{Fields, Item, Wrong, unknown};
use super::tree::Value;
use super::values::{choice, truth};

/// Reads `policy`: statuses, ranges of them and faults, each with its treatment.
pub(super) fn read(api: &Fields<'_>) -> Policy {
    let fields = api.section("policy");
    let mut rules = Vec::new();
    for (entry, item) in fields.entries() {
        let when = when(&entry.name);
        let when = when.map_err(|wrong| api.book().tell(entry.at, &item.key, wrong));
        let then = treatment(&item).map_err(|wrong| item.tell(wrong));
        api.book().note(&item.key, Some(item.node.at));
        if let (Ok(when), Ok(then)) = (when, then) {
            rules.push(Rule { when, then });
        }
    }
    Policy::with(&rules)
}

/// Reads `429`, `5xx`, `500-504`, `403 limited`, `dns`.
fn when(name: &str) -> Result<When, Wrong> {
    let named = ENDS.iter().find(|(known, _)| *known == name);
    if let Some((_, when)) = named {
        return Ok(*when);
    }
    let read = if let Some(status) = name.strip_suffix(" limited") {
        status_code(status).map(When::RateLimited)
    } else if let Some(hundred) = name.strip_suffix("xx") {
        let first = hundred.parse::<u16>().ok().filter(|n| (1..=5).contains(n));
        first.map(|n| When::Statuses(n * 100, n * 100 + 99))
    } else if let Some((first, last)) = name.split_once('-') {
        let range = status_code(first).zip(status_code(last));
        range
            .filter(|(first, last)| first <= last)
            .map(|(first, last)| When::Statuses(first, last))
    } else {
        status_code(name).map(When::Status)
    };
    read.ok_or_else(|| no_end(name))
}

fn status_code(text: &str) -> Option<u16> {
    let code = text.parse().ok()?;
    (100..=599).contains(&code).then_some(code)
}

fn no_end(name: &str) -> Wrong {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Wrong::new("this is no status")
            .help("write 100 to 599, \"5xx\", \"500-504\" or \"403 limited\"");
    }
    unknown(
        "end of an attempt",
        name,
        ENDS.iter().map(|(name, _)| *name),
    )
}

/// Reads a word such as `neutral`, or a table of the three parts.
fn treatment(item: &Item<'_>) -> Result<Treatment, Wrong> {
    let Value::Table(_) = &item.node.value else {
        return choice(item, &TREATMENTS);
    };
    let fields = item.fields()?;
    let effect = fields.read("counts_as", |item| choice(item, &EFFECTS));
    let again = fields.read("retry", truth);
    let obey = fields.read("obey_retry_after", truth);
    if !fields.has("counts_as") {
        let wrong = Wrong::new("a treatment needs what it counts as");
        fields.tell("counts_as", wrong.help("say `counts_as = \"neutral\"`"));
    }
    fields.finish();
    Ok(Treatment {
        effect: effect.ok_or(Wrong::Told)?,
        retry: match again {
            Some(true) => Retry::Worthwhile,
            Some(false) | None => Retry::Pointless,
        },
        waiting: match obey {
            Some(true) => Waiting::Obey,
            Some(false) | None => Waiting::Ignore,
        },
    })
}

const ENDS: [(&str, When); 8] = [
    ("connect_timeout", When::Fault(Fault::ConnectTimeout)),
    ("read_timeout", When::Fault(Fault::ReadTimeout)),
    ("dns", When::Fault(Fault::Dns)),
    ("reset", When::Fault(Fault::Reset)),
    ("tls_handshake", When::Fault(Fault::TlsHandshake)),
    ("tls_certificate", When::Fault(Fault::TlsCertificate)),
    ("truncated_body", When::Fault(Fault::TruncatedBody)),
    ("cancelled", When::Cancelled),
];

const EFFECTS: [(&str, Effect); 8] = [
    ("success", Effect::Success),
    ("throttled", Effect::Throttled),
    ("server_failed", Effect::ServerFailed),
    ("network_failed", Effect::NetworkFailed),
    ("failed", Effect::OtherFailed),
    ("banned", Effect::Banned),
    ("neutral", Effect::Neutral),
    ("cancelled", Effect::Cancelled),
];

/// The treatments that have a name; `failed` counts and is not tried again, as a refused key is.
const TREATMENTS: [(&str, Treatment); 8] = [
    ("success", Treatment::SUCCESS),
    ("neutral", Treatment::NEUTRAL),
    ("cancelled", Treatment::CANCELLED),
    ("banned", Treatment::BAN),
    ("throttled", Treatment::THROTTLED),
    ("slow_down", Treatment::SLOW_DOWN),
    (
        "failed",
        Treatment::failing(Effect::OtherFailed).never_again(),
    ),
    ("server_failed", Treatment::failing(Effect::ServerFailed)),
];
