// Chart over time. All charts of a view share one axis of time and one crosshair.

import { type Signal, signal, useComputed } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { minute } from "../text/format";
import { Key } from "../part/pane";
import { areaPath, axis, buckets, largest, linePath, timeTicks, type Value } from "./scale";
import { StateBand } from "./strip";

/** Line, area or layer of a chart. */
export interface ChartSeries {
  name: string;
  values: readonly Value[];
  format: (value: number) => string;
  /** Classes of the mark in the key. */
  mark: string;
  /** Class of the line; none for a value that only the key shows. */
  line?: string;
  area?: string;
  /** Texture over the area of a layer. */
  texture?: string;
  take?: "mean" | "max";
}

/** Vertical line with a note. */
export interface ChartMark {
  at: number;
  text: string;
}

interface ChartProps {
  title: string;
  t0: number;
  step: number;
  series: ChartSeries[];
  /** Series are layers on one another. */
  stacked?: boolean;
  /** Area between the second series and the third: lost capacity. */
  lost?: [readonly Value[], readonly Value[]];
  states?: string;
  marks?: ChartMark[];
  height?: number;
  tick?: (value: number) => string;
}

/** Slot under the pointer, in all charts; null without one. */
const cursor: Signal<number | null> = signal(null);

const [LEFT, RIGHT, TOP, BOTTOM] = [36, 4, 8, 30];

export function Chart(props: ChartProps) {
  const { title, series, height = 150 } = props;
  const words = series.map((line) => `${line.name} now ${lastOf(line)}`);
  return (
    <section class="pane chart-pane">
      <header>
        <h2>{title}</h2>
        <span class="sp" />
        <span class="keys">
          {series.map((line) => (
            <LiveKey key={line.name} line={line} />
          ))}
        </span>
      </header>
      <div class="in">
        <Plot {...props} height={height} label={`${title}: ${words.join(", ")}`} />
      </div>
    </section>
  );
}

function lastOf(line: ChartSeries): string {
  const value = line.values[line.values.length - 1];
  return value == null ? "–" : line.format(value);
}

/** Entry of the key, with the value under the pointer. */
function LiveKey({ line }: { line: ChartSeries }) {
  const index = cursor.value ?? line.values.length - 1;
  const value = line.values[Math.min(index, line.values.length - 1)];
  return (
    <Key mark={line.mark}>
      {line.name} <b>{value == null ? "–" : line.format(value)}</b>
    </Key>
  );
}

function Plot(props: ChartProps & { height: number; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    setWidth(element.clientWidth);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const slots = props.series[0]?.values.length ?? 0;
  const plot = width - LEFT - RIGHT;
  const point = (event: PointerEvent): void => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const part = (event.clientX - left - LEFT) / plot;
    cursor.value = part >= 0 && part <= 1 ? Math.min(slots - 1, Math.floor(part * slots)) : null;
  };
  const leave = (): void => {
    cursor.value = null;
  };
  return (
    <div
      class="chart"
      ref={box}
      role="img"
      aria-label={props.label}
      style={{ height: `${props.height}px` }}
      onPointerMove={point}
      onPointerLeave={leave}
    >
      <svg width={width} height={props.height} aria-hidden="true">
        <Drawing {...props} width={plot} />
        <Crosshair width={plot} height={props.height} slots={slots} />
      </svg>
    </div>
  );
}

function Crosshair({ width, height, slots }: { width: number; height: number; slots: number }) {
  const path = useComputed(() => {
    if (cursor.value == null) return "";
    const x = (LEFT + ((cursor.value + 0.5) / Math.max(1, slots)) * width).toFixed(1);
    return `M${x} ${TOP}V${height - BOTTOM}`;
  });
  return <path class="crosshair" d={path.value} />;
}

function Drawing(props: ChartProps & { width: number; height: number }) {
  const { series, stacked, lost, states, width, height, t0, step } = props;
  const slots = series[0]?.values.length ?? 0;
  const points = Math.max(2, Math.min(300, Math.floor(width / 2.2)));
  const drawn = series.map((line) => buckets(line.values, points, line.take));
  const layers = stacked ? sums(drawn) : drawn;
  const isLine = (index: number): boolean => Boolean(series[index]?.line || series[index]?.area);
  const most = Math.max(0, ...layers.map((values, index) => (isLine(index) ? largest(values) : 0)));
  const { top, ticks } = axis(most);
  const inner = height - TOP - BOTTOM;
  const last = Math.max(1, (drawn[0]?.length ?? 1) - 1);
  const y = (value: number): number => TOP + inner - (Math.min(value, top) / top) * inner;
  const place = (index: number, value: number): string =>
    `${(LEFT + (index / last) * width).toFixed(1)} ${y(value).toFixed(1)}`;
  const zero = (values: readonly Value[]): Value[] => values.map((value) => (value == null ? null : 0));
  const end = t0 + slots * step;
  const x = (at: number): number => LEFT + ((at - t0) / Math.max(1, end - t0)) * width;
  return (
    <>
      {ticks.map((tick) => (
        <g key={tick}>
          <path class={tick ? "grid" : "axis"} d={`M${LEFT} ${Math.round(y(tick)) + 0.5}H${LEFT + width}`} />
          <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">
            {props.tick ? props.tick(tick) : tick.toLocaleString("en-US")}
          </text>
        </g>
      ))}
      {timeTicks(t0, end, width < 330 ? 3 : 6)
        .filter((at) => x(at) > LEFT + 14 && x(at) < LEFT + width - 12)
        .map((at) => (
          <text key={at} x={x(at).toFixed(1)} y={height - 1} text-anchor="middle">
            {minute(at)}
          </text>
        ))}
      {states !== undefined && (
        <StateBand states={states} box={{ x: LEFT, y: height - BOTTOM + 5, width, height: 8, slots, t0, step }} />
      )}
      {lost && <path class="lost" d={areaPath(buckets(lost[1], points), buckets(lost[0], points), place)} />}
      {series.map((line, index) => {
        const values = layers[index] ?? [];
        const below = stacked && index > 0 ? (layers[index - 1] ?? []) : zero(values);
        const area = areaPath(values, below, place);
        return (
          <g key={line.name}>
            {line.area && <path class={line.area} d={area} />}
            {line.texture && <path d={area} fill={`url(#${line.texture})`} />}
            {line.line && <path class={`line ${line.line}`} d={linePath(values, place)} />}
          </g>
        );
      })}
      {apart(props.marks?.filter((mark) => mark.at >= t0 && mark.at <= end) ?? [], x).map((mark) => (
        <g key={mark.at}>
          <path class="mark" d={`M${x(mark.at).toFixed(1)} ${TOP}V${height - BOTTOM}`} />
          <text
            x={x(mark.at) > width * 0.8 ? x(mark.at) - 4 : x(mark.at) + 4}
            y={TOP + 9}
            text-anchor={x(mark.at) > width * 0.8 ? "end" : "start"}
          >
            {mark.text}
          </text>
        </g>
      ))}
    </>
  );
}

/** Leaves out notes that would lie on one another; the newest stay. */
function apart(marks: ChartMark[], x: (at: number) => number): ChartMark[] {
  return marks.filter((mark, index) => marks.slice(0, index).every((newer) => x(newer.at) - x(mark.at) > NOTE_WIDTH));
}

const NOTE_WIDTH = 84;

/** Adds each layer to those below it. */
function sums(layers: Value[][]): Value[][] {
  const base: number[] = [];
  return layers.map((layer) =>
    layer.map((value, index) => {
      if (value == null) return null;
      base[index] = (base[index] ?? 0) + value;
      return base[index] ?? 0;
    }),
  );
}
