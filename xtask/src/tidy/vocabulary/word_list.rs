//! The banned words, and the places where one of them has another meaning.

/// Words that are banned for one reason.
pub(super) struct WordRule {
    /// All forms in lower case; a phrase has two words.
    pub(super) words: &'static [&'static str],
    /// Replacement in the message.
    pub(super) advice: &'static str,
}

const fn ban(words: &'static [&'static str], advice: &'static str) -> WordRule {
    WordRule { words, advice }
}

/// Legitimate use of a banned word.
pub(super) struct AllowedUse {
    /// Beginnings of paths.
    pub(super) paths: &'static [&'static str],
    pub(super) words: &'static [&'static str],
    /// Reason for the exception.
    pub(super) reason: &'static str,
}

/// Every banned word; `docs/glossary.md` has the words of the project.
pub(super) const BANNED_WORDS: &[WordRule] = &[
    ban(
        &["whoever", "whomever", "those who"],
        "name the component (caller, worker, operator)",
    ),
    ban(
        &["nobody", "somebody", "everybody", "anybody"],
        "name the component (no caller, a worker, every process)",
    ),
    ban(&["told"], "name the action (report, notify, cancel, advertise, mark)"),
    ban(
        &["anew"],
        "write `again`, or name the action (retry, restart, reinitialize)",
    ),
    ban(&["under way"], "write `in flight` for attempts, `running` for jobs"),
    ban(
        &["door", "doors", "doorman", "doormen"],
        "write `upstream` for admission, `listener` or `guard` for a port",
    ),
    ban(&["ward", "wards"], "write `circuit` (health and in-flight attempts)"),
    ban(&["household"], "write `background services`"),
    ban(&["takings"], "write `fleet share`"),
    ban(&["crew", "crews", "staff"], "write `worker pool` or `lane executor`"),
    ban(&["station", "stations"], "write `app state`"),
    ban(
        &["shelf", "shelves"],
        "write `pool` for connections, `cache` for responses",
    ),
    ban(&["bell", "bells"], "write `timer`"),
    ban(&["seat", "seats"], "write `slot`, `group index` or `follower`"),
    ban(&["guest", "guests"], "write `connection`"),
    ban(
        &["crowd", "crowds", "crowded"],
        "write `task group`, `wait queue` or `too many connections`",
    ),
    ban(
        &["pulse", "pulses"],
        "write `throughput`, `heartbeat` or `idle tracker`",
    ),
    ban(
        &["outlook", "outlooks"],
        "write `wait estimate` for a call, `progress` for an action",
    ),
    ban(
        &["mishap", "mishaps", "mistake", "mistakes"],
        "write `diagnostic` for configuration, `error` otherwise",
    ),
    ban(&["misfit", "misfits"], "write `shape error`"),
    ban(&["deed", "deeds"], "write `job payload`"),
    ban(&["papers"], "write `certificates` or `completions`"),
    ban(&["sitting", "sittings"], "write `run loop`"),
    ban(
        &["reckon", "reckons", "reckoned", "reckoning"],
        "write `count`, `compute` or `estimate`",
    ),
    ban(
        &["befall", "befalls", "befell", "befallen"],
        "write `happens to`, or name the event",
    ),
    ban(
        &["foresee", "foresees", "foreseen", "foreseeing"],
        "write `forecast` for a simulation, `estimate` otherwise",
    ),
    ban(
        &["heed", "heeds", "heeded", "heeding"],
        "write `apply`, `follow` or `count`",
    ),
];

/// Short on purpose: an exception is a second meaning of a word, never unfinished work.
pub(super) const ALLOWED_USES: &[AllowedUse] = &[
    AllowedUse {
        paths: &[
            "crates/cli/src/commands/config/schema.rs",
            "crates/client/config.default.toml",
            "crates/client/src/config/api.rs",
        ],
        words: &["anybody"],
        reason: "a value of `trust` in the configuration of users",
    },
    AllowedUse {
        paths: &[
            "crates/store/src/embedded/disk/",
            "crates/store/src/redis/lua/",
            "crates/store/tests/store/embedded/durability.rs",
            "crates/store/tests/store/redis/chunks.rs",
        ],
        words: &["told"],
        reason: "a stored column and field, which earlier programs read too",
    },
    AllowedUse {
        paths: &[
            "crates/store/src/embedded/disk/",
            "crates/store/tests/store/embedded/durability.rs",
        ],
        words: &["mishap"],
        reason: "a stored table, which earlier programs read too",
    },
    AllowedUse {
        paths: &[
            "crates/store/src/redis.rs",
            "crates/store/src/redis/lua/",
            "crates/store/tests/store/redis_faults/acl.rs",
        ],
        words: &["bell"],
        reason: "a Redis channel, which earlier programs and ACLs of users name",
    },
    AllowedUse {
        paths: &[
            "crates/cli/src/commands/bulk/run/summary.rs",
            "crates/cli/tests/program/commands/bulk_rerun.rs",
        ],
        words: &["sitting"],
        reason: "a field of the report of `bulk run`, which programs of users read",
    },
];
