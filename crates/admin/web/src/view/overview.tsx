// All APIs, the worst first: is anything wrong, why, what can be done.

import { signal } from "@preact/signals";
import type { ApiRow, Bulk, History, Totals } from "../api";
import { shown } from "../model/store";
import { RateSpark } from "../chart/spark";
import { slotRates, trailing } from "../chart/scale";
import { Strip } from "../chart/strip";
import { StateLabel } from "../part/glyph";
import { Empty, type Figure, Figures, Key, Pane, SlowText, Unit } from "../part/pane";
import { Search } from "../part/search";
import { Timeline } from "../part/timeline";
import { range, Top } from "../part/top";
import { toApi, to } from "../route";
import {
  count,
  limitNumber,
  minute,
  percent,
  perSecond,
  plural,
  rateText,
  share,
  span,
  spanParts,
} from "../text/format";
import { isStopped } from "../text/state";
import { LinkBanner } from "./shell";
import { WaitCauses } from "./wait_causes";

const filter = signal("");

export function Overview() {
  const model = shown.value;
  const title = (
    <Top
      title="Overview"
      hasRange
      actions={
        <Search
          label="Filter APIs"
          value={filter.value}
          onSearch={(text) => {
            filter.value = text;
          }}
        />
      }
    />
  );
  if (!model || model.view !== "overview")
    return (
      <>
        {title}
        <LinkBanner />
        <Empty>Loading…</Empty>
      </>
    );
  const { apis, history, totals, bulk, changes } = model;
  const words = filter.value.toLowerCase();
  const rows = words
    ? apis.filter((api) => `${api.name} ${api.host} ${api.state}`.toLowerCase().includes(words))
    : apis;
  return (
    <>
      {title}
      <div class="stack">
        <LinkBanner />
        {totals && <Figures list={figures(totals, bulk)} />}
        <section class="pane">
          <header>
            <h2>{plural(model.menu.api_count, "API")}</h2>
            <span class="mut">{summary(apis)}</span>
            <span class="sp" />
            <span class="keys hide-s">
              <Key mark="ln c-bl">rate</Key>
              <Key mark="so">limit in effect</Key>
              <Key mark="dt">configured</Key>
              <Key mark="c-lost">capacity lost</Key>
            </span>
          </header>
          <ApiTable rows={rows} history={history} />
          {!rows.length && (
            <Empty>
              {apis.length ? "No API matches." : "No API is configured: add [apis.NAME] to outflow.toml and reload."}
            </Empty>
          )}
          {model.menu.api_count > apis.length && (
            <p class="empty">
              The {apis.length} worst of {count(model.menu.api_count)} APIs; the others are healthier.
            </p>
          )}
        </section>
        <div class="g2">
          <Pane
            title="Last changes"
            aside={
              <a class="l" href="#/events">
                All events
              </a>
            }
          >
            {changes.length ? (
              <Timeline changes={changes.slice(0, 6)} />
            ) : (
              <Empty>None since the program started.</Empty>
            )}
          </Pane>
          {bulk && (
            <Pane
              title={bulk.jobs.queued ? `What ${plural(bulk.jobs.queued, "job")} wait for` : "Jobs"}
              aside={
                <a class="l" href="#/bulk">
                  Bulk
                </a>
              }
              padded
            >
              <WaitCauses causes={bulk.wait_causes} queued={bulk.jobs.queued} />
            </Pane>
          )}
        </div>
      </div>
    </>
  );
}

function figures(totals: Totals, bulk: Bulk | null): Figure[] {
  const list: Figure[] = [
    {
      name: "Calls",
      value: <Unit value={perSecond(totals.calls_per_s)} unit="/s" />,
      note: totals.peak_at ? `peak ${perSecond(totals.peak_per_s)}/s at ${minute(totals.peak_at)}` : "",
    },
    {
      name: "Waiting",
      value: <Unit value={count(totals.waiting)} unit={totals.waiting === 1 ? "call" : "calls"} />,
      note: totals.longest_wait_ms ? `longest ${span(totals.longest_wait_ms)}` : "",
    },
    {
      name: "Throttled (429)",
      value: count(totals.throttled),
      note: `of ${count(totals.sent)} in 15 min`,
      tone: totals.throttled ? "warn" : "",
    },
    {
      name: "Errors",
      value: <Unit value={share(totals.failed, totals.sent)} unit="%" />,
      note: totals.worst ? `most of it ${totals.worst}` : "in 15 min",
    },
    {
      name: "From the cache",
      value: <Unit value={share(totals.cache, totals.calls)} unit="%" />,
      note: `${count(totals.cache)} calls not sent`,
    },
  ];
  if (!bulk) return list;
  const eta = bulk.eta_ms == null ? "" : `ETA ${span(bulk.eta_ms)}`;
  return [
    ...list,
    { name: "Jobs queued", value: count(bulk.jobs.queued), note: eta },
    {
      name: "Jobs done",
      value: <Unit value={perSecond(bulk.rate_per_s)} unit="/s" />,
      note: bulk.jobs.queued ? bulk.eta_text : `${count(bulk.jobs.done)} in all`,
    },
  ];
}

/** Counts the APIs by what hinders them: 2 stopped, 1 limited by concurrency, 4 healthy. */
export function summary(apis: ApiRow[]): string {
  const counts = new Map<string, number>();
  for (const api of apis) {
    const kind = kindOf(api);
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const order = ["stopped", "slowed", "limited by concurrency", "healthy"];
  return order.flatMap((kind) => (counts.has(kind) ? `${counts.get(kind)} ${kind}` : [])).join(", ");
}

function kindOf(api: ApiRow): string {
  if (isStopped(api.state)) return "stopped";
  if (api.state !== "Normal" || api.slow.code === "adaptive" || api.slow.code === "cooldown") return "slowed";
  return api.slow.code === "concurrency" ? "limited by concurrency" : "healthy";
}

function ApiTable({ rows, history }: { rows: ApiRow[]; history: History | null }) {
  return (
    <table class="ov">
      <caption class="vh">APIs, the worst first</caption>
      <thead>
        <tr>
          <th scope="col">API</th>
          <th scope="col">State, last {span(range.value)}</th>
          <th scope="col">Rate vs limit</th>
          {["Waiting", "In flight", "p50", "p95", "Errors", "429", "Cache"].map((name) => (
            <th key={name} scope="col" class="r">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      {rows.slice(0, MOST_ROWS).map((api) => (
        <Row key={api.name} api={api} history={history} />
      ))}
    </table>
  );
}

const MOST_ROWS = 60;

function Row({ api, history }: { api: ApiRow; history: History | null }) {
  const { rate, latency, recent } = api;
  const series = history?.apis[api.name];
  const isFull = api.slow.code === "concurrency";
  return (
    <tbody data-api={api.name}>
      <tr>
        <th scope="row" class="a">
          <a class="nm" href={toApi(api.name)}>
            {api.name}
          </a>
          <div class="sub">{api.host}</div>
        </th>
        <td class="st">
          <StateLabel state={api.state} held={api.held != null} /> <span class="sub dur">{age(api)}</span>
          {series?.state && history && <Strip name={api.name} history={history} states={series.state} />}
        </td>
        <td class="sp">
          <div class="rt">
            <span>
              <b>{perSecond(rate.sent_per_s)}</b>/s
            </span>
            <span class="mut">{ofLimit(api)}</span>
          </div>
          {series?.sent && history && <Spark api={api} history={history} />}
        </td>
        <td class="r" data-l="Waiting">
          <span>{count(api.waiting + api.jobs)}</span>
          <div class="sub">{api.waiting + api.jobs > 0 && api.eta_ms != null ? span(api.eta_ms) : ""}</div>
        </td>
        <td class={`r ${isFull ? "warn" : ""}`} data-l="In flight">
          {count(api.in_flight)} <span class="fnt">/ {count(api.concurrency)}</span>
        </td>
        <td class="r" data-l="p50">
          {span(latency.p50_ms)}
        </td>
        <td class="r" data-l="p95">
          {span(latency.p95_ms)}
        </td>
        <td class={`r ${api.error_ppm >= 200_000 ? "bad" : api.error_ppm >= 20_000 ? "warn" : ""}`} data-l="Errors">
          {percent(api.error_ppm)} %
        </td>
        <td class={`r ${recent.throttled ? "warn" : "fnt"}`} data-l="429">
          {count(recent.throttled)}
        </td>
        <td class="r" data-l="Cache">
          {share(recent.cache, recent.calls)} %
        </td>
      </tr>
      <tr class="w">
        <td colSpan={10}>
          <SlowText slow={api.slow} />
        </td>
      </tr>
    </tbody>
  );
}

function age(api: ApiRow): string {
  const ms = Math.max(0, (shown.value?.at ?? api.since) - api.since);
  return span(ms < 10_000 ? Math.round(ms / 1000) * 1000 : ms).replace(/\.0 s$/, " s");
}

/** Says how the rate relates to its limit: of 10/s, 6 of 10/s, stopped. */
export function ofLimit({ rate }: ApiRow): string {
  const { effective_per_s: effective, configured_per_s: configured } = rate;
  if (effective == null) return "no limit";
  if (effective === 0) return "stopped";
  if (configured != null && Math.abs(effective - configured) > configured * 0.001)
    return `${limitNumber(effective)} of ${limitNumber(configured)}/s`;
  return `of ${rateText(rate.configured ?? "")}`;
}

function Spark({ api, history }: { api: ApiRow; history: History }) {
  const series = history.apis[api.name] ?? {};
  const step = history.step_ms;
  const window = Math.max(1, Math.round(api.rate.window_ms / step));
  const rates = slotRates(series.sent ?? [], history.t0, step, shown.value?.at ?? 0);
  const sent = trailing(rates, window, series.state);
  const { effective_per_s: effective, configured_per_s: configured } = api.rate;
  const { value } = spanParts(range.value);
  const label = `Rate of the last ${value}: now ${perSecond(api.rate.sent_per_s)} a second, limit in effect ${effective ?? "none"}, configured ${configured ?? "none"}`;
  return <RateSpark label={label} rate={sent} effective={series.effective_per_s ?? []} configured={configured} />;
}

export const overviewStream = (): string => `/v1/stream?view=overview&range_ms=${range.value}`;
export const toJobsOf = (api: string): string => to("jobs", { api });
