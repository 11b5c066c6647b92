//! Errors of the server as errors of the store.
//!
//! A server names the error with the first word of its reply, also inside a script's own message.
//! No command or address is repeated: they may hold a secret.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::tls;
use crate::error::StoreError;

/// Maps an error that occurred before a command was sent.
pub(super) fn map_connect_error(error: &RedisError) -> StoreError {
    if let Some(fault) = tls::map_handshake_error(error) {
        return fault;
    }
    if error.kind() == ErrorKind::AuthenticationFailed || has_code(error, &["NOAUTH", "WRONGPASS"]) {
        return StoreError::refused(WRONG_PASSWORD);
    }
    if error.is_connection_dropped() && !error.is_connection_refusal() {
        return StoreError::unreachable(
            "redis closed the connection before its first reply: check that it runs, and write rediss:// in its \
             address if its port expects TLS",
        );
    }
    if error.is_timeout() {
        return StoreError::unreachable(
            "redis does not answer: check that it runs, and that the port speaks TLS if its \
             address says so",
        );
    }
    if error.kind() == ErrorKind::Parse {
        return StoreError::unreachable(
            "the server at this address does not speak the Redis protocol: check host and port",
        );
    }
    if error.is_io_error() || has_code(error, TRANSIENT) {
        return StoreError::unreachable("redis cannot be reached: check that it runs, and its host and port");
    }
    map_reply_error(error)
}

/// Maps an error that occurred after a command was sent.
pub(super) fn map_reply_error(error: &RedisError) -> StoreError {
    let words = error.to_string();
    if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
        return StoreError::refused(NO_SCRIPT);
    }
    if words.contains("Function not found") {
        return StoreError::refused(NO_SCRIPT);
    }
    if words.contains("NOCHANNEL") {
        return StoreError::refused(NO_CHANNEL);
    }
    if has_code(error, &["NOPERM"]) || words.contains("unknown command") {
        return StoreError::refused(FORBIDDEN);
    }
    if words.contains("OTHERFORM") {
        return StoreError::refused(OTHER_FORM);
    }
    if words.contains("LOSTLEDGER") {
        return StoreError::lost("redis lost the accounts of the shared limits: they stay closed for a window");
    }
    if words.contains("LOSTQUEUE") {
        return queue_lost();
    }
    if has_code(error, &["OOM"]) || words.contains("OOM ") || words.contains("MISCONF") {
        return StoreError::full(
            "redis has no memory or disk space left: raise maxmemory or free its disk; nothing was changed",
        );
    }
    if has_code(error, TRANSIENT) {
        return StoreError::unreachable(
            "redis takes no commands now: it is loading, busy, or a replica; nothing was changed",
        );
    }
    if has_code(error, &["MOVED", "ASK"]) {
        return StoreError::unreachable(
            "another node of the cluster holds the keys now; nothing was changed, and the next call goes there",
        );
    }
    if let Some((_, key)) = words.split_once("BADKEY ") {
        let key = key.split(' ').next().unwrap_or_default();
        return StoreError::damaged(format_args!(
            "the key {key} of redis has unexpected content: another program writes there, or it was \
             lost; nothing was changed"
        ));
    }
    if error.kind() == ErrorKind::Parse {
        return StoreError::doubtful("the reply of redis cannot be read: the call may or may not have been applied");
    }
    if error.is_io_error() || error.is_connection_dropped() {
        return StoreError::doubtful("the connection to redis was lost: the call may or may not have been applied");
    }
    StoreError::refused(format_args!("redis refused: {}", first_line(&words)))
}

/// Returns `true` if the connection is unusable, also because its server is no longer the primary of the queue.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || has_code(error, &["READONLY", "MASTERDOWN", "MOVED", "ASK", "CLUSTERDOWN"])
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

/// Returns true if the server asks for another password, or for one.
pub(super) fn is_wrong_password(error: &StoreError) -> bool {
    error.is_refused() && error.to_string() == WRONG_PASSWORD
}

/// Reports that all data was lost, which differs from all work being done.
pub(super) fn queue_lost() -> StoreError {
    StoreError::lost(
        "the queue was lost: redis was emptied or replaced while it was in use; it restarts by \
         itself in a moment, without its jobs: submit unfinished jobs again",
    )
}

/// Reports a reply that no script of this version gives.
pub(super) fn unexpected_reply() -> StoreError {
    StoreError::damaged("redis gave an unexpected reply: use one version on all machines")
}

fn has_code(error: &RedisError, codes: &[&str]) -> bool {
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

const WRONG_PASSWORD: &str = "redis rejects the password: set user and password in its address";

const NO_SCRIPT: &str = "redis does not know the script: send it again";

const OTHER_FORM: &str = "redis holds this queue in the layout of another version: finish its jobs with that version, or set another queue name";

/// The braces surround the queue's name; `outflow` is the default.
const FORBIDDEN: &str = "this redis user lacks permissions: allow it the keys and channels of the queue \
     (~{outflow}:* &{outflow}:*), scripts, INFO, and all commands that are not administrative";

const NO_CHANNEL: &str = "this redis user lacks permissions: allow it the channels of the queue \
     (&{outflow}:*, with the queue's name in the braces)";

/// Errors that may pass without intervention; nothing was changed.
const TRANSIENT: &[&str] = &[
    "LOADING",
    "BUSY",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
];
