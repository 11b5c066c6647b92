// State of the page as a function of the frames of the stream.

import type {
  Action,
  Actions,
  Api,
  ApiRow,
  Bulk,
  CallRow,
  CallsFrame,
  Change,
  Failures,
  Frame,
  Hello,
  History,
  Machines,
  Menu,
  Program,
  Queue,
  TenantsFrame,
  Tenants,
  Tick,
  Totals,
} from "../api";
import { appendSlots, joinHistory, mergeHistory } from "./history";

/** Everything that the page knows from the stream about one view. */
export interface Model {
  view: string;
  at: number;
  program: Program;
  menu: Menu;
  totals: Totals | null;
  apis: ApiRow[];
  history: History | null;
  api: Api | null;
  queue: Queue | null;
  bulk: Bulk | null;
  tenants: Tenants | null;
  actions: Actions | null;
  failures: Failures | null;
  machines: Machines | null;
  changes: Change[];
  calls: CallRow[];
  /** Counts of the last second with calls. */
  lastCalls: CallsFrame | null;
  /** Frames that were dropped because the page was too slow. */
  missed: number;
}

/** Name under which the history of all APIs together is kept. */
export const ALL_APIS = "*";

const MOST_SLOTS = 900;
const MOST_CHANGES = 200;
const MOST_CALLS = 100;

/** Applies a frame. Frames before the first hello change nothing. */
export function reduce(model: Model | null, frame: Frame): Model | null {
  if (frame.event === "hello") return greet(model, frame.data);
  if (!model) return null;
  switch (frame.event) {
    case "tick":
      return tick(model, frame.data);
    case "calls":
      return addCalls(model, frame.data);
    case "change":
      return { ...model, changes: mergeChanges(model.changes, [frame.data]) };
    case "tenants":
      return { ...model, tenants: mergeTenants(model.tenants, frame.data) };
    case "lagged":
      return { ...model, missed: model.missed + frame.data.missed };
    default:
      return model;
  }
}

function greet(old: Model | null, hello: Hello): Model {
  // A stream that resumes the same view sends only what is new.
  const same = old?.view === hello.view ? old : null;
  return {
    view: hello.view,
    at: hello.at,
    program: hello.program,
    menu: hello.menu,
    totals: hello.totals ?? null,
    apis: hello.apis ?? [],
    history: hello.history ? mergeHistory(same?.history ?? undefined, hello.history, slotsOf(hello)) : null,
    api: hello.api ?? null,
    queue: hello.queue ?? null,
    bulk: hello.bulk ?? null,
    tenants: hello.tenants ?? null,
    actions: hello.actions ?? null,
    failures: hello.failures ?? null,
    machines: hello.machines ?? null,
    changes: mergeChanges(same?.changes ?? [], hello.changes ?? []),
    calls: mergeCalls(same?.calls ?? [], hello.calls ?? []),
    lastCalls: null,
    missed: same?.missed ?? 0,
  };
}

function slotsOf(hello: Hello): number {
  return hello.view === "events" ? 60 : MOST_SLOTS;
}

function tick(model: Model, tick: Tick): Model {
  const next: Model = { ...model, at: tick.at };
  if (tick.program) next.program = tick.program;
  if (tick.menu) next.menu = tick.menu;
  if (tick.totals) next.totals = tick.totals;
  if (tick.apis || tick.order) next.apis = mergeRows(model.apis, tick.apis ?? [], tick.order);
  if (tick.api && model.api) next.api = { ...model.api, ...tick.api };
  if (tick.queue) next.queue = tick.queue;
  if (tick.bulk && model.bulk) next.bulk = { ...model.bulk, ...tick.bulk };
  if (tick.actions) next.actions = tick.actions;
  if (tick.failures) next.failures = tick.failures;
  if (tick.machines) next.machines = tick.machines;
  if (model.history && tick.history) next.history = joinHistory(model.history, tick.history);
  if (next.history && (tick.slots || tick.bulk_slot)) {
    const most = Math.min(MOST_SLOTS, Math.round(900_000 / next.history.step_ms));
    next.history = appendSlots(next.history, tick.at, tick.slots ?? {}, tick.bulk_slot ?? null, most);
  }
  return next;
}

/** Replaces changed rows and keeps the others as they are, so that only changed rows are drawn. */
export function mergeRows(rows: ApiRow[], changed: ApiRow[], order?: string[]): ApiRow[] {
  const byName = new Map(rows.map((row) => [row.name, row]));
  for (const row of changed) byName.set(row.name, row);
  const names = order ?? [...new Set([...rows, ...changed].map((row) => row.name))];
  return names.flatMap((name) => byName.get(name) ?? []);
}

function mergeTenants(old: Tenants | null, frame: TenantsFrame): Tenants {
  const byName = new Map((old?.tenants ?? []).map((row) => [row.tenant, row]));
  for (const row of frame.rows) byName.set(row.tenant, row);
  const { matched, total, offset } = frame;
  return { tenants: frame.order.flatMap((name) => byName.get(name) ?? []), next: null, matched, total, offset };
}

/** Adds changes, newest first and each once. */
export function mergeChanges(old: Change[], fresh: Change[]): Change[] {
  const known = new Set(fresh.map((change) => change.id));
  const all = [...fresh, ...old.filter((change) => !known.has(change.id))];
  return all.sort((one, other) => other.at - one.at || (one.id < other.id ? 1 : -1)).slice(0, MOST_CHANGES);
}

function mergeCalls(old: CallRow[], fresh: CallRow[]): CallRow[] {
  const known = new Set(fresh.map((call) => call.request_id));
  return [...fresh, ...old.filter((call) => !known.has(call.request_id))].slice(0, MOST_CALLS);
}

function addCalls(model: Model, frame: CallsFrame): Model {
  const { counts } = frame;
  const slot = {
    ok: counts.ok,
    cache: counts.cache,
    server: counts.failed,
    throttled: counts.throttled,
    refused: counts.refused,
    sent: frame.total,
    network: 0,
    other: 0,
    state: "N",
  };
  const newest = frame.samples.slice().sort((one, other) => other.at - one.at);
  return {
    ...model,
    at: Math.max(model.at, frame.at),
    calls: mergeCalls(model.calls, newest),
    lastCalls: frame,
    history: model.history && appendSlots(model.history, frame.at, { [ALL_APIS]: slot }, null, 60),
  };
}

/** Returns true for an action that still has work. */
export function isOpen(action: Action): boolean {
  return !["COMPLETED", "FAILED", "CANCELLED"].includes(action.stage);
}
