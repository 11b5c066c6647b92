//! The `RateLimit` fields of the IETF, from the first drafts to the current one.
//!
//! Three generations are in use: separate `RateLimit-Limit`, `-Remaining` and `-Reset`; then
//! `RateLimit: limit=100, remaining=50, reset=5`; then named policies, `"burst";r=50;t=30` with
//! their quotas in `RateLimit-Policy: "burst";q=100;w=60`. They are told apart by their form, not
//! by configuration, for servers mix them.

use core::time::Duration;

use super::structured::{Bare, Member, members};
use super::{Dialect, Hint, Label, Malformed, Noted, Part, Reading, Unit, after, named};

pub(super) fn read(reading: &mut Reading<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let rest = after(name, "ratelimit")?;
    reading.listens_to(Dialect::Ietf)?;
    let field = named(&FIELDS, rest)?;
    Some(match field {
        Field::Named => each(reading, value, named_or_keyed),
        Field::Quotas => quotas(reading, value, Dialect::Ietf),
        Field::Single(part) => part
            .of(about(), value, reading.now())
            .map(|hint| reading.note(hint)),
    })
}

/// `100`, `100;w=60` or `10, 10;w=1, 50;w=60`: the one in force, and perhaps all that there are.
pub(super) fn quotas(reading: &mut Reading<'_>, value: &[u8], dialect: Dialect) -> Noted {
    each(reading, value, |member| match member.value {
        Bare::Whole(_) => policy(member).map(|hint| Hint { dialect, ..hint }),
        Bare::Name(_) | Bare::Other => Err(Malformed),
    })
}

#[derive(Clone, Copy)]
enum Field {
    Named,
    Quotas,
    Single(Part),
}

const FIELDS: [(&str, Field); 5] = [
    ("", Field::Named),
    ("-policy", Field::Named),
    ("-limit", Field::Quotas),
    ("-remaining", Field::Single(Part::Remaining)),
    ("-reset", Field::Single(Part::Reset)),
];

/// Notes every member, or none if one of them makes no sense.
fn each(
    reading: &mut Reading<'_>,
    value: &[u8],
    hint: impl Fn(&Member<'_>) -> Result<Hint, Malformed>,
) -> Noted {
    let known = || members(value).ok_or(Malformed);
    if known()?.any(|member| hint(&member).is_err()) {
        return Err(Malformed);
    }
    for partial in known()?.filter_map(|member| hint(&member).ok()) {
        reading.note(partial);
    }
    Ok(())
}

fn named_or_keyed(member: &Member<'_>) -> Result<Hint, Malformed> {
    match (member.key, member.value) {
        (Some(key), value) => keyed(key, value),
        (None, Bare::Name(name)) => {
            let group = Some(Label::new(name).ok_or(Malformed)?);
            policy(member).map(|hint| Hint { group, ..hint })
        }
        (None, Bare::Whole(_)) => policy(member),
        (None, Bare::Other) => Err(Malformed),
    }
}

/// `limit=100` of the second generation; keys that we do not know say nothing.
fn keyed(key: &[u8], value: Bare<'_>) -> Result<Hint, Malformed> {
    let number = whole(Some(value))?;
    let mut hint = about();
    match key {
        b"limit" => hint.limit = number,
        b"remaining" => hint.remaining = number,
        b"reset" => hint.resets_in = number.map(Duration::from_secs),
        _ => {}
    }
    Ok(hint)
}

/// The parameters of a policy, and a number that stands for its quota.
fn policy(member: &Member<'_>) -> Result<Hint, Malformed> {
    let param = |name: &[u8]| whole(member.param(name));
    let quota = match member.value {
        Bare::Whole(quota) => Some(quota),
        Bare::Name(_) | Bare::Other => param(b"q")?,
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

fn unit(quota_unit: Option<Bare<'_>>) -> Result<Unit, Malformed> {
    match quota_unit {
        None | Some(Bare::Name(b"requests")) => Ok(Unit::Requests),
        Some(Bare::Name(b"content-bytes")) => Ok(Unit::Bytes),
        Some(Bare::Name(b"concurrent-requests")) => Ok(Unit::Concurrent),
        Some(_) => Err(Malformed),
    }
}

/// A whole number where there is a value at all.
fn whole(value: Option<Bare<'_>>) -> Result<Option<u64>, Malformed> {
    match value {
        None => Ok(None),
        Some(Bare::Whole(number)) => Ok(Some(number)),
        Some(Bare::Name(_) | Bare::Other) => Err(Malformed),
    }
}

const fn about() -> Hint {
    Hint::about(Dialect::Ietf, Unit::Requests)
}
