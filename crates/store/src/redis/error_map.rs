//! Errors of the server as errors of the store.
//!
//! A server names the error with the first word of its reply, also inside a script's own message.
//! No command or address is repeated: they may hold a secret.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::tls;
use crate::error::StoreError;

/// Maps an error that occurred before a command was sent.
pub(super) fn before(error: &RedisError) -> StoreError {
    if let Some(words) = tls::fault(error) {
        return words;
    }
    if error.kind() == ErrorKind::AuthenticationFailed || said(error, &["NOAUTH", "WRONGPASS"]) {
        return StoreError::refused(
            "redis does not take the password: give user and password in its address",
        );
    }
    if error.is_connection_dropped() && !error.is_connection_refusal() {
        return StoreError::unreachable(
            "redis hung up before it said anything: look whether it runs, and write rediss:// in its \
             address if it wants TLS there",
        );
    }
    if error.is_timeout() {
        return StoreError::unreachable(
            "redis does not answer: look whether it runs, and whether it speaks TLS there as its \
             address says",
        );
    }
    if error.kind() == ErrorKind::Parse {
        return StoreError::unreachable(
            "what answers in the place of redis does not speak as it does: look what listens there",
        );
    }
    if error.is_io_error() || said(error, PASSING) {
        return StoreError::unreachable(
            "redis cannot be reached: look whether it runs and listens there",
        );
    }
    after(error)
}

/// Maps an error that occurred after a command was sent.
pub(super) fn after(error: &RedisError) -> StoreError {
    let words = error.to_string();
    if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
        return StoreError::refused(NO_SCRIPT);
    }
    if words.contains("Function not found") {
        return StoreError::refused(NO_SCRIPT);
    }
    if words.contains("NOBELL") {
        return StoreError::refused(NO_BELL);
    }
    if said(error, &["NOPERM"]) || words.contains("unknown command") {
        return StoreError::refused(FORBIDDEN);
    }
    if words.contains("OTHERFORM") {
        return StoreError::refused(OTHER_FORM);
    }
    if words.contains("LOSTQUEUE") {
        return lost();
    }
    if said(error, &["OOM"]) || words.contains("OOM ") || words.contains("MISCONF") {
        return StoreError::full(
            "redis has no room left: raise its maxmemory, or free its disk; nothing was changed",
        );
    }
    if said(error, PASSING) {
        return StoreError::unreachable(
            "redis does not take commands now: it loads, is busy, or is a replica; nothing was changed",
        );
    }
    if said(error, &["MOVED", "ASK", "CROSSSLOT"]) {
        return StoreError::refused(
            "this node of the cluster does not keep the queue: give the address of the one that does",
        );
    }
    if let Some((_, key)) = words.split_once("BADKEY ") {
        let key = key.split(' ').next().unwrap_or_default();
        return StoreError::damaged(format_args!(
            "the key {key} of redis is not what it should be: somebody else writes there, or it was \
             lost; nothing was changed"
        ));
    }
    if error.kind() == ErrorKind::Parse {
        return StoreError::doubtful(
            "the answer of redis cannot be read: it may or may not have happened",
        );
    }
    if error.is_io_error() || error.is_connection_dropped() {
        return StoreError::doubtful(
            "the connection to redis was lost: it may or may not have happened",
        );
    }
    StoreError::refused(format_args!("redis refused: {}", first_line(&words)))
}

/// Returns `true` if the connection is unusable, also because its server became a replica.
pub(super) fn breaks(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || said(error, &["READONLY", "MASTERDOWN"])
}

/// Returns `true` if the server no longer knows a script: it was restarted, or its scripts were
/// flushed.
pub(super) fn is_unknown_script(error: &StoreError) -> bool {
    error.is_refused() && error.to_string() == NO_SCRIPT
}

/// Returns `true` if the server denies this user a command.
pub(super) fn is_forbidden(error: &StoreError) -> bool {
    error.is_refused() && error.to_string() == FORBIDDEN
}

/// Reports that all data was lost, which differs from all work being done.
pub(super) fn lost() -> StoreError {
    StoreError::lost(
        "the queue was lost: redis was emptied or replaced while it was in use; it begins anew by \
         itself in a moment, without its jobs: submit again what is not done",
    )
}

/// Reports a reply that no script of this version gives.
pub(super) fn strange() -> StoreError {
    StoreError::damaged("redis gave an answer that is not ours: use one version on all machines")
}

fn said(error: &RedisError, codes: &[&str]) -> bool {
    let words = error.to_string();
    let code = error.code().unwrap_or_default();
    // Redis 6.2 repeats the leading sign of an error that a command in a script raised.
    let within = |known: &str| [" ", "-"].map(|sign| format!("{sign}{known} "));
    codes
        .iter()
        .any(|known| code == *known || within(known).iter().any(|known| words.contains(known)))
}

fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

const NO_SCRIPT: &str = "redis does not know the script: send it anew";

const OTHER_FORM: &str = "redis holds this queue as another version wrote it: finish its jobs with that one, or give another name";

/// The braces surround the queue's name; `outflow` is the default.
const FORBIDDEN: &str = "this user of redis has too few rights: give it the keys and channels of the queue \
     (~{outflow}:* &{outflow}:*), scripts, INFO, and all commands that are not for operators";

const NO_BELL: &str = "this user of redis has too few rights: give it the channel by which machines wake each other \
     (&{outflow}:bell, with the queue's name in the braces)";

/// Errors that may pass without intervention; nothing was changed.
const PASSING: &[&str] = &[
    "LOADING",
    "BUSY",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
];
