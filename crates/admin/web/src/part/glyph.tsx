// Small drawings: states, the lock of an override, and the icons of the navigation.

import type { StateName } from "../api";
import { letterOf } from "../text/state";

/** Drawing of a state; its shape alone tells the states apart. */
export function StateGlyph({ state }: { state: StateName }) {
  return (
    <svg class="glyph" width="11" height="11" viewBox="0 0 12 12" aria-hidden="true">
      {drawing(state)}
    </svg>
  );
}

function drawing(state: StateName) {
  switch (state) {
    case "Throttle":
      return [<circle cx="6" cy="6" r="4.2" class="ring am" />, <path d="M6 1.8a4.2 4.2 0 0 1 0 8.4z" class="f-am" />];
    case "Sleep":
      return <path d="M2.5 1.5h2.6v9H2.5zM6.9 1.5h2.6v9H6.9z" class="f-rd" />;
    case "HalfOpen":
      return <circle cx="6" cy="6" r="4.2" class="ring vi dashed" />;
    case "CacheOnly":
      return [<path d="M1.5 1.5h9v9h-9z" class="f-rd" />, <path d="M1.5 5h9M1.5 8h9" class="s-pane" />];
    default:
      return <circle cx="6" cy="6" r="4" class="f-ok" />;
  }
}

/** Lock: an operator overrides the state. */
export function Lock() {
  return (
    <span class="lock" title="overridden by an operator">
      <svg width="10" height="11" viewBox="0 0 10 11" aria-hidden="true">
        <rect x="1" y="4.6" width="8" height="6" rx="1.2" fill="currentColor" />
        <path d="M2.8 4.6V3.2a2.2 2.2 0 0 1 4.4 0v1.4" fill="none" stroke="currentColor" stroke-width="1.3" />
      </svg>
      <span class="vh">overridden by an operator</span>
    </span>
  );
}

/** State with its glyph and word. */
export function StateLabel({ state, held }: { state: StateName; held?: boolean }) {
  return (
    <span class={`state s${letterOf(state)}`}>
      <StateGlyph state={state} />
      {state}
      {held && <Lock />}
    </span>
  );
}

const ICONS: Record<string, string> = {
  overview: "M1.5 2h11M1.5 7h11M1.5 12h11",
  bulk: "M2 2h4v4H2zM8 2h4v4H8zM2 8h4v4H2zM8 8h4v4H8z",
  jobs: "M2 3h1M2 7h1M2 11h1M5.5 3H12M5.5 7H12M5.5 11H12",
  dead: "M1.5 3h11v8h-11zM1.5 3l5.5 4.5 5.5-4.5",
  explain: "M7 12.5a5.5 5.5 0 1 1 0-11 5.5 5.5 0 0 1 0 11M7 6.5v3.5M7 4v1",
  events: "M1 7h2.5l2-5 3 10 2-5H13",
  config: "M2 4h10M2 10h10M5 2.5v3M9 8.5v3",
};

/** Icon of a view. */
export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
      <path d={ICONS[name] ?? ""} />
    </svg>
  );
}

/** Sign of the program. */
export function Logo() {
  return (
    <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <path d="M2 5h6c4 0 4 8 8 8M2 9h5M2 13h4" class="logo" />
    </svg>
  );
}

/** Tone of a sentence about a state. */
export type Tone = "red" | "amber" | "violet" | "blue" | "";

/** Sign before a sentence that says why. */
export function WhyIcon({ tone }: { tone: Tone }) {
  return (
    <svg class={`why-icon ${tone || "plain"}`} width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
      <circle cx="7" cy="7" r="6" />
      <path d="M7 6.3v3.6M7 3.8v1.2" />
    </svg>
  );
}

/** Textures of charts. One copy serves the whole page. */
export function Textures() {
  return (
    <svg class="textures" width="0" height="0" aria-hidden="true">
      <defs>
        <pattern id="tx-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <path d="M0 0v5" class="s-pane" stroke-width="2.2" />
        </pattern>
        <pattern id="tx-lines" width="4" height="4" patternUnits="userSpaceOnUse">
          <path d="M0 1h4" class="s-pane" stroke-width="1.3" />
        </pattern>
        <pattern id="tx-dots" width="4" height="4" patternUnits="userSpaceOnUse">
          <circle cx="2" cy="2" r="1" class="f-pane" />
        </pattern>
      </defs>
    </svg>
  );
}
