// Parts of a call or a job over time.

import type { CallPart, PartCode } from "../api";
import { exactSpan } from "../text/format";

const MARKS: Record<PartCode, string> = {
  queue: "c-gr",
  limit: "c-am",
  backoff: "c-gr dotp",
  scheduled: "c-gr dotp",
  attempt: "c-bl",
  failed: "c-rd hatch",
  own: "c-ok",
};

/** One bar per part; a part without an end lasts until now. */
export function Waterfall({ parts, label }: { parts: CallPart[]; label: string }) {
  const end = Math.max(1, ...parts.map((part) => part.to_ms ?? part.from_ms));
  return (
    <ol class="wf" aria-label={label}>
      {parts.map((part, index) => {
        const to = part.to_ms ?? end;
        return (
          <li key={index}>
            <span class="mut">{part.text}</span>
            <span class="wf-line" aria-hidden="true">
              <i
                class={MARKS[part.code]}
                style={{ left: percent(part.from_ms / end), width: percent(Math.max(0, to - part.from_ms) / end) }}
              />
            </span>
            <span class="r">{exactSpan(to - part.from_ms)}</span>
          </li>
        );
      })}
    </ol>
  );
}

const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;
