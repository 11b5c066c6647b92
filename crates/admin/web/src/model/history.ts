// History of counters and gauges, extended by the slots of the stream.

import type { BulkSeries, Column, CountColumn, History, Series, Slot } from "../api";
import { worse } from "../text/state";

type Value = number | null;

const COUNTS: ReadonlySet<string> = new Set<CountColumn>([
  "sent",
  "ok",
  "throttled",
  "server",
  "network",
  "other",
  "refused",
  "cache",
  "retries",
]);
const BULK_COUNTS: ReadonlySet<string> = new Set(["done", "failed"]);

/** Returns the number of slots. */
export function slotCount(history: History): number {
  for (const series of Object.values(history.apis)) {
    if (series.state !== undefined) return series.state.length;
    for (const column of Object.values(series)) if (Array.isArray(column)) return column.length;
  }
  return history.bulk?.done.length ?? 0;
}

/** End of the last slot. */
export function historyEnd(history: History): number {
  return history.t0 + slotCount(history) * history.step_ms;
}

/** Puts a newer history behind an older one. Slots of both come from the newer one; a gap has no data. */
export function mergeHistory(old: History | undefined, fresh: History, most: number): History {
  if (!old || old.step_ms !== fresh.step_ms || slotCount(old) === 0) return trimHistory(fresh, most);
  const before = Math.round((fresh.t0 - old.t0) / old.step_ms);
  if (before <= 0) return trimHistory(fresh, most);
  const apis: Record<string, Series> = {};
  for (const [name, series] of Object.entries(fresh.apis)) {
    apis[name] = prependSeries(old.apis[name], series, before, slotCount(fresh));
  }
  const bulk = fresh.bulk && prependBulk(old.bulk, fresh.bulk, before);
  return trimHistory({ ...fresh, t0: old.t0, apis, bulk }, most);
}

function prependSeries(old: Series | undefined, fresh: Series, before: number, length: number): Series {
  const merged: Series = {};
  for (const [name, values] of columns(fresh)) merged[name] = [...head(old?.[name], before), ...values];
  if (fresh.state !== undefined) {
    merged.state = (old?.state ?? "").slice(0, before).padEnd(before, ".") + fresh.state.padEnd(length, ".");
  }
  if (fresh.limits) merged.limits = fresh.limits;
  return merged;
}

function prependBulk(old: BulkSeries | null, fresh: BulkSeries, before: number): BulkSeries {
  return mapBulk(fresh, (name, values) => [...head(old?.[name], before), ...values]);
}

function head(values: readonly Value[] | undefined, length: number): Value[] {
  const kept = (values ?? []).slice(0, length);
  return [...kept, ...new Array<Value>(length - kept.length).fill(null)];
}

/** Adds the past of further APIs to a history of the same step. */
export function joinHistory(history: History, fresh: History): History {
  if (history.step_ms !== fresh.step_ms) return history;
  const [length, lead] = [slotCount(history), Math.round((fresh.t0 - history.t0) / history.step_ms)];
  const apis = { ...history.apis };
  for (const [name, series] of Object.entries(fresh.apis)) apis[name] = fitSeries(series, lead, length);
  return { ...history, apis };
}

/** Moves a series by some slots and gives it a length; slots without data are empty. */
function fitSeries(series: Series, lead: number, length: number): Series {
  const fitted: Series = {};
  const fit = (values: readonly Value[]): Value[] => Array.from({ length }, (_, index) => values[index - lead] ?? null);
  for (const [name, values] of columns(series)) fitted[name] = fit(values);
  if (series.state !== undefined)
    fitted.state = Array.from({ length }, (_, index) => series.state?.[index - lead] ?? ".").join("");
  return fitted;
}

/** Drops the oldest slots above a number. */
export function trimHistory(history: History, most: number): History {
  const extra = slotCount(history) - most;
  if (extra <= 0) return history;
  const apis: Record<string, Series> = {};
  for (const [name, series] of Object.entries(history.apis)) {
    const cut: Series = {};
    for (const [column, values] of columns(series)) cut[column] = values.slice(extra);
    if (series.state !== undefined) cut.state = series.state.slice(extra);
    if (series.limits) cut.limits = series.limits.map((limit) => cutLimit(limit, extra));
    apis[name] = cut;
  }
  const bulk = history.bulk && mapBulk(history.bulk, (_, values) => values.slice(extra));
  return { ...history, t0: history.t0 + extra * history.step_ms, apis, bulk };
}

type LimitSeries = NonNullable<Series["limits"]>[number];

function cutLimit(limit: LimitSeries, extra: number): LimitSeries {
  return { ...limit, used: limit.used.slice(extra), capacity: limit.capacity.slice(extra) };
}

/** Adds one second. `at` is its end; a slot of the history may hold several seconds. */
export function appendSlots(
  history: History,
  at: number,
  slots: Record<string, Slot>,
  bulkSlot: { [K in keyof BulkSeries]: Value } | null,
  most: number,
): History {
  const index = Math.floor((at - 1 - history.t0) / history.step_ms);
  const length = slotCount(history);
  if (index < 0 || index < length - 1) return history;
  const apis: Record<string, Series> = {};
  for (const name of new Set([...Object.keys(history.apis), ...Object.keys(slots)])) {
    apis[name] = appendSeries(history.apis[name] ?? {}, slots[name], index, length);
  }
  const bulk =
    history.bulk &&
    mapBulk(history.bulk, (name, values) => put(values, index, bulkSlot?.[name] ?? null, BULK_COUNTS.has(name)));
  return trimHistory({ ...history, apis, bulk }, most);
}

function appendSeries(series: Series, slot: Slot | undefined, index: number, length: number): Series {
  const grown: Series = { ...series };
  const names = new Set<Column>([...columns(series).map(([name]) => name), ...columnNames(slot)]);
  for (const name of names) {
    const values = series[name] ?? new Array<Value>(length).fill(null);
    grown[name] = put(values, index, slot?.[name] ?? null, COUNTS.has(name));
  }
  const states = (series.state ?? "").padEnd(index, ".");
  grown.state = states.slice(0, index) + worse(states[index] ?? ".", slot?.state ?? ".");
  return grown;
}

function put(values: readonly Value[], index: number, value: Value, isCount: boolean): Value[] {
  const grown = values.slice();
  while (grown.length <= index) grown.push(null);
  const old = grown[index] ?? null;
  if (value !== null) grown[index] = isCount ? (old ?? 0) + value : value;
  return grown;
}

function columns(series: Series): [Column, Value[]][] {
  const entries = Object.entries(series) as [string, unknown][];
  return entries.filter(([name, value]) => name !== "limits" && Array.isArray(value)) as [Column, Value[]][];
}

function columnNames(slot: Slot | undefined): Column[] {
  return Object.keys(slot ?? {}).filter((name) => name !== "state") as Column[];
}

function mapBulk(series: BulkSeries, change: (name: keyof BulkSeries, values: Value[]) => Value[]): BulkSeries {
  return {
    done: change("done", series.done),
    failed: change("failed", series.failed),
    queued: change("queued", series.queued),
    in_flight: change("in_flight", series.in_flight),
    capacity_per_s: change("capacity_per_s", series.capacity_per_s),
  };
}
