// Head of a view: title, connection, freeze.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { frozen, toggleFreeze } from "../model/store";
import { link } from "../net/link";

/** Span of time that charts show. */
export const range = signal(900_000);

const RANGES: [number, string][] = [
  [60_000, "1 min"],
  [300_000, "5 min"],
  [900_000, "15 min"],
];

interface TopProps {
  title: ComponentChildren;
  /** Beside the title. */
  note?: ComponentChildren;
  actions?: ComponentChildren;
  hasRange?: boolean;
}

export function Top({ title, note, actions, hasRange }: TopProps) {
  return (
    <div class="top">
      <h1>{title}</h1>
      {note}
      <span class="sp" />
      {actions}
      {hasRange && <Ranges />}
      <Live />
      <button
        type="button"
        class="btn hide-s"
        aria-pressed={frozen.value}
        onClick={toggleFreeze}
        title="Freezes this page, not the program"
      >
        {frozen.value ? "Continue" : "Freeze"} <kbd>space</kbd>
      </button>
    </div>
  );
}

function Ranges() {
  return (
    <span class="seg" role="group" aria-label="Time range">
      {RANGES.map(([ms, text]) => (
        <button
          key={ms}
          type="button"
          aria-pressed={range.value === ms}
          onClick={() => {
            range.value = ms;
          }}
        >
          {text}
        </button>
      ))}
    </span>
  );
}

function Live() {
  const [kind, word] = frozen.value ? ["frozen", "Frozen"] : LINKS[link.value.phase];
  return (
    <span class={`live ${kind}`}>
      <i />
      {word}
    </span>
  );
}

const LINKS: Record<typeof link.value.phase, [string, string]> = {
  live: ["on", "Live"],
  connecting: ["wait", "Connecting"],
  lost: ["off", "Not connected"],
  refused: ["off", "Not connected"],
  hidden: ["off", "Resting"],
};

/** Title of a view below another. */
export function Crumb({ parent, href, children }: { parent: string; href: string; children: ComponentChildren }) {
  return (
    <>
      <a class="mut" href={href}>
        {parent}
      </a>{" "}
      <span class="fnt">/</span> <span class="crumb">{children}</span>
    </>
  );
}
