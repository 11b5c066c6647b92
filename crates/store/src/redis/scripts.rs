//! The scripts, each with the keys that it names.
//!
//! A step of a store is one script, so that it happens entirely or not at all. Every key that is always
//! the same is declared; those that depend on what is found (a tenant's list) are made by the script from
//! the prefix, which holds the queue's name in braces: a cluster keeps all of them on one node.

use redis::Script;

/// One script, as it is sent.
pub(super) struct Code {
    pub(super) text: String,
    pub(super) hash: String,
    pub(super) keys: &'static [&'static str],
}

/// All of them.
pub(super) struct Scripts {
    pub(super) greet: Code,
    pub(super) submit: Code,
    pub(super) claim: Code,
    pub(super) settle: Code,
    pub(super) beat: Code,
    pub(super) reap: Code,
    pub(super) rule: Code,
    pub(super) action: Code,
    pub(super) sweep: Code,
    pub(super) tell: Code,
    pub(super) dead: Code,
    pub(super) tidy: Code,
    pub(super) snapshot: Code,
}

impl Scripts {
    pub(super) fn new() -> Self {
        let step = |own| code(&[BASE, SEATS, JOBS, own], KEYS);
        Self {
            greet: code(&[include_str!("lua/greet.lua")], KEYS),
            submit: step(include_str!("lua/submit.lua")),
            claim: code(&[BASE, SEATS, JOBS, CLAIM, GIVE], KEYS),
            settle: step(include_str!("lua/settle.lua")),
            beat: code(
                &[BASE, include_str!("lua/beat.lua")],
                &["epoch", "sessions"],
            ),
            reap: step(include_str!("lua/reap.lua")),
            rule: step(include_str!("lua/rule.lua")),
            action: step(include_str!("lua/action.lua")),
            sweep: step(include_str!("lua/sweep.lua")),
            tell: step(include_str!("lua/tell.lua")),
            dead: step(include_str!("lua/dead.lua")),
            tidy: step(include_str!("lua/tidy.lua")),
            snapshot: step(include_str!("lua/snapshot.lua")),
        }
    }
}

/// The script of these parts: it begins with a table of its keys.
///
/// Each part is a function within the one before it, which costs nothing to read and much less to run:
/// what a function needs of its own level is looked for along the whole stack, what it needs of the levels
/// around it is at hand. All parts on one level took 100 µs to set up before any of them did a thing.
fn code(parts: &[&str], keys: &'static [&'static str]) -> Code {
    let named = keys
        .iter()
        .zip(1..)
        .map(|(key, n)| format!("{key} = KEYS[{n}]"));
    let table: Vec<String> = named.collect();
    let mut text = format!("local K = {{ {} }}\n", table.join(", "));
    text.push_str(&parts.join("\nreturn (function()\n"));
    text.push_str(&"\nend)()".repeat(parts.len().saturating_sub(1)));
    let hash = Script::new(&text).get_hash().to_owned();
    Code { text, hash, keys }
}

const BASE: &str = include_str!("lua/base.lua");
const SEATS: &str = include_str!("lua/seats.lua");
const JOBS: &str = include_str!("lua/jobs.lua");
const CLAIM: &str = include_str!("lua/claim.lua");
// On one level: a function reaches at most 60 names of the levels around it.
const GIVE: &str = concat!(include_str!("lua/turns.lua"), include_str!("lua/give.lua"));

/// What each is: the queue's identity and counts; tenants; leases of sessions; names that are taken; lanes
/// that have work; tenants without work, by when it ended; all tenants by name; dead letters by place;
/// actions by name, by when they are out of time, by when they are forgotten, and those whose end is to be
/// told; slots of limits; rules of tenants.
pub(super) const KEYS: &[&str] = &[
    "epoch", "t", "sessions", "names", "lanes", "idle", "who", "dead", "actions", "adue", "aend",
    "ripe", "slots", "rules",
];
