import assert from "node:assert/strict";
import { test } from "node:test";
import { areaPath, axis, buckets, linePath, segments, slotRates, timeTicks, trailing } from "../src/chart/scale";

test("an axis has round ticks and air above the maximum", () => {
  for (const max of [0.3, 1.39, 10, 46, 99, 640, 2400, 8236, 1e6]) {
    const { top, ticks } = axis(max);
    assert.ok(top > max && top <= max * 1.5, `${top} above ${max}`);
    assert.ok(ticks.length >= 2 && ticks.length <= 5, `${ticks}`);
    assert.equal(ticks[0], 0);
  }
  assert.deepEqual(axis(10).ticks, [0, 5, 10]);
  assert.deepEqual(axis(0), { top: 1, ticks: [0, 1] });
});

test("buckets keep gaps, means and peaks", () => {
  assert.deepEqual(buckets([1, 3, null, null, 5, null], 3), [2, null, 5]);
  assert.deepEqual(buckets([1, 3, null, null, 5, null], 3, "max"), [3, null, 5]);
  assert.deepEqual(buckets([1, null], 300), [1, null]);
});

// A legal burst of 6 in one second at 6 in 3 s stays at the limit; a change of state forgets the slots before it.
test("the rate is the average of a window, and of one state", () => {
  assert.deepEqual(trailing([6, 0, 0, 6], 3), [6, 3, 2, 2]);
  assert.deepEqual(trailing([6, 6, 0, 0], 3, "NNSS"), [6, 6, 0, 0]);
  assert.deepEqual(trailing([4, null, 2], 3), [4, null, 3]);
});

// 10/s in steps of 10 s, of which the last began 3 s ago: the line must not drop at its end.
test("a slot that has just begun counts its own length", () => {
  assert.deepEqual(slotRates([100, null, 30], 0, 10_000, 23_000), [10, null, 10]);
  assert.deepEqual(slotRates([100, 100], 0, 10_000, 20_000), [10, 10]);
  assert.deepEqual(slotRates([10, 10], 0, 1000, 2400), [10, 10]);
});

test("lines and areas break where there is no data", () => {
  const place = (index: number, value: number): string => `${index} ${value}`;
  assert.equal(linePath([1, 2, null, 3], place), "M0 1L1 2M3 3");
  assert.equal(areaPath([1, 2, null, 3], [0, 0, 0, 0], place), "M0 1L1 2L1 0L0 0ZM3 3L3 0Z");
});

test("states become runs, without those of no data", () => {
  assert.deepEqual(segments("..NNT"), [
    { from: 2, to: 4, letter: "N" },
    { from: 4, to: 5, letter: "T" },
  ]);
  assert.deepEqual(segments(""), []);
});

test("ticks of time are at round instants", () => {
  assert.deepEqual(timeTicks(1_000, 301_000, 6), [60_000, 120_000, 180_000, 240_000, 300_000]);
});
