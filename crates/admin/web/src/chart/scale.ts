// Scales and buckets of charts, as pure functions.

export type Value = number | null;

/** Top of an axis and its ticks, from zero. */
export interface Axis {
  top: number;
  ticks: number[];
}

/** Picks two to four round ticks; the top leaves a little air above the maximum. */
export function axis(max: number): Axis {
  if (!(max > 0)) return { top: 1, ticks: [0, 1] };
  const rough = max / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => max / step <= 3.2) ?? 10 * power;
  const ticks: number[] = [];
  for (let tick = 0; tick <= max * 1.02; tick = ticks.length * step) ticks.push(Number(tick.toPrecision(6)));
  return { top: Math.max(max * 1.12, ticks[ticks.length - 1] ?? max), ticks };
}

/** Combines values into at most `most` buckets of equal width: the mean, or the largest value. */
export function buckets(values: readonly Value[], most: number, take: "mean" | "max" = "mean"): Value[] {
  if (values.length <= most) return values.slice();
  const combined: Value[] = [];
  for (let index = 0; index < most; index++) {
    const from = Math.floor((index * values.length) / most);
    const to = Math.max(from + 1, Math.floor(((index + 1) * values.length) / most));
    combined.push(combine(values, from, to, take));
  }
  return combined;
}

function combine(values: readonly Value[], from: number, to: number, take: "mean" | "max"): Value {
  let [sum, known, max] = [0, 0, -Infinity];
  for (let index = from; index < to; index++) {
    const value = values[index];
    if (value == null) continue;
    sum += value;
    known += 1;
    max = Math.max(max, value);
  }
  if (known === 0) return null;
  return take === "max" ? max : sum / known;
}

/**
 * Averages each value with those before it, over `width` slots. A change of state begins a new average: the rate of another
 * state says nothing about this one.
 */
export function trailing(values: readonly Value[], width: number, states = ""): Value[] {
  let [from, sum, known] = [0, 0, 0];
  return values.map((value, index) => {
    if (index > 0 && states[index] !== states[index - 1]) [from, sum, known] = [index, 0, 0];
    if (value != null) [sum, known] = [sum + value, known + 1];
    if (index - width >= from) {
      const gone = values[index - width];
      if (gone != null) [sum, known] = [sum - gone, known - 1];
    }
    return value == null ? null : Math.max(0, sum / known);
  });
}

/** Turns counts of slots into rates a second. The last slot may have begun a moment before `at`. */
export function slotRates(counts: readonly Value[], t0: number, step: number, at: number): Value[] {
  const begun = at - (t0 + (counts.length - 1) * step);
  const last = Math.min(step, Math.max(1000, begun));
  return counts.map((count, index) => {
    const length = index === counts.length - 1 ? last : step;
    return count == null ? null : (count * 1000) / length;
  });
}

/** Returns the largest value; 0 without values. */
export function largest(values: readonly Value[]): number {
  let max = 0;
  for (const value of values) if (value != null && value > max) max = value;
  return max;
}

/** Point of a line. */
export type Place = (index: number, value: number) => string;

/** Draws a line; it breaks where there is no data. */
export function linePath(values: readonly Value[], place: Place): string {
  let path = "";
  let isOpen = false;
  values.forEach((value, index) => {
    if (value != null) path += (isOpen ? "L" : "M") + place(index, value);
    isOpen = value != null;
  });
  return path;
}

/** Draws the areas between two lines; they end where either has no data. */
export function areaPath(upper: readonly Value[], lower: readonly Value[], place: Place): string {
  let path = "";
  for (const [from, to] of runs(upper, lower)) {
    const there: string[] = [];
    const back: string[] = [];
    for (let index = from; index < to; index++) {
      there.push(place(index, upper[index] ?? 0));
      back.unshift(place(index, lower[index] ?? 0));
    }
    path += `M${there.join("L")}L${back.join("L")}Z`;
  }
  return path;
}

function runs(upper: readonly Value[], lower: readonly Value[]): [number, number][] {
  const found: [number, number][] = [];
  let from = -1;
  for (let index = 0; index <= upper.length; index++) {
    const isKnown = index < upper.length && upper[index] != null && lower[index] != null;
    if (isKnown && from < 0) from = index;
    if (!isKnown && from >= 0) {
      found.push([from, index]);
      from = -1;
    }
  }
  return found;
}

/** Run of one letter in a history. */
export interface Segment {
  from: number;
  to: number;
  letter: string;
}

/** Splits a history of letters into runs; those without data are left out. */
export function segments(states: string): Segment[] {
  const found: Segment[] = [];
  for (let index = 0; index < states.length; index++) {
    const letter = states[index] as string;
    const last = found[found.length - 1];
    if (last && last.letter === letter && last.to === index) last.to = index + 1;
    else found.push({ from: index, to: index + 1, letter });
  }
  return found.filter((segment) => segment.letter !== ".");
}

/** Instants of an axis of time: whole minutes, at most `most` of them. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const steps = [10_000, 30_000, 60_000, 120_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000];
  const step = steps.find((step) => (to - from) / step <= most) ?? 7_200_000;
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return ticks;
}
