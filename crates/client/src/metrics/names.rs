//! Every name that reaches an operator: metrics, their labels, and the keys of log lines.
//!
//! Names are an interface: dashboards and alerts break when one changes. They stand in this file and
//! in no other, so that a change is seen as one, and `docs/metrics.md` explains each of them: the two
//! are compared whenever the project is checked. The five `external_` metrics and those without a
//! prefix are the names that users of earlier systems know; `outflow_` marks our own.

use super::{Key, Label, Metric};

pub(crate) const CALLS: Metric = Metric::counter(
    "external_requests_total",
    &[label::API],
    "Calls that ended, whatever came of them.",
);
pub(crate) const DURATION: Metric = Metric::histogram(
    "external_request_duration_seconds",
    &[label::API, label::STATUS],
    "From a call to its end, waiting and retries included.",
);
pub(crate) const ABANDONED: Metric = Metric::counter(
    "outflow_abandoned_total",
    &[label::API],
    "Calls whose caller left before they ended.",
);
pub(crate) const FAILURES: Metric = Metric::counter(
    "external_failures_total",
    &[label::API, label::REASON],
    "Attempts that failed.",
);
pub(crate) const CIRCUIT: Metric = Metric::gauge(
    "external_circuit_state",
    &[label::API, label::STATE],
    "1 for the state the circuit is in, 0 for the others.",
);
pub(crate) const WAIT: Metric = Metric::histogram(
    "external_ratelimit_wait_seconds",
    &[label::API],
    "How long admitted calls waited for their permit.",
);
pub(crate) const REQUESTS: Metric = Metric::counter(
    "requests_total",
    &[label::API, label::CODE],
    "Attempts by the code of their answer.",
);
pub(crate) const COUNT_2XX: Metric =
    Metric::gauge("count_2xx", &[label::API], "Successes in the error window.");
pub(crate) const COUNT_429: Metric =
    Metric::gauge("count_429", &[label::API], "Refusals in the error window.");
pub(crate) const COUNT_5XX: Metric = Metric::gauge(
    "count_5xx",
    &[label::API],
    "Failures of the server in the error window.",
);
pub(crate) const COUNT_OTHER: Metric = Metric::gauge(
    "count_other",
    &[label::API],
    "Other counted failures in the error window.",
);
pub(crate) const CACHE_HITS: Metric = Metric::counter(
    "cache_hits_total",
    &[label::API],
    "Calls for which nothing had to be sent.",
);
pub(crate) const CACHE_MISSES: Metric = Metric::counter(
    "cache_miss_total",
    &[label::API],
    "Calls that asked the cache and had to be sent.",
);
pub(crate) const RATE: Metric = Metric::gauge(
    "rate_current",
    &[label::API],
    "The slowest rate in effect, in calls a second; 0 if nothing is limited.",
);
pub(crate) const CONCURRENCY: Metric = Metric::gauge(
    "concurrency_current",
    &[label::API],
    "How many calls may be in flight.",
);
pub(crate) const ERROR_RATE: Metric = Metric::gauge(
    "err_rate_30s",
    &[label::API],
    "The share of failures in the error window.",
);
pub(crate) const LATENCY: Metric = Metric::histogram(
    "latency_ms",
    &[label::API],
    "From sending an attempt to the first byte of its answer.",
);
pub(crate) const SLEEP: Metric = Metric::histogram(
    "sleep_ms",
    &[label::API],
    "Pauses that were imposed: by the server, by the state, before a retry.",
);
pub(crate) const ADMITTED: Metric = Metric::counter(
    "outflow_admitted_total",
    &[label::API, label::GROUP],
    "Permits given.",
);
pub(crate) const REFUSED: Metric = Metric::counter(
    "outflow_refused_total",
    &[label::API, label::GROUP, label::CAUSE],
    "Calls that were not let through.",
);
pub(crate) const REFUNDED: Metric = Metric::counter(
    "outflow_refunded_total",
    &[label::API, label::GROUP],
    "Permits given back unused.",
);
pub(crate) const WAITING: Metric = Metric::gauge(
    "outflow_waiting",
    &[label::API],
    "Calls that wait for their permit.",
);
pub(crate) const IN_FLIGHT: Metric = Metric::gauge(
    "outflow_in_flight",
    &[label::API],
    "Permits that are neither settled nor given back.",
);
pub(crate) const RETRIES: Metric = Metric::counter(
    "outflow_retries_total",
    &[label::API, label::REASON],
    "Attempts that were repeated.",
);
pub(crate) const UNRESOLVED: Metric = Metric::counter(
    "outflow_unresolved_total",
    &[label::API, label::CLASS],
    "Attempts whose name had no address.",
);
pub(crate) const TRANSITIONS: Metric = Metric::counter(
    "outflow_transitions_total",
    &[label::API, label::REASON],
    "Changes of state.",
);
pub(crate) const DRIFT: Metric = Metric::gauge(
    "outflow_drift_ratio",
    &[label::API, label::GROUP],
    "The limit in effect as a share of the configured one.",
);
pub(crate) const FOREIGN: Metric = Metric::counter(
    "outflow_foreign_units_total",
    &[label::API, label::GROUP],
    "Units that others used with the same key.",
);
pub(crate) const MALFORMED: Metric = Metric::counter(
    "outflow_malformed_headers_total",
    &[label::API],
    "Headers about limits that could not be understood.",
);
pub(crate) const WARNINGS: Metric = Metric::counter(
    "outflow_limit_warnings_total",
    &[label::API, label::WARNING],
    "Warnings of limits: little remains, or pacing is capped.",
);
pub(crate) const USAGE_ALERT: Metric = Metric::gauge(
    "outflow_usage_alert",
    &[label::API, label::GROUP],
    "1 while the use of a limit is above its threshold.",
);
pub(crate) const LOOKUPS: Metric = Metric::counter(
    "outflow_cache_lookups_total",
    &[label::API, label::LOOKUP],
    "What the cache had.",
);
pub(crate) const TASK_RESTARTS: Metric = Metric::counter(
    "outflow_task_restarts_total",
    &[label::TASK],
    "Background work that was started again.",
);
pub(crate) const TASK_RUNNING: Metric = Metric::gauge(
    "outflow_task_running",
    &[label::TASK],
    "1 while background work runs.",
);
pub(crate) const LINES_DROPPED: Metric = Metric::counter(
    "outflow_log_lines_dropped_total",
    &[],
    "Lines that were not written rather than waited for.",
);

pub(crate) const RELOADS: Metric = Metric::counter(
    "outflow_reloads_total",
    &[label::RESULT],
    "Configurations that were read again, by what became of them.",
);
pub(crate) const RELOAD_OK: Metric = Metric::gauge(
    "outflow_reload_ok",
    &[],
    "0 while the configuration that was last read has mistakes and is not in effect.",
);

/// The metrics of the bulk engine. The first five are the names that users of an earlier system know.
pub mod bulk {
    use super::{Metric, label};

    /// One series for each level of a tenant.
    pub const CONGESTION_LEVEL: Metric = Metric::gauge(
        "bulk_action_congestion_level",
        &[label::GROUP_ID, label::LEVEL],
        "1 for the level of a tenant's backlog, 0 for the others.",
    );
    /// What jobs were put off by, or would have been.
    pub const BACKOFF: Metric = Metric::histogram(
        "bulk_action_congestion_backoff_ms",
        &[label::GROUP_ID],
        "How long jobs were put off, or the formula's estimate when they came in.",
    );
    /// How often a finished job was put back.
    pub const AVG_THROTTLE: Metric = Metric::gauge(
        "bulk_action_congestion_avg_throttle_per_job",
        &[label::GROUP_ID],
        "How often a finished job was refused or put off on average.",
    );
    /// How many jobs of a tenant wait for room.
    pub const NON_READY: Metric = Metric::gauge(
        "bulk_action_congestion_non_ready_count",
        &[label::GROUP_ID],
        "Jobs that wait because there is no room for them.",
    );
    /// What was not refused.
    pub const SAVED_SPINS: Metric = Metric::counter(
        "bulk_action_congestion_saved_spins_total",
        &[],
        "Refusals that a fixed backoff would have met, less those that happened.",
    );
    /// Waits that hit the maximum.
    pub const CAPPED: Metric = Metric::counter(
        "outflow_bulk_capped_total",
        &[label::GROUP_ID],
        "Backoffs that the maximum cut off.",
    );
    /// Jobs that are not over.
    pub const JOBS: Metric = Metric::gauge(
        "outflow_bulk_jobs",
        &[label::STATE],
        "Jobs that are not over, by where they are.",
    );
    /// Claims that ended.
    pub const SETTLED: Metric = Metric::counter(
        "outflow_bulk_settled_total",
        &[label::HOW],
        "Claims of this process that ended.",
    );
    /// Jobs of dead workers.
    pub const REAPED: Metric = Metric::counter(
        "outflow_bulk_reaped_total",
        &[],
        "Jobs that this process took back from dead workers.",
    );
    /// Claims that were lost.
    pub const FENCED: Metric = Metric::counter(
        "outflow_bulk_fenced_total",
        &[],
        "Claims that were somebody else's when they ended.",
    );
    /// What a store could not do.
    pub const STORE_ERRORS: Metric = Metric::counter(
        "outflow_bulk_store_errors_total",
        &[],
        "Questions that the store could not answer.",
    );
    /// Places for jobs.
    pub const WORKERS: Metric = Metric::gauge(
        "outflow_bulk_workers",
        &[label::STATE],
        "Places for jobs of this process.",
    );
    /// What counts and jobs differ by.
    pub const DRIFT: Metric = Metric::gauge(
        "outflow_bulk_drift",
        &[],
        "By how much the store's counts and its jobs differed when they were last compared.",
    );
}

/// The labels of metrics.
pub mod label {
    use super::Label;

    /// A tenant of the bulk engine.
    pub const GROUP_ID: Label = "groupId";
    /// How congested it is.
    pub const LEVEL: Label = "level";
    /// How a claim ended.
    pub const HOW: Label = "how";
    /// The state that something is in.
    pub const STATE: Label = "state";

    pub(crate) const API: Label = "api";
    pub(crate) const GROUP: Label = "group";
    pub(crate) const STATUS: Label = "status";
    pub(crate) const REASON: Label = "reason";
    pub(crate) const CODE: Label = "code";
    pub(crate) const CAUSE: Label = "cause";
    pub(crate) const CLASS: Label = "class";
    pub(crate) const WARNING: Label = "warning";
    pub(crate) const LOOKUP: Label = "lookup";
    pub(crate) const TASK: Label = "task";
    pub(crate) const RESULT: Label = "result";
}

/// The keys of log lines.
pub(crate) mod key {
    use super::Key;

    pub(crate) const TS: Key = "ts";
    pub(crate) const LVL: Key = "lvl";
    pub(crate) const COMP: Key = "comp";
    pub(crate) const STATE: Key = "state";
    pub(crate) const EVENT: Key = "event";
    pub(crate) const FROM: Key = "from";
    pub(crate) const TO: Key = "to";
    pub(crate) const REASON: Key = "reason";
    pub(crate) const SLEEP: Key = "sleep";
    pub(crate) const STREAK: Key = "consec429";
    pub(crate) const ERROR_RATE: Key = "err_rate_30s";
    pub(crate) const RATE: Key = "rate";
    pub(crate) const SEM: Key = "sem";
    pub(crate) const RETRY_AFTER: Key = "retry_after";
    pub(crate) const API: Key = "api";
    pub(crate) const GROUP: Key = "group";
    pub(crate) const METHOD: Key = "method";
    pub(crate) const PATH: Key = "path";
    pub(crate) const STATUS: Key = "status";
    pub(crate) const LATENCY: Key = "latency_ms";
    pub(crate) const ATTEMPT: Key = "attempt";
    pub(crate) const CIRCUIT: Key = "cb_state";
    pub(crate) const WAITED: Key = "rl_wait_ms";
    pub(crate) const REQUEST_ID: Key = "req_id";
    pub(crate) const TRACE_ID: Key = "trace_id";
    pub(crate) const PERMIT: Key = "permit";
    pub(crate) const COST: Key = "cost";
    pub(crate) const POSITION: Key = "position";
    pub(crate) const REMAINING: Key = "remaining";
    pub(crate) const CAPACITY: Key = "capacity";
    pub(crate) const CONFIGURED: Key = "configured";
    pub(crate) const EVIDENCE: Key = "evidence";
    pub(crate) const USED: Key = "used";
    pub(crate) const COUNT: Key = "count";
    pub(crate) const TASK: Key = "task";
    pub(crate) const MESSAGE: Key = "msg";
    pub(crate) const SEQ: Key = "seq";
}

/// The value of a label whose true value is none of the known ones.
pub const OTHER: &str = "other";

/// The group of what concerns all groups of an API.
pub(crate) const ALL_GROUPS: &str = "*";
