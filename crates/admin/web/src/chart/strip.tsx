// State over time as a band: the height says how bad a state is, colour and texture which one it is.

import type { History } from "../api";
import { clock, minute } from "../text/format";
import { stateOf } from "../text/state";
import { type Segment, segments } from "./scale";

interface Shape {
  top: number;
  fill: string;
  texture: string;
}

const SHAPES: Record<string, Shape> = {
  N: { top: 0.66, fill: "f-ok", texture: "" },
  T: { top: 0.36, fill: "f-am", texture: "" },
  H: { top: 0.18, fill: "f-vi", texture: "tx-dots" },
  S: { top: 0, fill: "f-rd", texture: "tx-hatch" },
  C: { top: 0, fill: "f-rd", texture: "tx-lines" },
};

/** Place of a band in a drawing, and the time that it covers. */
export interface BandBox {
  x: number;
  y: number;
  width: number;
  height: number;
  slots: number;
  t0: number;
  step: number;
}

/** Bars of a band. */
export function StateBand({ states, box }: { states: string; box: BandBox }) {
  return <>{segments(states).map((segment) => bar(segment, box))}</>;
}

function bar({ from, to, letter }: Segment, box: BandBox) {
  const shape = SHAPES[letter];
  if (!shape) return null;
  const scale = box.width / Math.max(1, box.slots);
  const x = (box.x + from * scale).toFixed(1);
  const width = Math.max(1.5, (to - from) * scale - 0.6).toFixed(1);
  const y = (box.y + shape.top * box.height).toFixed(1);
  const height = (box.height * (1 - shape.top)).toFixed(1);
  const end = to >= box.slots ? "now" : clock(box.t0 + to * box.step);
  return (
    <g key={from}>
      <rect x={x} y={y} width={width} height={height} class={shape.fill} rx="0.8">
        <title>{`${stateOf(letter)} ${clock(box.t0 + from * box.step)}–${end}`}</title>
      </rect>
      {shape.texture && (
        <rect x={x} y={y} width={width} height={height} fill={`url(#${shape.texture})`} pointer-events="none" />
      )}
    </g>
  );
}

/** Describes a band in words. */
export function describeBand(states: string, t0: number, step: number): string {
  const all = segments(states);
  const last = all.slice(-8);
  const words = last.map((segment) => `${stateOf(segment.letter)} from ${minute(t0 + segment.from * step)}`);
  return words.length ? (all.length > last.length ? `…, ${words.join(", ")}` : words.join(", ")) : "no data";
}

/** Band of one API, as in a row of the overview. */
export function Strip({ name, history, states }: { name: string; history: History; states: string }) {
  const [width, height] = [168, 14];
  const box = { x: 0, y: 0, width, height, slots: states.length, t0: history.t0, step: history.step_ms };
  return (
    <svg
      class="strip"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`State of ${name}: ${describeBand(states, history.t0, history.step_ms)}`}
    >
      <StateBand states={states} box={box} />
    </svg>
  );
}
