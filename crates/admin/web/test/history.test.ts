import assert from "node:assert/strict";
import { test } from "node:test";
import type { History } from "../src/api";
import { appendSlots, historyEnd, joinHistory, mergeHistory, slotCount } from "../src/model/history";

const past = (t0: number, sent: (number | null)[], state: string, step_ms = 1000): History => ({
  t0,
  step_ms,
  apis: { shop: { sent, state } },
  bulk: null,
});

test("a second becomes a slot, and the oldest leaves", () => {
  const grown = appendSlots(past(0, [1, 2, 3], "NNN"), 4000, { shop: { sent: 4, state: "T" } }, null, 3);
  assert.deepEqual(grown, past(1000, [2, 3, 4], "NNT"));
});

// Steps of 10 s: counts add up, gauges and states do not.
test("a slot of several seconds adds counts and keeps the worst state", () => {
  const start: History = {
    t0: 0,
    step_ms: 10_000,
    apis: { shop: { sent: [5], waiting: [3], state: "N" } },
    bulk: null,
  };
  let grown = start;
  for (const [at, state] of [
    [11_000, "N"],
    [12_000, "S"],
    [13_000, "N"],
  ] as const)
    grown = appendSlots(grown, at, { shop: { sent: 2, waiting: at / 1000, state } }, null, 90);
  assert.deepEqual(grown.apis["shop"], { sent: [5, 6], waiting: [3, 13], state: "NS" });
});

test("missed seconds have no data, and are no zeros", () => {
  const grown = appendSlots(past(0, [1], "N"), 4000, { shop: { sent: 4, state: "N" } }, null, 900);
  assert.deepEqual(grown.apis["shop"], { sent: [1, null, null, 4], state: "N..N" });
});

test("a late slot changes nothing", () => {
  const start = past(5000, [1, 2], "NN");
  assert.equal(appendSlots(start, 3000, { shop: { sent: 9 } }, null, 900), start);
});

// A stream that resumes sends the slots since its last frame.
test("a resumed history continues the old one", () => {
  const merged = mergeHistory(past(0, [1, 2, 3], "NNN"), past(2000, [30, 4], "TT"), 900);
  assert.deepEqual(merged, past(0, [1, 2, 30, 4], "NNTT"));
});

test("a gap between two histories has no data", () => {
  const merged = mergeHistory(past(0, [1], "N"), past(3000, [4], "N"), 900);
  assert.deepEqual(merged, past(0, [1, null, null, 4], "N..N"));
});

test("another step replaces the history", () => {
  const fresh = past(0, [9], "N", 5000);
  assert.equal(mergeHistory(past(0, [1], "N"), fresh, 900), fresh);
});

test("a new API has no data before its first slot", () => {
  const grown = appendSlots(
    past(0, [1, 2], "NN"),
    3000,
    { shop: { sent: 3, state: "N" }, tmdb: { sent: 1, state: "N" } },
    null,
    900,
  );
  assert.deepEqual(grown.apis["tmdb"], { sent: [null, null, 1], state: "..N" });
  assert.deepEqual([slotCount(grown), historyEnd(grown)], [3, 3000]);
});

// Its history begins a slot later, and ends a slot later too.
test("an API that enters the rows brings its past", () => {
  const fresh: History = { t0: 1000, step_ms: 1000, apis: { tmdb: { sent: [5, 6, 7], state: "NTS" } }, bulk: null };
  const joined = joinHistory(past(0, [1, 2, 3], "NNN"), fresh);
  assert.deepEqual(joined.apis, {
    shop: { sent: [1, 2, 3], state: "NNN" },
    tmdb: { sent: [null, 5, 6], state: ".NT" },
  });
});

test("bulk counts follow their own columns", () => {
  const start: History = {
    t0: 0,
    step_ms: 1000,
    apis: {},
    bulk: { done: [1], failed: [0], queued: [9], in_flight: [1], capacity_per_s: [10] },
  };
  const grown = appendSlots(
    start,
    2000,
    {},
    { done: 2, failed: 0, queued: 7, in_flight: 1, capacity_per_s: null },
    900,
  );
  assert.deepEqual(grown.bulk, {
    done: [1, 2],
    failed: [0, 0],
    queued: [9, 7],
    in_flight: [1, 1],
    capacity_per_s: [10, null],
  });
});
