// Changes, and calls summed by second with samples of them.

import type { CallRow, Change, ChangeKind, Changes, History } from "../api";
import type { Value } from "../chart/scale";
import { ALL_APIS } from "../model/reduce";
import { useResource } from "../model/resource";
import { shown } from "../model/store";
import { address } from "../net/request";
import { Empty, Key, Pane } from "../part/pane";
import { Search } from "../part/search";
import { type Column, Table } from "../part/table";
import { Timeline } from "../part/timeline";
import { Top } from "../part/top";
import { route, setQuery, toCall } from "../route";
import { matchesCall, parseCallFilter } from "../text/call_filter";
import { clock, count, span } from "../text/format";
import { LinkBanner } from "./shell";

const KINDS: [ChangeKind, string][] = [
  ["state", "State"],
  ["limit", "Limits"],
  ["operator", "Operators"],
  ["job", "Jobs"],
  ["program", "Program"],
];

export function EventsView() {
  const model = shown.value;
  const { query } = route.value;
  const q = query.get("q") ?? "";
  const filter = parseCallFilter(q);
  const api = query.get("api") ?? filter.api;
  const words = filter.words.join(" ");
  const hidden = new Set((query.get("hide") ?? "").split(",").filter(Boolean));
  const title = (
    <Top
      title="Events"
      actions={<Search label="api:openai status:5xx waited>1s" value={q} onSearch={(text) => setQuery({ q: text })} />}
      note={
        <kbd class="dk" title="Key of the search">
          /
        </kbd>
      }
    />
  );
  const isFiltered = Boolean(words || api);
  // The stream has the newest changes; older ones that match a search come by a request.
  const { value: found } = useResource<Changes>(
    isFiltered ? address("/v1/changes", { q: words, api, most: 200 }) : "",
    5000,
  );
  if (!model || model.view !== "events")
    return (
      <>
        {title}
        <LinkBanner />
        <Empty>Loading…</Empty>
      </>
    );
  const known = isFiltered ? (found?.changes ?? []) : model.changes;
  const changes = known.filter((change) => !hidden.has(change.kind));
  const calls = model.calls.filter((call) => (!api || call.api === api) && matchesCall(call, filter));
  return (
    <>
      {title}
      <div class="stack">
        <LinkBanner />
        <Filters changes={known} hidden={hidden} api={api} names={model.menu.apis.map((one) => one.name)} />
        <div class="g2 start">
          <Pane title="Changes" aside={<span class="mut">last 1,000 kept</span>}>
            {changes.length ? (
              <Timeline changes={changes.slice(0, 60)} />
            ) : (
              <Empty>{isFiltered ? "Nothing matches." : "None since the program started."}</Empty>
            )}
          </Pane>
          <CallsPane calls={calls} history={model.history} rate={model.lastCalls?.total ?? null} />
        </div>
      </div>
    </>
  );
}

function Filters({
  changes,
  hidden,
  api,
  names,
}: {
  changes: Change[];
  hidden: Set<string>;
  api: string;
  names: string[];
}) {
  const toggle = (kind: string): void => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setQuery({ hide: [...next].join(",") });
  };
  return (
    <div class="row" role="group" aria-label="Kinds of changes">
      {KINDS.map(([kind, word]) => (
        <button key={kind} type="button" class="chip" aria-pressed={!hidden.has(kind)} onClick={() => toggle(kind)}>
          {word} <span class="fnt">{count(changes.filter((change) => change.kind === kind).length)}</span>
        </button>
      ))}
      <select aria-label="API" value={api} onChange={(event) => setQuery({ api: event.currentTarget.value })}>
        <option value="">every API</option>
        {(api && !names.includes(api) ? [api, ...names] : names).map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}

const CALLS: Column<CallRow>[] = [
  { name: "Time", cell: (call) => clock(call.at), kind: "fnt nw" },
  { name: "API", cell: (call) => call.api },
  {
    name: "Call",
    cell: (call) => (
      <a href={toCall(call.request_id)}>
        {call.method} {call.path}
      </a>
    ),
    kind: "m words",
  },
  {
    name: "Status",
    cell: (call) => statusOf(call),
    kind: (call) => (call.kind === "failed" || call.kind === "refused" ? "bad nw" : "nw"),
  },
  { name: "Waited", cell: (call) => (call.waited_ms ? span(call.waited_ms) : "0"), right: true, kind: "nw dk" },
  { name: "Took", cell: (call) => span(call.latency_ms), right: true, kind: "nw dk" },
];

function statusOf(call: CallRow): string {
  if (call.kind === "refused") return "refused";
  const status = call.code == null ? (call.reason ?? call.status) : String(call.code);
  return call.cache ? `${status} cache` : status;
}

function CallsPane({ calls, history, rate }: { calls: CallRow[]; history: History | null; rate: number | null }) {
  const aside = rate != null && (
    <span class="mut">{rate > 20 ? `${count(rate)}/s, 20 of them shown, failures first` : `${count(rate)}/s`}</span>
  );
  return (
    <Pane title="Calls" aside={aside}>
      {history && <CallBars history={history} />}
      {calls.length ? (
        <Table caption="Calls, newest first" columns={CALLS} rows={calls.slice(0, 24)} id={(call) => call.request_id} />
      ) : (
        <Empty>No call matches.</Empty>
      )}
    </Pane>
  );
}

const LAYERS: {
  mark: string;
  word: string;
  fill: string;
  texture: string;
  columns: ("ok" | "cache" | "server" | "network" | "other" | "refused" | "throttled")[];
}[] = [
  { mark: "c-ok", word: "ok", fill: "f-ok", texture: "", columns: ["ok"] },
  { mark: "c-ca dotp", word: "cache", fill: "f-ca", texture: "tx-dots", columns: ["cache"] },
  { mark: "c-rd hatch", word: "failed", fill: "f-rd", texture: "tx-hatch", columns: ["server", "network", "other"] },
  { mark: "c-am lines", word: "429", fill: "f-am", texture: "tx-lines", columns: ["throttled"] },
  { mark: "c-vi", word: "refused", fill: "f-vi", texture: "", columns: ["refused"] },
];

/** One bar a second over the last minute. */
function CallBars({ history }: { history: History }) {
  const [width, height, slots] = [600, 56, 60];
  const series = history.apis[ALL_APIS] ?? {};
  const layers = LAYERS.map((layer) =>
    sum(
      layer.columns.map((name) => (series[name] ?? []).slice(-slots)),
      slots,
    ),
  );
  const totals = Array.from({ length: slots }, (_, index) =>
    layers.reduce((all, layer) => all + (layer[index] ?? 0), 0),
  );
  const top = Math.max(1, ...totals);
  const [min, max] = [Math.min(...totals), top];
  return (
    <div class="in">
      <div class="keys">
        {LAYERS.map((layer) => (
          <Key key={layer.word} mark={layer.mark}>
            {layer.word}
          </Key>
        ))}
        <span class="sp" />
        <span class="fnt">{count(max)}/s at most</span>
      </div>
      <svg
        class="bars"
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Calls a second over the last minute, from ${count(min)} to ${count(max)}`}
      >
        {totals.map((_, index) => stackOf(layers, index, top, width / slots, height))}
      </svg>
    </div>
  );
}

function sum(columns: Value[][], slots: number): number[] {
  return Array.from({ length: slots }, (_, index) =>
    columns.reduce((all, column) => all + (column[column.length - slots + index] ?? 0), 0),
  );
}

function stackOf(layers: number[][], index: number, top: number, width: number, height: number) {
  let y = height;
  return (
    <g key={index}>
      {layers.map((layer, kind) => {
        const size = ((layer[index] ?? 0) / top) * height;
        if (size === 0) return null;
        y -= size;
        const box = {
          x: (index * width).toFixed(1),
          y: y.toFixed(1),
          width: (width - 2).toFixed(1),
          height: Math.max(0.8, size - 0.8).toFixed(1),
        };
        const { fill, texture } = LAYERS[kind] ?? { fill: "", texture: "" };
        return (
          <g key={kind}>
            <rect {...box} class={fill} />
            {texture && <rect {...box} fill={`url(#${texture})`} />}
          </g>
        );
      })}
    </g>
  );
}
