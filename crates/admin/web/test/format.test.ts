import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  bytes,
  clock,
  count,
  exactSpan,
  limitNumber,
  minute,
  perSecond,
  percent,
  plural,
  rateText,
  share,
  short,
  span,
} from "../src/text/format";

// Each unit with its borders: rounding must not give "60 s" or "1000 ms".
test("spans have one form", () => {
  const cases: [number, string][] = [
    [0, "0 ms"],
    [86.4, "86 ms"],
    [999.4, "999 ms"],
    [999.6, "1.0 s"],
    [7700, "7.7 s"],
    [9949, "9.9 s"],
    [9960, "10 s"],
    [59_400, "59 s"],
    [59_600, "1 min"],
    [312_000, "5 min 12 s"],
    [720_000, "12 min"],
    [3_599_600, "1 h"],
    [11_520_000, "3 h 12 min"],
    [187_200_000, "2 d 4 h"],
  ];
  for (const [ms, text] of cases) assert.equal(span(ms), text);
  assert.equal(span(null), "–");
  assert.equal(span(-5), "0 ms");
  assert.deepEqual(
    [exactSpan(34), exactSpan(5020), exactSpan(100_000), exactSpan(null)],
    ["34 ms", "5.02 s", "1 min 40 s", "–"],
  );
});

test("numbers have separators and as many digits as they need", () => {
  assert.deepEqual(
    [count(12_408), count(null), short(999), short(2911), short(12_408), short(1_200_000)],
    ["12,408", "–", "999", "2.9k", "12.4k", "1.2M"],
  );
  assert.deepEqual(
    [perSecond(0), perSecond(0.02), perSecond(14.23), perSecond(1250.4)],
    ["0.0", "0.02", "14.2", "1,250"],
  );
  assert.deepEqual(
    [limitNumber(10), limitNumber(1.3888), limitNumber(7.5), limitNumber(2000)],
    ["10", "1.39", "7.5", "2,000"],
  );
  assert.deepEqual([rateText("90000/min"), rateText("5000/h"), rateText("10/s")], ["90,000/min", "5000/h", "10/s"]);
  assert.deepEqual([percent(31_000), percent(980_000, 0), percent(null)], ["3.1", "98", "–"]);
  assert.deepEqual([share(1, 3), share(33, 12_408), share(0, 0), share(8, 100)], ["33", "0.3", "0", "8"]);
  assert.deepEqual([plural(1, "job"), plural(2000, "job")], ["1 job", "2,000 jobs"]);
  assert.deepEqual([bytes(57), bytes(17_000_000), bytes(2_400)], ["57 bytes", "17 MB", "2.4 kB"]);
});

test("an instant of another day shows its date", () => {
  const at = Date.UTC(2026, 10, 17, 11, 4, 18);
  assert.equal(clock(at, at + 1000), "11:04:18");
  assert.equal(clock(at, at + 86_400_000), "2026-11-17 11:04");
  assert.equal(minute(at), "11:04");
  assert.deepEqual([ago(40), ago(400), ago(186_000)], ["now", "400 ms ago", "3 min ago"]);
});
