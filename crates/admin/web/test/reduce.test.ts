import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApiRow, CallRow, Change, Hello, Tenant } from "../src/api";
import { ALL_APIS, mergeChanges, mergeRows, type Model, reduce } from "../src/model/reduce";

const hello = (more: Partial<Hello> = {}): Hello => ({
  view: "overview",
  at: 1000,
  menu: { apis: [], api_count: 0, queued: 0, dead: 0 },
  program: { version: "0", started: 0, listen: "", machine: "", memory_bytes: 0, pages: 1, has_bulk: false },
  ...more,
});
const row = (name: string, waiting = 0): ApiRow => ({ name, waiting }) as ApiRow;
const change = (id: string, at: number): Change => ({ id, at, kind: "state" }) as Change;
const start = (more: Partial<Hello> = {}): Model => reduce(null, { event: "hello", data: hello(more) }) as Model;

test("frames before the first hello are dropped", () => {
  assert.equal(reduce(null, { event: "tick", data: { at: 1 } }), null);
});

// Unchanged rows stay the same objects, so that they are not drawn again.
test("a tick replaces changed rows only, in the new order", () => {
  const [one, two] = [row("one"), row("two")];
  const merged = mergeRows([one, two], [row("two", 5)], ["two", "one"]);
  assert.deepEqual(
    merged.map((api) => [api.name, api.waiting]),
    [
      ["two", 5],
      ["one", 0],
    ],
  );
  assert.equal(merged[1], one);
  assert.deepEqual(mergeRows([one, two], [], ["one"]), [one]);
});

test("a tick changes the members that it names", () => {
  const model = start({ api: { name: "shop", waiting: 1, memory_bytes: 7 } as Hello["api"] & object });
  const next = reduce(model, { event: "tick", data: { at: 2000, api: { waiting: 4 } } }) as Model;
  assert.deepEqual([next.at, next.api?.waiting, next.api?.memory_bytes], [2000, 4, 7]);
});

test("changes are shown once each, newest first", () => {
  const merged = mergeChanges([change("2", 20), change("1", 10)], [change("3", 30), change("2", 20)]);
  assert.deepEqual(
    merged.map((one) => one.id),
    ["3", "2", "1"],
  );
});

test("a resumed stream of the same view keeps what it had", () => {
  const model = start({
    changes: [change("1", 10)],
    history: { t0: 0, step_ms: 1000, apis: { shop: { sent: [1], state: "N" } }, bulk: null },
  });
  const resumed = reduce(model, {
    event: "hello",
    data: hello({
      changes: [change("2", 20)],
      history: { t0: 1000, step_ms: 1000, apis: { shop: { sent: [2], state: "N" } }, bulk: null },
    }),
  }) as Model;
  assert.deepEqual(
    resumed.changes.map((one) => one.id),
    ["2", "1"],
  );
  assert.deepEqual(resumed.history?.apis["shop"]?.sent, [1, 2]);
  const other = reduce(model, { event: "hello", data: hello({ view: "bulk" }) }) as Model;
  assert.deepEqual([other.changes, other.history], [[], null]);
});

test("a window of tenants takes changed rows and forgets those that left", () => {
  const tenant = (name: string, speed: number): Tenant => ({ tenant: name, speed }) as Tenant;
  const model = start({
    tenants: { tenants: [tenant("a", 1), tenant("b", 2)], next: null, matched: 2, total: 9, offset: 0 },
  });
  const next = reduce(model, {
    event: "tenants",
    data: { rows: [tenant("c", 3)], order: ["c", "a"], matched: 2, total: 9, offset: 0 },
  }) as Model;
  assert.deepEqual(
    next.tenants?.tenants.map((one) => [one.tenant, one.speed]),
    [
      ["c", 3],
      ["a", 1],
    ],
  );
});

test("calls are bounded, newest first, and counted by second", () => {
  const sample = (id: number): CallRow => ({ request_id: String(id), at: id }) as CallRow;
  const minute = { t0: 0, step_ms: 1000, apis: { [ALL_APIS]: { ok: [1], state: "N" } }, bulk: null };
  let model = start({ view: "events", history: minute });
  for (let second = 2; second < 20; second++) {
    const data = {
      at: second * 1000,
      total: 20,
      counts: { ok: 18, cache: 0, failed: 2, throttled: 0, refused: 0 },
      samples: Array.from({ length: 20 }, (_, index) => sample(second * 1000 + index)),
    };
    model = reduce(model, { event: "calls", data }) as Model;
  }
  assert.deepEqual([model.calls.length, model.calls[0]?.at], [100, 19_019]);
  assert.deepEqual(model.history?.apis[ALL_APIS]?.ok?.slice(-2), [18, 18]);
});
