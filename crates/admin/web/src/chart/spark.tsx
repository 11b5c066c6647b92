// Small charts in rows of a table.

import { areaPath, buckets, largest, linePath, type Value } from "./scale";

interface SparkProps {
  label: string;
  rate: readonly Value[];
  effective: readonly Value[];
  configured: number | null;
}

const [WIDTH, HEIGHT, POINTS] = [168, 30, 84];

/** Rate against the limit in effect and the configured one; the lost capacity is pale. */
export function RateSpark({ label, rate, effective, configured }: SparkProps) {
  const sent = buckets(rate, POINTS);
  const allowed = buckets(effective, POINTS);
  const top = Math.max(configured ?? 0, largest(sent), configured == null ? largest(allowed) : 0) * 1.12 || 1;
  const last = Math.max(1, sent.length - 1);
  const y = (value: number): string => (HEIGHT - 1 - (Math.min(value, top) / top) * (HEIGHT - 2)).toFixed(1);
  const place = (index: number, value: number): string => `${((index / last) * WIDTH).toFixed(1)} ${y(value)}`;
  const zero = sent.map((value) => (value == null ? null : 0));
  const full = allowed.map((value) => (value == null ? null : (configured ?? value)));
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {configured != null && <path d={areaPath(full, allowed, place)} class="lost" />}
      <path d={areaPath(sent, zero, place)} class="rate-area" />
      {configured != null && <path d={`M0 ${y(configured)}H${WIDTH}`} class="configured" />}
      {configured != null && <path d={linePath(allowed, place)} class="effective" />}
      <path d={linePath(sent, place)} class="rate" />
    </svg>
  );
}

/** Course of one value, without axes. */
export function MiniLine({ values }: { values: readonly Value[] }) {
  const [width, height] = [64, 18];
  const top = largest(values) * 1.05 || 1;
  const last = Math.max(1, values.length - 1);
  const place = (index: number, value: number): string =>
    `${((index / last) * width).toFixed(1)} ${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`;
  const zero = values.map((value) => (value == null ? null : 0));
  return (
    <svg class="mini" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={areaPath(values, zero, place)} class="rate-area" />
      <path d={linePath(values, place)} class="mini-line" />
    </svg>
  );
}
