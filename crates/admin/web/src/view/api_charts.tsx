// Charts of one API: rate, waiting, latency and outcomes over one axis of time.

import type { Api, Change, History, Series } from "../api";
import { Chart, type ChartMark } from "../chart/chart";
import { trailing, type Value } from "../chart/scale";
import { range } from "../part/top";
import { limitNumber, perSecond, span } from "../text/format";

/** Part of a history that the chosen range shows. */
interface Window {
  t0: number;
  step: number;
  series: Series;
}

function cutWindow(history: History, name: string): Window {
  const series = history.apis[name] ?? {};
  const length = series.state?.length ?? 0;
  const from = Math.max(0, length - Math.round(range.value / history.step_ms));
  return { t0: history.t0 + from * history.step_ms, step: history.step_ms, series: sliceSeries(series, from) };
}

function sliceSeries(series: Series, from: number): Series {
  const cut: Record<string, unknown> = {};
  for (const [name, values] of Object.entries(series)) {
    if (name !== "limits") cut[name] = (values as string | Value[]).slice(from);
  }
  return cut as Series;
}

export function ApiCharts({ api, history, changes }: { api: Api; history: History; changes: Change[] }) {
  const whole = history.apis[api.name] ?? {};
  const window = cutWindow(history, api.name);
  const { t0, step, series } = window;
  const length = series.state?.length ?? 0;
  const perSlot = 1000 / step;
  const width = Math.max(1, Math.round(api.rate.window_ms / step));
  // The average over the limit's window begins before the first slot that is shown.
  const sent = trailing(
    (whole.sent ?? []).map((value) => scaled(value, perSlot)),
    width,
    whole.state,
  ).slice(-length);
  const configured = api.rate.configured_per_s;
  const steady = new Array<Value>(length).fill(configured);
  const effective = series.effective_per_s ?? [];
  const common = { t0, step, states: series.state ?? "" };
  const rate = (value: number): string => `${perSecond(value)}/s`;
  const lowered = effective.map((value) => (value == null ? null : value));
  return (
    <div class="g2">
      <Chart
        {...common}
        title="Rate vs limit"
        marks={marksOf(changes)}
        {...(configured != null && { lost: [lowered, steady] as [Value[], Value[]] })}
        series={[
          { name: "sent", values: sent, format: rate, mark: "ln c-bl", line: "rate", area: "rate-area" },
          ...(configured == null
            ? []
            : [
                {
                  name: "in effect",
                  values: effective,
                  format: (value: number) => `${limitNumber(value)}/s`,
                  mark: "so",
                  line: "effective",
                },
                {
                  name: "configured",
                  values: steady,
                  format: (value: number) => `${limitNumber(value)}/s`,
                  mark: "dt",
                  line: "configured",
                },
              ]),
        ]}
      />
      <Chart
        {...common}
        title="Waiting"
        series={[
          {
            name: "calls",
            values: series.waiting ?? [],
            format: (value) => String(Math.round(value)),
            mark: "ln c-bl",
            line: "rate",
            area: "rate-area",
            take: "max",
          },
          { name: "wait p95", values: series.wait_p95_ms ?? [], format: span, mark: "none" },
        ]}
      />
      <Chart
        {...common}
        title="Latency of attempts"
        tick={(value) => (value ? span(value).replace(".0", "") : "0")}
        series={[
          { name: "p95", values: series.latency_p95_ms ?? [], format: span, mark: "da", line: "p95" },
          { name: "p50", values: series.latency_p50_ms ?? [], format: span, mark: "ln c-bl", line: "rate" },
        ]}
      />
      <Chart
        {...common}
        title="Outcomes"
        stacked
        series={[
          layer("ok", series.ok, perSlot, "c-ok", "a-ok"),
          layer(
            "failed",
            added(series.server, series.network, series.other),
            perSlot,
            "c-rd hatch",
            "a-rd",
            "tx-hatch",
          ),
          layer("429", series.throttled, perSlot, "c-am lines", "a-am", "tx-lines"),
          layer("cache", series.cache, perSlot, "c-ca dotp", "a-ca", "tx-dots"),
        ]}
      />
    </div>
  );
}

function layer(
  name: string,
  values: readonly Value[] | undefined,
  perSlot: number,
  mark: string,
  area: string,
  texture?: string,
) {
  const scaledValues = trailing(
    (values ?? []).map((value) => scaled(value, perSlot)),
    Math.round(OUTCOME_WINDOW * perSlot),
  );
  return {
    name,
    values: scaledValues,
    format: (value: number) => perSecond(value),
    mark,
    area,
    ...(texture && { texture }),
  };
}

const scaled = (value: Value, factor: number): Value => (value == null ? null : value * factor);

function added(...columns: (readonly Value[] | undefined)[]): Value[] {
  const first = columns.find((column) => column !== undefined) ?? [];
  return first.map((_, index) => {
    const known = columns.flatMap((column) => column?.[index] ?? []);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });
}

/** Single outcomes of a slow API would flicker; ten seconds are a rate. */
const OUTCOME_WINDOW = 10;

/** Notes of the last three changes for the worse. */
function marksOf(changes: Change[]): ChartMark[] {
  const worse = changes.filter(
    (change) =>
      change.kind === "state" &&
      (change.state === "Throttle" || change.state === "Sleep") &&
      change.reason &&
      !/_ok$|over$|forced|released/.test(change.reason),
  );
  return worse.slice(0, 3).map((change) => ({ at: change.at, text: (change.reason ?? "").replaceAll("_", " ") }));
}
