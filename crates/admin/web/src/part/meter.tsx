// Bars: usage of a limit, share of a tenant, progress of an action, level of congestion.

import type { CongestionName } from "../api";
import { capital } from "../text/format";

/** Clamps a share to what a bar can show. */
const cut = (percent: number): string => `${Math.max(0, Math.min(100, percent)).toFixed(1)}%`;

interface FillProps {
  label: string;
  used: number;
  /** Mark of the highest value, as a percentage. */
  peak?: number | null;
  /** Dotted mark of a prediction. */
  predicted?: number | null;
  /** Colours the bar from here on. */
  warnAt?: number;
}

/** Bar with marks; all values are percentages. */
export function FillBar({ label, used, peak, predicted, warnAt = 90 }: FillProps) {
  return (
    <span class="bar" role="img" aria-label={label}>
      <i class={used >= warnAt ? "full" : ""} style={{ width: cut(used) }} />
      {peak != null && <u style={{ left: cut(peak) }} />}
      {predicted != null && <s style={{ left: cut(predicted) }} />}
    </span>
  );
}

/** Part of a whole, with its colour and texture as classes. */
export interface Part {
  mark: string;
  size: number;
}

/** Whole in parts. A part that is not empty is never thinner than a line. */
export function PartBar({ label, parts, tall }: { label: string; parts: Part[]; tall?: boolean }) {
  const shown = parts.filter((part) => part.size > 0);
  return (
    <div class={`seg2 ${tall ? "tall" : ""}`} role="img" aria-label={label}>
      {shown.map((part, index) => (
        <i key={index} class={part.mark} style={{ flexGrow: part.size }} />
      ))}
    </div>
  );
}

const LEVELS: CongestionName[] = ["NONE", "LOW", "MODERATE", "HIGH", "CRITICAL"];

/** Level of congestion: height and word. */
export function Level({ level }: { level: CongestionName }) {
  const filled = LEVELS.indexOf(level);
  return (
    <span class={`lvl ${filled === 4 ? "c" : filled === 3 ? "h" : ""}`}>
      <svg width="22" height="11" viewBox="0 0 22 11" aria-hidden="true">
        {[0, 1, 2, 3].map((bar) => (
          <rect
            key={bar}
            x={bar * 6}
            y={8 - bar * 2.6}
            width="4"
            height={3 + bar * 2.6}
            class={bar < filled ? "on" : ""}
          />
        ))}
      </svg>
      {capital(level.toLowerCase())}
    </span>
  );
}
