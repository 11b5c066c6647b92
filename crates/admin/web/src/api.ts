// Contract of the admin API with the dashboard: every object that the page reads or sends.
//
// Units: `at`, `since`, `until` and other instants are milliseconds since 1970; `_ms` is a span in whole
// milliseconds; `_ppm` is a share in millionths; `_per_s` is a measured rate in calls or jobs a second, a number with at
// most three decimals. A configured rate is text such as "600/min". `null` means unknown or none, never zero.
// Members marked "new" do not exist before this contract; all others keep their name and meaning.

export type StateName = "Normal" | "Throttle" | "Sleep" | "HalfOpen" | "CacheOnly";
export type OverrideName = "normal" | "throttle" | "offline" | "cache_only";
export type PriorityName = "low" | "normal" | "high";
export type CongestionName = "NONE" | "LOW" | "MODERATE" | "HIGH" | "CRITICAL";
export type StageName = "CREATED" | "DISPATCHED" | "RUNNING" | "AGGREGATING" | "COMPLETED" | "FAILED" | "CANCELLED";
export type JobStateName = "queued" | "delayed" | "in_flight" | "done" | "failed" | "dead" | "expired" | "cancelled";

/** RFC 9457 problem details. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  retry_after_ms?: number;
}

// ---------------------------------------------------------------------------------------------------------------
// Why an API is slow

export type SlowCode =
  | "override"
  | "asleep"
  | "cache_only"
  | "probing"
  | "cooldown"
  | "throttled"
  | "concurrency"
  | "limit"
  | "adaptive"
  | "foreign"
  | "idle";

/** The sentence that says why calls of an API go no faster, and what would help. New. */
export interface Slow {
  code: SlowCode;
  /** First sentence, for emphasis: "Asleep for another 5 min 12 s." */
  lead: string;
  /** The rest, which may be empty. */
  text: string;
  /** What would help, as a sentence; null if nothing would. */
  hint: string | null;
  /** Setting that `hint` names, such as {"variable":"concurrency","value":"48"}. */
  setting: { variable: string; value: string } | null;
  since: number | null;
  until: number | null;
}

// ---------------------------------------------------------------------------------------------------------------
// APIs

export interface Counts {
  success: number;
  throttled: number;
  server: number;
  network: number;
  other: number;
}

/** Health of an API, or of one group. */
export interface Health {
  group: string | null;
  state: StateName;
  circuit: "CLOSED" | "OPEN" | "HALF_OPEN";
  since_ms: number;
  until_ms: number | null;
  reason: string | null;
  why: string | null;
  held: OverrideName | null;
  held_by: string | null;
  cooling_ms: number | null;
  in_flight: number;
  concurrency: number;
  rate: string | null;
  rate_group: string | null;
  configured_rate: string | null;
  bound: string | null;
  error_ppm: number;
  counts: Counts;
  streak: number;
  next_sleep_ms: number;
  failed_recoveries: number;
  ramp_step_ms: number | null;
  probes_out: number;
  /** New: the way back as label and text, empty in Normal without a ramp: ["Speed now", "60 % of configured"]. */
  recovery: [string, string][];
}

export interface Drift {
  configured: string;
  evidence: string;
  lasting_ms: number;
}

/** Process that holds units of a shared limit. New. */
export interface LimitHolder {
  /** Name of the process in the account: "worker-1:4242". */
  process: string;
  here: boolean;
  /** Units sent that still count, as far as the account knows them per process; null if it does not. */
  used: number | null;
  /** Units leased and not yet arrived. */
  held: number;
  /** Units it waits for. */
  wanted: number;
  /** Time until its lease ends. */
  lease_ms: number;
}

export interface SharedUsage {
  arrived: number;
  held: number;
  held_here: number;
  processes: number;
  /** New: at most 20 holders, those with the most units first; empty while the ledger is away. */
  holders: LimitHolder[];
}

export interface Limit {
  configured: string;
  effective: string;
  kind: "sliding" | "fixed" | "aligned" | "bucket";
  accounting: "send" | "safe" | "tight";
  used: number;
  capacity: number;
  remaining: number;
  used_ppm: number;
  shared: SharedUsage | null;
  count: number;
  peak: number;
  oldest_ms: number | null;
  newest_ms: number | null;
  window_ms: number;
  predicted_delay_ms: number | null;
  waiting: number;
  expired: number;
  memory_bytes: number;
  windows: number[];
  pattern: "steady" | "rising" | "falling" | "bursty";
  prediction: number | null;
  alert: boolean;
  drift: Drift | null;
  lowered: string | null;
  /** New: unit that the limit counts: "calls", or "cost" if a call can cost more than one. */
  counts: "calls" | "cost";
  /** New: time until a fixed or aligned window ends. */
  window_ends_ms: number | null;
}

export interface Group {
  name: string;
  aliases: string[];
  waiting: number;
  admitted: number;
  refused: number;
  limits: Limit[];
  /** New: sent in the last minute. */
  rate_per_s: number;
  /** New: over the last minute; null without calls. */
  wait_p95_ms: number | null;
}

/** Rate of an API: the slowest limit for all calls. New. */
export interface ApiRate {
  /** Attempts sent, averaged over `window_ms`. */
  sent_per_s: number;
  /** Window of the limit that is shown beside it, 1 s to 60 s. */
  window_ms: number;
  /** In effect, 0 if the state lets nothing pass, null without limits. */
  effective_per_s: number | null;
  configured_per_s: number | null;
  /** The limit in effect and as configured: "360/min", "600/min". */
  effective: string | null;
  configured: string | null;
}

export interface Quantiles {
  p50_ms: number | null;
  p95_ms: number | null;
}

/** Response headers that the rules read, as last seen. New. */
export interface Said {
  at: number;
  /** Names and values, in the order of the response. Never other headers. */
  headers: { name: string; value: string; note: string | null }[];
  /** Rule that follows from them, as a sentence. */
  understood: string;
  /** Units that other clients of the key used in the last window; null if not detected. */
  foreign_units: number | null;
  retry_after: { value: string; at: number } | null;
}

/** Row of an API: the overview, and the navigation. */
export interface ApiRow {
  name: string;
  /** New: host and port of its base URL. */
  host: string;
  state: StateName;
  held: OverrideName | null;
  /** New: start of the state. */
  since: number;
  waiting: number;
  /** New: jobs in the queue of the bulk engine for this API. */
  jobs: number;
  /** New: time until the last waiting call or job can go. */
  eta_ms: number | null;
  in_flight: number;
  concurrency: number;
  rate: ApiRate;
  /** New: attempts of the last minute. */
  latency: Quantiles;
  /** Share of failures in the error window. */
  error_ppm: number;
  slow: Slow;
  /** New: totals of the last 15 minutes. */
  recent: { calls: number; sent: number; failed: number; throttled: number; refused: number; cache: number };
}

/** One API. `ApiRow` and the members of `GET /v1/apis/{api}`. */
export interface Api extends ApiRow {
  memory_bytes: number;
  health: Health[];
  limits: Limit[];
  groups: Group[];
  wait: Quantiles;
  /** Longest wait that the configuration allows a call. */
  max_wait_ms: number | null;
  retry_budget: { left_ppm: number; retries: number } | null;
  said: Said | null;
  /** Variables that a dialog can change, with value and origin. */
  variables: { variable: string; value: string; from: string; default: string | null }[];
}

/** Waiting call. `GET /v1/apis/{api}/queue?most=20`. */
export interface QueueRow {
  position: number;
  group: string;
  priority: PriorityName;
  why: "limit" | "turn" | "concurrency" | "cooldown" | "state" | "ledger";
  /** Cause in words: "limit 360/min". */
  text: string;
  waited_ms: number;
  eta_ms: number | null;
  method: string | null;
  /** Redacted. */
  path: string | null;
  request_id: string | null;
}
export interface Queue {
  api: string;
  total: number;
  rows: QueueRow[];
}

// ---------------------------------------------------------------------------------------------------------------
// History

export type CountColumn =
  "sent" | "ok" | "throttled" | "server" | "network" | "other" | "refused" | "cache" | "retries";
export type GaugeColumn =
  "waiting" | "in_flight" | "effective_per_s" | "wait_p50_ms" | "wait_p95_ms" | "latency_p50_ms" | "latency_p95_ms";
export type Column = CountColumn | GaugeColumn;

/** Columns of one API. Index k covers `[t0 + k × step_ms, t0 + (k + 1) × step_ms)`. */
export type Series = Partial<Record<Column, (number | null)[]>> & {
  /** One letter a slot: N, T, S, H, C, or "." without data; the worst state within the slot. */
  state?: string;
  limits?: { group: string | null; limit: string; used: (number | null)[]; capacity: (number | null)[] }[];
};

export interface BulkSeries {
  done: (number | null)[];
  failed: (number | null)[];
  queued: (number | null)[];
  in_flight: (number | null)[];
  capacity_per_s: (number | null)[];
}

/**
 * `GET /v1/history?api=&columns=&step_ms=&since=`. All arrays have equal length. `t0` is a multiple of `step_ms`, so that
 * histories fit together; the last slot may be incomplete.
 */
export interface History {
  t0: number;
  step_ms: number;
  apis: Record<string, Series>;
  bulk: BulkSeries | null;
}

/** One API in one second. Absent columns were not asked for; `null` is no data. */
export type Slot = Partial<Record<Column, number | null>> & { state?: string };

// ---------------------------------------------------------------------------------------------------------------
// Calls

export type CallKind = "slow" | "refused" | "failed" | "ok";

/** Finished call: the record that log and metrics read. */
export interface CallRow {
  request_id: string;
  at: number;
  kind: CallKind;
  api: string;
  group: string | null;
  endpoint: string | null;
  method: string;
  /** Redacted. */
  path: string;
  /** "2xx" … "5xx", "429", "timeout", "network", "blocked". */
  status: string;
  code: number | null;
  /** Reason of a failure or a refusal. */
  reason: string | null;
  cache: string | null;
  waited_ms: number;
  latency_ms: number;
  attempts: number;
  state: StateName;
  /** One line: "waited 5.15 s: limit 360/min". */
  text: string;
}

export interface CallPart {
  code: PartCode;
  text: string;
  from_ms: number;
  to_ms: number | null;
}
export type PartCode = "queue" | "limit" | "backoff" | "scheduled" | "attempt" | "failed" | "own";

/** One call. `GET /v1/calls/{request_id}`; a job id or a trace id finds its last call. */
export interface Call extends CallRow {
  trace_id: string | null;
  job: string | null;
  /** First sentence and the rest of the story. */
  lead: string;
  rest: string;
  total_ms: number;
  started: number;
  steps: { after_ms: number; code: PartCode | "arrived" | "cache" | "answer" | "state"; text: string }[];
  parts: CallPart[];
  limits: { limit: string; group: string | null; used: number; capacity: number; free_after_ms: number | null }[];
  position: number | null;
}

/** `GET /v1/calls?kind=&api=&q=&after=&most=`, newest first. */
export interface Calls {
  calls: CallRow[];
  next: string | null;
}

// ---------------------------------------------------------------------------------------------------------------
// Changes: events that are no calls

export type ChangeKind = "state" | "limit" | "operator" | "job" | "program";

export interface Change {
  /** Unique; greater than the ids of earlier changes of this process in the order of text. */
  id: string;
  at: number;
  kind: ChangeKind;
  /** Name in the log and in the event stream: "state_transition", "drift", "bulk_reaped". */
  event: string;
  api: string | null;
  group: string | null;
  tenant: string | null;
  action: string | null;
  /** State after a transition. */
  state: StateName | null;
  /** Sentence without the name of the API: "asleep until 11:09:44: server sent Retry-After: 600". */
  text: string;
  /** Reason as an identifier: "retry_after". */
  reason: string | null;
}

/** `GET /v1/changes?kind=&api=&q=&after=&most=`, newest first, of the last 1,000. `kind` may repeat with commas. */
export interface Changes {
  changes: Change[];
  next: string | null;
  counts: Record<ChangeKind, number>;
}

// ---------------------------------------------------------------------------------------------------------------
// Bulk

export interface JobCounts {
  total: number;
  queued: number;
  delayed: number;
  non_ready: number;
  in_flight: number;
  done: number;
  dead: number;
  failed: number;
  cancelled: number;
  throttles: number;
}

export type WaitCode =
  "limit" | "concurrency" | "asleep" | "paused" | "tenant_rate" | "scheduled" | "retrying" | "workers" | "store";

/** Cause for which queued jobs wait. The `jobs` of all causes add up to `queued`. New. */
export interface WaitCause {
  code: WaitCode;
  api: string | null;
  limit: string | null;
  tenant: string | null;
  action: string | null;
  jobs: number;
  until: number | null;
  /** "shop: rate limit 10/s". */
  text: string;
}

/** `GET /v1/bulk`. */
export interface Bulk {
  jobs: JobCounts;
  active_tenants: number;
  /** New. */
  tenants: number;
  workers: { all: number; busy: number };
  bottlenecks: string[];
  waits: string[];
  scheduler: "permit" | "backoff" | "fixed";
  store: string;
  queue_max: number;
  saved_spins: number;
  /** New: what queued jobs wait for, the most jobs first; at most 20, then "other causes". */
  wait_causes: WaitCause[];
  /** New: jobs that ended in the last minute, a second. */
  rate_per_s: number;
  /** New: jobs a second that the limits allow the queued jobs. */
  capacity_per_s: number | null;
  /** New: time until all jobs that can move have ended. */
  eta_ms: number | null;
  /** New: sentence about that time: "bound by shop 10/s", "excluding ember, acme". */
  eta_text: string;
  /** New: Jain index of shares against fair shares; null with fewer than two tenants that can move. */
  fairness_ppm: number | null;
  /** New: tenants with queued jobs of which none can start. */
  stuck: number;
  /** New: dead letters of the last 15 minutes. */
  recent_dead: number;
  /** New: what is wrong now, as in `Slow`; null if every tenant moves. */
  trouble: { tone: "red" | "amber"; lead: string; text: string } | null;
  /** New: round trip of the store. */
  store_ms: number | null;
}

/** Tenant. `GET /v1/bulk/tenants?sort=&q=&offset=&most=`, `GET /v1/bulk/tenants/{tenant}`. */
export interface Tenant {
  tenant: string;
  paused: boolean;
  weight: number;
  priority: PriorityName;
  rate: string | null;
  most_in_flight: number | null;
  jobs: JobCounts;
  last_backoff_ms: number;
  speed: number;
  congestion: CongestionName;
  eta_ms: number | null;
  /** New: jobs that ended in the last minute, a second. */
  rate_per_s: number;
  /** New: share of the capacity that it competes for, got and fair; null if it cannot move. */
  share_ppm: number | null;
  fair_ppm: number | null;
  /** New: throttles and deferrals per ended job, times a million. */
  throttles_ppm: number;
  /** New: the cause for which most of its jobs wait; null without queued jobs. */
  waits: WaitCause | null;
  /** New: queued jobs of the last 15 minutes, 30 samples; empty beyond the 100 deepest tenants. */
  queued_history: number[];
  /** New: author and reason of the pause. */
  paused_by: string | null;
}
export type TenantSort = "queued" | "rate" | "unfair" | "eta" | "name";
/** A page of a ranking that is refreshed every 5 s. `matched` counts the tenants that match `q`. */
export interface Tenants {
  tenants: Tenant[];
  next: string | null;
  /** New, with `sort`, `q` or `offset`. */
  matched: number;
  total: number;
  offset: number;
}

/** Action. `GET /v1/bulk/actions?sort=&q=&offset=&most=`, `GET /v1/bulk/actions/{action}`. */
export interface Action {
  id: string;
  stage: StageName;
  paused: boolean;
  held: number;
  jobs: JobCounts;
  over_ppm: number;
  eta_ms: number | null;
  bottlenecks: string[];
  waits: string[];
  mean_ms: number | null;
  opened: number;
  started: number | null;
  ended: number | null;
  timeout_ms: number;
  times_out: number | null;
  keep_ms: number;
  failures?: { reason: string; jobs: number }[];
  /** New. */
  rate_per_s: number;
  /** New: the earliest deadline of its open jobs. */
  deadline: number | null;
  /** New: time by which it misses that deadline by its ETA; null if it does not. */
  late_ms: number | null;
  /** New: note in words: "its tenant acme is paused". */
  note: string | null;
  /** New: how it ended. */
  ended_because: string | null;
  /** New: only of one action. */
  wait_causes?: WaitCause[];
  webhook?: { api: string; path: string } | null;
}
export interface Actions {
  actions: Action[];
  next: string | null;
  matched: number;
  total: number;
  offset: number;
}

/** `GET /v1/bulk/machines`. New. */
export interface Machine {
  name: string;
  here: boolean;
  workers: number;
  busy: number;
  rate_per_s: number | null;
  start_lag_p99_ms: number | null;
  /** Rest of its lease; 0 if it expired. */
  lease_ms: number;
  /** Age of its last heartbeat. */
  seen_ms: number;
  /** "its 6 jobs were reclaimed at 11:01:41 and finished elsewhere". */
  note: string | null;
}
export interface Machines {
  machines: Machine[];
}

/** `GET /v1/bulk/failures?action=&tenant=`: at most 64 reasons, then "other". New. */
export interface FailureReason {
  reason: string;
  jobs: number;
  /** In the last 15 minutes. */
  recent: number;
  first: number;
  last: number;
  /** At most 5 names. */
  tenants: string[];
  /** Id of one such job. */
  example: string | null;
}
export interface Failures {
  failures: FailureReason[];
  dead: number;
}

/** Row of `GET /v1/bulk/jobs?state=&tenant=&action=&api=&reason=&q=&after=&most=`. New. */
export interface JobRow {
  id: string;
  state: JobStateName;
  tenant: string;
  action: string | null;
  api: string | null;
  group: string | null;
  method: string | null;
  path: string | null;
  priority: PriorityName;
  attempts: number;
  throttles: number;
  /** Submitted, or ended for an ended job. */
  at: number;
  /** Earliest next start; null if it can start now or has ended. */
  next_at: number | null;
  error: string | null;
}
export interface Jobs {
  jobs: JobRow[];
  next: string | null;
  counts: Partial<Record<JobStateName, number>>;
}

export interface JobAttempt {
  number: number;
  sent: number;
  machine: string | null;
  /** "503", "reset", "timeout"; null while in flight. */
  result: string | null;
  text: string;
  is_failure: boolean;
  waited_ms: number;
  took_ms: number | null;
  /** "retry 1 of 3 after 1.4 s". */
  then: string | null;
}

/** `GET /v1/bulk/jobs/{id}`. New. */
export interface Job extends JobRow {
  lead: string;
  rest: string;
  tone: "red" | "amber" | "blue" | "";
  weight: number;
  cost: number;
  submitted: number;
  not_before: number | null;
  deadline: number | null;
  timeout_ms: number | null;
  max_retries: number;
  retries_left: number;
  recoveries: number;
  /** Jobs of its tenant ahead of it; null if it is not queued. */
  ahead: number | null;
  /** Estimated start of the next attempt. */
  expected: number | null;
  /** The next run as label and text. */
  next_run: [string, string][];
  started: number;
  parts: CallPart[];
  tries: JobAttempt[];
  /** Request and last response; header values of secrets are "••••••". A body is cut after 16 KiB. */
  request: HttpText | null;
  response: (HttpText & { status: number }) | null;
}
export interface HttpText {
  /** "POST /orders/1 HTTP/1.1", or "HTTP/1.1 503 Service Unavailable". */
  head: string;
  headers: [string, string][];
  body: string | null;
  body_bytes: number;
  is_cut: boolean;
}

/** Dead letter. `GET /v1/bulk/dead?tenant=&action=&reason=&q=&after=&most=`. */
export interface DeadLetter {
  place: number;
  id: string;
  tenant: string;
  action: string | null;
  at: number;
  attempts: number;
  recoveries: number;
  api: string | null;
  method: string | null;
  path: string | null;
  history: { at: number; words: string }[];
  /** New: reason as in `FailureReason.reason`. */
  reason: string;
  /** New: body of the last response, at most 4 KiB. */
  body: string | null;
}
export interface DeadLetters {
  dead: DeadLetter[];
  next: number | null;
  /** New. */
  total: number;
  reasons: { reason: string; jobs: number }[];
  tenants: string[];
  actions: string[];
  /** New: what the selection has in common; null if nothing stands out. */
  note: { lead: string; text: string } | null;
}

// ---------------------------------------------------------------------------------------------------------------
// Explain, configuration, audit

export interface WaitView {
  api: string;
  group: string;
  endpoint: string | null;
  cost: number;
  state: StateName;
  decision: "go" | "wait" | "refuse" | "cache" | "never";
  delay_ms: number | null;
  retry_after_ms: number | null;
  why: string | null;
  refusal: string | null;
  limit: string | null;
  configured: string | null;
  position: number;
  bound: string | null;
  text: string;
}

export interface ConfigValue {
  key: string;
  value: string | null;
  origin: "default" | "preset" | "file" | "environment" | "runtime";
  from: string;
}
/** `GET /v1/config`. */
export interface Config {
  values: ConfigValue[];
  /** New: files in effect, and when they were read. */
  files: string[];
  read_at: number;
}
export interface AuditEntry {
  at: number;
  who: string;
  action: string;
  api: string | null;
  group: string | null;
  reason: string | null;
}
export interface Audit {
  changes: AuditEntry[];
}
export interface ReloadDifference {
  added: string[];
  removed: string[];
  changed: string[];
  restart: string[];
}

/** Answer to a change with `dry`: nothing was changed. New. */
export interface DryRun {
  dry: true;
  effects: { code: string; text: string; tone: "red" | "amber" | "" }[];
  /** Objects that the change would affect; deleting asks the operator for it. */
  count: number | null;
}

// ---------------------------------------------------------------------------------------------------------------
// Stream: `GET /v1/stream?view=…`

/** Program, and what every view shows beside itself. */
export interface Program {
  version: string;
  started: number;
  /** Address of the sidecar, and name of this machine. */
  listen: string;
  machine: string;
  memory_bytes: number;
  /** Open streams of pages. */
  pages: number;
  has_bulk: boolean;
}

/** Navigation: worst first, at most 60 APIs. */
export interface Menu {
  apis: { name: string; state: StateName; held: boolean; waiting: number }[];
  api_count: number;
  queued: number;
  dead: number;
}

/** Counts for the overview. */
export interface Totals {
  calls_per_s: number;
  peak_per_s: number;
  peak_at: number | null;
  waiting: number;
  longest_wait_ms: number | null;
  /** Totals of the last 15 minutes. */
  calls: number;
  throttled: number;
  failed: number;
  sent: number;
  cache: number;
  /** API with the most failures; null without failures. */
  worst: string | null;
}

export interface Hello {
  view: string;
  at: number;
  program: Program;
  menu: Menu;
  /** Overview: rows, worst first, at most 60 with history. */
  apis?: ApiRow[];
  totals?: Totals;
  history?: History;
  /** View of one API. */
  api?: Api;
  queue?: Queue;
  bulk?: Bulk;
  tenants?: Tenants;
  actions?: Actions;
  failures?: Failures;
  machines?: Machines;
  changes?: Change[];
  calls?: CallRow[];
}

/** Each second. An absent member did not change. */
export interface Tick {
  at: number;
  slots?: Record<string, Slot>;
  bulk_slot?: { [K in keyof BulkSeries]: number | null };
  program?: Program;
  menu?: Menu;
  totals?: Totals;
  /** Changed rows as a whole. */
  apis?: ApiRow[];
  /** Past of APIs that entered the rows with this second. */
  history?: History;
  /** Names in the new order, if it changed. */
  order?: string[];
  /** Changed members of the API. */
  api?: Partial<Api>;
  queue?: Queue;
  bulk?: Partial<Bulk>;
  actions?: Actions;
  failures?: Failures;
  machines?: Machines;
}

export interface CallsFrame {
  at: number;
  /** All calls of the second. */
  total: number;
  counts: { ok: number; cache: number; failed: number; throttled: number; refused: number };
  /** At most 20: failed, refused and slow ones first. */
  samples: CallRow[];
}

/** Changed rows of the window, and its order. */
export interface TenantsFrame {
  rows: Tenant[];
  order: string[];
  matched: number;
  total: number;
  offset: number;
}

export interface Lagged {
  missed: number;
}
export interface Bye {
  reason: "stopping" | "replaced" | "idle";
}

export type Frame =
  | { event: "hello"; data: Hello }
  | { event: "tick"; data: Tick }
  | { event: "calls"; data: CallsFrame }
  | { event: "change"; data: Change }
  | { event: "tenants"; data: TenantsFrame }
  | { event: "lagged"; data: Lagged }
  | { event: "bye"; data: Bye };
