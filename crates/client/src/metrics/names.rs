//! All names that operators see: metrics, labels and log keys.
//!
//! Names are an interface: dashboards and alerts break when one changes. They are defined only in
//! this file, and `docs/metrics.md` explains each; a project check compares the two. The five
//! `external_` metrics and the unprefixed ones are known from earlier systems; `outflow_` marks our
//! own.

use super::{Key, Label, Metric};

pub(crate) const CALLS: Metric = Metric::counter(
    "external_requests_total",
    &[label::API],
    "Finished calls with any result.",
);
pub(crate) const DURATION: Metric = Metric::histogram(
    "external_request_duration_seconds",
    &[label::API, label::STATUS],
    "Duration of calls, including waits and retries.",
);
pub(crate) const ABANDONED: Metric = Metric::counter(
    "outflow_abandoned_total",
    &[label::API],
    "Calls whose caller left before the end.",
);
pub(crate) const FAILURES: Metric = Metric::counter(
    "external_failures_total",
    &[label::API, label::REASON],
    "Failed attempts.",
);
pub(crate) const CIRCUIT: Metric = Metric::gauge(
    "external_circuit_state",
    &[label::API, label::STATE],
    "1 for the current circuit state, 0 for the others.",
);
pub(crate) const WAIT: Metric = Metric::histogram(
    "external_ratelimit_wait_seconds",
    &[label::API],
    "Wait of calls for their permit.",
);
pub(crate) const REQUESTS: Metric =
    Metric::counter("requests_total", &[label::API, label::CODE], "Attempts by status code.");
pub(crate) const COUNT_2XX: Metric = Metric::gauge("count_2xx", &[label::API], "Successes in the error window.");
pub(crate) const COUNT_429: Metric =
    Metric::gauge("count_429", &[label::API], "Throttled attempts in the error window.");
pub(crate) const COUNT_5XX: Metric = Metric::gauge("count_5xx", &[label::API], "Server failures in the error window.");
pub(crate) const COUNT_OTHER: Metric = Metric::gauge(
    "count_other",
    &[label::API],
    "Other counted failures in the error window.",
);
pub(crate) const CACHE_HITS: Metric =
    Metric::counter("cache_hits_total", &[label::API], "Calls served from the cache.");
pub(crate) const CACHE_MISSES: Metric = Metric::counter(
    "cache_miss_total",
    &[label::API],
    "Calls that missed the cache and were sent.",
);
pub(crate) const RATE: Metric = Metric::gauge(
    "rate_current",
    &[label::API],
    "Slowest rate in effect, in calls per second; 0 if nothing is limited.",
);
pub(crate) const CONCURRENCY: Metric =
    Metric::gauge("concurrency_current", &[label::API], "Maximum of attempts in flight.");
pub(crate) const ERROR_RATE: Metric =
    Metric::gauge("err_rate_30s", &[label::API], "Share of failures in the error window.");
pub(crate) const LATENCY: Metric = Metric::histogram(
    "latency_ms",
    &[label::API],
    "Time from sending an attempt to the first byte of its response.",
);
pub(crate) const SLEEP: Metric = Metric::histogram(
    "sleep_ms",
    &[label::API],
    "Imposed pauses: by the server, by the health state, before a retry.",
);
pub(crate) const ADMITTED: Metric = Metric::counter(
    "outflow_admitted_total",
    &[label::API, label::GROUP],
    "Granted permits.",
);
pub(crate) const REFUSED: Metric = Metric::counter(
    "outflow_refused_total",
    &[label::API, label::GROUP, label::CAUSE],
    "Refused calls.",
);
pub(crate) const REFUNDED: Metric = Metric::counter(
    "outflow_refunded_total",
    &[label::API, label::GROUP],
    "Permits refunded unused.",
);
pub(crate) const WAITING: Metric = Metric::gauge("outflow_waiting", &[label::API], "Calls that wait for a permit.");
pub(crate) const IN_FLIGHT: Metric = Metric::gauge(
    "outflow_in_flight",
    &[label::API],
    "Permits that are neither settled nor refunded.",
);
pub(crate) const RETRIES: Metric = Metric::counter(
    "outflow_retries_total",
    &[label::API, label::REASON],
    "Retried attempts.",
);
pub(crate) const UNRESOLVED: Metric = Metric::counter(
    "outflow_unresolved_total",
    &[label::API, label::CLASS],
    "Attempts that failed to resolve the host name.",
);
pub(crate) const TRANSITIONS: Metric = Metric::counter(
    "outflow_transitions_total",
    &[label::API, label::REASON],
    "Health transitions.",
);
pub(crate) const DRIFT: Metric = Metric::gauge(
    "outflow_drift_ratio",
    &[label::API, label::GROUP],
    "Limit in effect as a share of the configured one.",
);
pub(crate) const FOREIGN: Metric = Metric::counter(
    "outflow_foreign_units_total",
    &[label::API, label::GROUP],
    "Units used by others with this key.",
);
pub(crate) const MALFORMED: Metric = Metric::counter(
    "outflow_malformed_headers_total",
    &[label::API],
    "Limit headers that could not be parsed.",
);
pub(crate) const WARNINGS: Metric = Metric::counter(
    "outflow_limit_warnings_total",
    &[label::API, label::WARNING],
    "Limit warnings: quota is low, or pacing is capped.",
);
pub(crate) const USAGE_ALERT: Metric = Metric::gauge(
    "outflow_usage_alert",
    &[label::API, label::GROUP],
    "1 while the usage of a limit is above its threshold.",
);
pub(crate) const LOOKUPS: Metric = Metric::counter(
    "outflow_cache_lookups_total",
    &[label::API, label::LOOKUP],
    "Cache lookups by result.",
);
pub(crate) const TASK_RESTARTS: Metric = Metric::counter(
    "outflow_task_restarts_total",
    &[label::TASK],
    "Restarts of background tasks.",
);
pub(crate) const TASK_RUNNING: Metric = Metric::gauge(
    "outflow_task_running",
    &[label::TASK],
    "1 while a background task runs.",
);
pub(crate) const LINES_DROPPED: Metric = Metric::counter(
    "outflow_log_lines_dropped_total",
    &[],
    "Log lines dropped because the writer was too slow.",
);

pub(crate) const RELOADS: Metric = Metric::counter(
    "outflow_reloads_total",
    &[label::RESULT],
    "Configuration reloads by result.",
);
pub(crate) const RELOAD_OK: Metric = Metric::gauge(
    "outflow_reload_ok",
    &[],
    "0 while the last read configuration has errors and is not in effect.",
);

/// Metrics of the sidecar.
pub mod sidecar {
    use super::Metric;

    /// Memory that connections, requests and their bodies use.
    pub const MEMORY_USED: Metric = Metric::gauge(
        "outflow_memory_used_bytes",
        &[],
        "Memory that connections, requests and their bodies use.",
    );
    /// Memory that they may use.
    pub const MEMORY_LIMIT: Metric = Metric::gauge(
        "outflow_memory_limit_bytes",
        &[],
        "Memory that connections, requests and their bodies may use.",
    );
    /// Requests and connections without memory.
    pub const MEMORY_REFUSED: Metric = Metric::counter(
        "outflow_memory_refused_total",
        &[],
        "Requests and connections that were refused because the memory was used up.",
    );
    /// Bodies without a buffer.
    pub const MEMORY_UNBUFFERED: Metric = Metric::counter(
        "outflow_memory_unbuffered_total",
        &[],
        "Bodies that were forwarded without a buffer because the memory was used up.",
    );
}

/// Metrics of the bulk engine. The first five names are known from an earlier system.
pub mod bulk {
    use super::{Metric, label};

    /// Congestion level of a tenant, one series per level.
    pub const CONGESTION_LEVEL: Metric = Metric::gauge(
        "bulk_action_congestion_level",
        &[label::GROUP_ID, label::LEVEL],
        "1 for the level of a tenant's backlog, 0 for the others.",
    );
    /// Delay of deferred jobs, or its estimate.
    pub const BACKOFF: Metric = Metric::histogram(
        "bulk_action_congestion_backoff_ms",
        &[label::GROUP_ID],
        "Delay of deferred jobs, or its estimate at submission.",
    );
    /// Throttles and deferrals per finished job.
    pub const AVG_THROTTLE: Metric = Metric::gauge(
        "bulk_action_congestion_avg_throttle_per_job",
        &[label::GROUP_ID],
        "Average number of throttles and deferrals per finished job.",
    );
    /// Jobs of a tenant without quota.
    pub const NON_READY: Metric = Metric::gauge(
        "bulk_action_congestion_non_ready_count",
        &[label::GROUP_ID],
        "Jobs that wait for quota.",
    );
    /// Remaining time of a tenant's jobs.
    pub const ESTIMATE: Metric = Metric::gauge(
        "outflow_bulk_estimate_seconds",
        &[label::GROUP_ID],
        "Time until a tenant's jobs have ended: the ETA that bulk status shows.",
    );
    /// Avoided throttles.
    pub const SAVED_SPINS: Metric = Metric::counter(
        "bulk_action_congestion_saved_spins_total",
        &[],
        "Refusals that a fixed backoff would have given ended jobs, minus actual ones.",
    );
    /// Delays cut at the maximum.
    pub const CAPPED: Metric = Metric::counter(
        "outflow_bulk_capped_total",
        &[label::GROUP_ID],
        "Backoffs cut at the maximum.",
    );
    /// Unfinished jobs.
    pub const JOBS: Metric = Metric::gauge("outflow_bulk_jobs", &[label::STATE], "Unfinished jobs by state.");
    /// Settled claims.
    pub const SETTLED: Metric = Metric::counter(
        "outflow_bulk_settled_total",
        &[label::HOW],
        "Settled claims of this process by result.",
    );
    /// Failed attempts of jobs.
    pub const FAILED_ATTEMPTS: Metric = Metric::counter(
        "outflow_bulk_failed_attempts_total",
        &[label::HOW],
        "Failed attempts of jobs that used a retry, or that the API caused and that used none.",
    );
    /// Jobs of dead workers.
    pub const REAPED: Metric = Metric::counter(
        "outflow_bulk_reaped_total",
        &[],
        "Jobs that this process recovered from dead workers.",
    );
    /// Lost claims.
    pub const FENCED: Metric = Metric::counter(
        "outflow_bulk_fenced_total",
        &[],
        "Claims that another session held when they were settled.",
    );
    /// Errors of the store.
    pub const STORE_ERRORS: Metric =
        Metric::counter("outflow_bulk_store_errors_total", &[], "Failed requests to the store.");
    /// Worker slots.
    pub const WORKERS: Metric = Metric::gauge("outflow_bulk_workers", &[label::STATE], "Worker slots of this process.");
    /// Difference between counters and jobs.
    pub const DRIFT: Metric = Metric::gauge(
        "outflow_bulk_drift",
        &[],
        "Difference between the store's counters and its jobs at the last audit.",
    );
}

/// Labels of metrics.
pub mod label {
    use super::Label;

    /// Tenant of the bulk engine.
    pub const GROUP_ID: Label = "groupId";
    /// Congestion level.
    pub const LEVEL: Label = "level";
    /// End of a claim.
    pub const HOW: Label = "how";
    /// State of the subject.
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

/// Keys of log lines.
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
    pub(crate) const FAILURES: Key = "failures";
    pub(crate) const STREAK: Key = "consec429";
    pub(crate) const ERROR_RATE: Key = "err_rate_30s";
    pub(crate) const RATE: Key = "rate";
    pub(crate) const SEM: Key = "sem";
    pub(crate) const RETRY_AFTER: Key = "retry_after";
    pub(crate) const API: Key = "api";
    pub(crate) const GROUP: Key = "group";
    pub(crate) const ENDPOINT: Key = "endpoint";
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
    pub(crate) const LIMIT: Key = "limit";
    pub(crate) const WINDOW: Key = "window";
    pub(crate) const CAP: Key = "cap";
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

/// Label value for values outside the known set.
pub const OTHER: &str = "other";

/// Group of events that concern all groups of an API.
pub(crate) const ALL_GROUPS: &str = "*";
