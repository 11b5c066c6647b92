//! The banned words, and the places where one of them has another meaning.

/// Words that are banned for one reason.
pub(super) struct WordRule {
    /// All forms in lower case; a phrase has two words.
    pub(super) words: &'static [&'static str],
    /// Replacement in the message.
    pub(super) advice: &'static str,
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
    WordRule {
        words: &["whoever", "whomever", "those who"],
        advice: "name the component (caller, worker, operator)",
    },
    WordRule {
        words: &["nobody", "somebody", "everybody", "anybody"],
        advice: "name the component (no caller, a worker, every process)",
    },
    WordRule {
        words: &["told"],
        advice: "name the action (report, notify, cancel, advertise, mark)",
    },
    WordRule {
        words: &["anew"],
        advice: "write `again`, or name the action (retry, restart, reinitialize)",
    },
    WordRule {
        words: &["under way"],
        advice: "write `in flight` for attempts, `running` for jobs",
    },
    WordRule {
        words: &["door", "doors", "doorman", "doormen"],
        advice: "write `upstream` for admission, `listener` or `guard` for a port",
    },
    WordRule {
        words: &["ward", "wards"],
        advice: "write `circuit` (health and in-flight attempts)",
    },
    WordRule {
        words: &["household"],
        advice: "write `background services`",
    },
    WordRule {
        words: &["takings"],
        advice: "write `fleet share`",
    },
    WordRule {
        words: &["crew", "crews", "staff"],
        advice: "write `worker pool` or `lane executor`",
    },
    WordRule {
        words: &["station", "stations"],
        advice: "write `app state`",
    },
    WordRule {
        words: &["shelf", "shelves"],
        advice: "write `pool` for connections, `cache` for responses",
    },
    WordRule {
        words: &["bell", "bells"],
        advice: "write `timer`",
    },
    WordRule {
        words: &["seat", "seats"],
        advice: "write `slot`, `group index` or `follower`",
    },
    WordRule {
        words: &["guest", "guests"],
        advice: "write `connection`",
    },
    WordRule {
        words: &["crowd", "crowds", "crowded"],
        advice: "write `task group`, `wait queue` or `too many connections`",
    },
    WordRule {
        words: &["pulse", "pulses"],
        advice: "write `throughput`, `heartbeat` or `idle tracker`",
    },
    WordRule {
        words: &["outlook", "outlooks"],
        advice: "write `wait estimate` for a call, `progress` for an action",
    },
    WordRule {
        words: &["mishap", "mishaps", "mistake", "mistakes"],
        advice: "write `diagnostic` for configuration, `error` otherwise",
    },
    WordRule {
        words: &["misfit", "misfits"],
        advice: "write `shape error`",
    },
    WordRule {
        words: &["deed", "deeds"],
        advice: "write `job payload`",
    },
    WordRule {
        words: &["papers"],
        advice: "write `certificates` or `completions`",
    },
    WordRule {
        words: &["sitting", "sittings"],
        advice: "write `run loop`",
    },
    WordRule {
        words: &["reckon", "reckons", "reckoned", "reckoning"],
        advice: "write `count`, `compute` or `estimate`",
    },
    WordRule {
        words: &["befall", "befalls", "befell", "befallen"],
        advice: "write `happens to`, or name the event",
    },
    WordRule {
        words: &["foresee", "foresees", "foreseen", "foreseeing"],
        advice: "write `forecast` for a simulation, `estimate` otherwise",
    },
    WordRule {
        words: &["heed", "heeds", "heeded", "heeding"],
        advice: "write `apply`, `follow` or `count`",
    },
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
        paths: &["crates/store/src/embedded/disk/", "crates/store/src/redis/lua/"],
        words: &["told"],
        reason: "a stored column and field, which earlier programs read too",
    },
    AllowedUse {
        paths: &["crates/store/src/embedded/disk/", "crates/store/src/embedded/ops/dead_letters.rs"],
        words: &["mishap"],
        reason: "a stored table, which earlier programs read too",
    },
    AllowedUse {
        paths: &[
            "crates/store/src/redis.rs",
            "crates/store/src/redis/error_map.rs",
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
