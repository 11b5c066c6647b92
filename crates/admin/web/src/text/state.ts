// Health states: letters of the history, severity and class names.

import type { OverrideName, StateName } from "../api";

/** Letter of a state in a history; "." is no data. */
export type StateLetter = "N" | "T" | "S" | "H" | "C" | ".";

const LETTERS: Record<StateName, StateLetter> = {
  Normal: "N",
  Throttle: "T",
  Sleep: "S",
  HalfOpen: "H",
  CacheOnly: "C",
};
const NAMES: Record<string, StateName> = { N: "Normal", T: "Throttle", S: "Sleep", H: "HalfOpen", C: "CacheOnly" };
const SEVERITY: Record<string, number> = { ".": -1, N: 0, T: 1, H: 2, S: 3, C: 4 };

export function letterOf(state: StateName): StateLetter {
  return LETTERS[state] ?? ".";
}

/** Returns the name of a letter; "no data" for every other character. */
export function stateOf(letter: string): StateName | "no data" {
  return NAMES[letter] ?? "no data";
}

/** Returns the worse of two letters. */
export function worse(one: string, other: string): string {
  return (SEVERITY[one] ?? -1) >= (SEVERITY[other] ?? -1) ? one : other;
}

/** Returns true if no call passes, apart from probes. */
export function isStopped(state: StateName): boolean {
  return state === "Sleep" || state === "CacheOnly";
}

/** Words of the overrides, with their effect. */
export const OVERRIDES: { name: OverrideName; text: string }[] = [
  { name: "cache_only", text: "cache only: no calls, the cache answers" },
  { name: "offline", text: "offline: no calls, the cache answers" },
  { name: "throttle", text: "throttle: reduced speed" },
  { name: "normal", text: "normal: full speed, Retry-After still kept" },
];
