//! The `RateLimit` fields of the IETF, from the first drafts to the current one.
//!
//! Three generations are in use: separate `RateLimit-Limit`, `-Remaining` and `-Reset`; then
//! `RateLimit: limit=100, remaining=50, reset=5`; then named policies, `"burst";r=50;t=30` with
//! their quotas in `RateLimit-Policy: "burst";q=100;w=60`. The form identifies them, not
//! configuration, because servers mix them.

use core::time::Duration;

use super::structured_fields::{BareItem, FieldMember, members};
use super::{Dialect, Hint, HintLabel, HintPart, HintReader, HintUnit, MalformedHint, Noted, after, named};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let rest = after(name, "ratelimit")?;
    reading.listens_to(Dialect::Ietf)?;
    let field = named(&FIELDS, rest)?;
    Some(match field {
        RateLimitField::Named => each(reading, value, named_or_keyed),
        RateLimitField::Quotas => quotas(reading, value, Dialect::Ietf),
        RateLimitField::Single(part) => part.apply(about(), value, reading.now()).map(|hint| reading.note(hint)),
    })
}

/// Parses `100`, `100;w=60` or `10, 10;w=1, 50;w=60`: the quota in force, and perhaps all quotas.
pub(super) fn quotas(reading: &mut HintReader<'_>, value: &[u8], dialect: Dialect) -> Noted {
    each(reading, value, |member| match member.value {
        BareItem::Whole(_) => policy(member).map(|hint| Hint { dialect, ..hint }),
        BareItem::Name(_) | BareItem::Other => Err(MalformedHint),
    })
}

#[derive(Clone, Copy)]
enum RateLimitField {
    Named,
    Quotas,
    Single(HintPart),
}

const FIELDS: [(&str, RateLimitField); 5] = [
    ("", RateLimitField::Named),
    ("-policy", RateLimitField::Named),
    ("-limit", RateLimitField::Quotas),
    ("-remaining", RateLimitField::Single(HintPart::Remaining)),
    ("-reset", RateLimitField::Single(HintPart::Reset)),
];

/// Records every member, or none if one is malformed.
fn each(
    reading: &mut HintReader<'_>,
    value: &[u8],
    hint: impl Fn(&FieldMember<'_>) -> Result<Hint, MalformedHint>,
) -> Noted {
    let known = || members(value).ok_or(MalformedHint);
    if known()?.any(|member| hint(&member).is_err()) {
        return Err(MalformedHint);
    }
    for partial in known()?.filter_map(|member| hint(&member).ok()) {
        reading.note(partial);
    }
    Ok(())
}

fn named_or_keyed(member: &FieldMember<'_>) -> Result<Hint, MalformedHint> {
    match (member.key, member.value) {
        (Some(key), value) => keyed(key, value),
        (None, BareItem::Name(name)) => {
            let group = Some(HintLabel::new(name).ok_or(MalformedHint)?);
            policy(member).map(|hint| Hint { group, ..hint })
        }
        (None, BareItem::Whole(_)) => policy(member),
        (None, BareItem::Other) => Err(MalformedHint),
    }
}

/// Parses `limit=100` of the second generation; unknown keys are skipped.
fn keyed(key: &[u8], value: BareItem<'_>) -> Result<Hint, MalformedHint> {
    let number = whole_number(Some(value))?;
    let mut hint = about();
    match key {
        b"limit" => hint.limit = number,
        b"remaining" => hint.remaining = number,
        b"reset" => hint.resets_in = number.map(Duration::from_secs),
        _ => {}
    }
    Ok(hint)
}

/// Parses the parameters of a policy, with an optional leading number for its quota.
fn policy(member: &FieldMember<'_>) -> Result<Hint, MalformedHint> {
    let param = |name: &[u8]| whole_number(member.param(name));
    let quota = match member.value {
        BareItem::Whole(quota) => Some(quota),
        BareItem::Name(_) | BareItem::Other => param(b"q")?,
    };
    Ok(Hint {
        limit: quota,
        window: param(b"w")?.map(Duration::from_secs),
        remaining: param(b"r")?,
        resets_in: param(b"t")?.map(Duration::from_secs),
        unit: unit(member.param(b"qu"))?,
        ..about()
    })
}

fn unit(quota_unit: Option<BareItem<'_>>) -> Result<HintUnit, MalformedHint> {
    match quota_unit {
        None | Some(BareItem::Name(b"requests")) => Ok(HintUnit::Requests),
        Some(BareItem::Name(b"content-bytes")) => Ok(HintUnit::Bytes),
        Some(BareItem::Name(b"concurrent-requests")) => Ok(HintUnit::Concurrent),
        Some(_) => Err(MalformedHint),
    }
}

/// Parses a whole number if there is a value.
fn whole_number(value: Option<BareItem<'_>>) -> Result<Option<u64>, MalformedHint> {
    match value {
        None => Ok(None),
        Some(BareItem::Whole(number)) => Ok(Some(number)),
        Some(BareItem::Name(_) | BareItem::Other) => Err(MalformedHint),
    }
}

const fn about() -> Hint {
    Hint::about(Dialect::Ietf, HintUnit::Requests)
}
