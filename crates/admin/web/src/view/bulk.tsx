// Bulk work: what moves, what does not, and why.

import type { Bulk, BulkSeries, History } from "../api";
import { Chart } from "../chart/chart";
import type { Value } from "../chart/scale";
import { shown } from "../model/store";
import { link } from "../net/link";
import { address } from "../net/request";
import { Banner, Empty, type Figure, Figures, Pane, Unit } from "../part/pane";
import { Search } from "../part/search";
import { range, Top } from "../part/top";
import { route, setQuery, to } from "../route";
import { count, percent, perSecond, span } from "../text/format";
import { ActionsPane, FailuresPane, MachinesPane } from "./bulk_panes";
import { TenantsPane, tenantPageSize } from "./bulk_tenants";
import { LinkBanner } from "./shell";
import { WaitCauses } from "./wait_causes";

export function BulkView() {
  const model = shown.value;
  const { query } = route.value;
  const search = (
    <Search label="Tenant or action" value={query.get("q") ?? ""} onSearch={(q) => setQuery({ q, offset: "" })} />
  );
  const title = <Top title="Bulk" actions={search} hasRange />;
  if (link.value.phase === "refused" && link.value.problem === "no_bulk")
    return (
      <>
        {title}
        <NoBulk />
      </>
    );
  const bulk = model?.view.startsWith("bulk") ? model.bulk : null;
  if (!bulk || !model)
    return (
      <>
        {title}
        <LinkBanner />
        {model && !model.program.has_bulk ? <NoBulk /> : <Empty>Loading…</Empty>}
      </>
    );
  return (
    <>
      {title}
      <div class="stack">
        <LinkBanner />
        {bulk.trouble && <Banner {...bulk.trouble} />}
        <Figures list={figures(bulk)} />
        <div class="gm">
          {model.history?.bulk && <Throughput history={model.history} bulk={model.history.bulk} />}
          <Pane
            title="What jobs wait for"
            aside={
              <a class="l" href="#/jobs">
                Jobs
              </a>
            }
            padded
          >
            <WaitCauses causes={bulk.wait_causes} queued={bulk.jobs.queued} />
          </Pane>
        </div>
        {model.tenants && <TenantsPane page={model.tenants} active={bulk.active_tenants} />}
        {model.actions && <ActionsPane actions={model.actions.actions} total={model.actions.total} />}
        <div class="g2 tables">
          {model.failures && <FailuresPane failures={model.failures} />}
          {model.machines && <MachinesPane machines={model.machines.machines} bulk={bulk} />}
        </div>
      </div>
    </>
  );
}

/** Stream of the view; the server sorts and searches the tenants. */
export function bulkStream(): string {
  const { query } = route.value;
  return address("/v1/stream", {
    view: "bulk",
    sort: query.get("sort") ?? "queued",
    q: query.get("q"),
    offset: query.get("offset"),
    most: tenantPageSize(),
  });
}

function NoBulk() {
  return (
    <Banner
      tone=""
      lead="This program runs no bulk jobs."
      text={
        <>
          Start it with <span class="m">outflow serve --bulk</span>, or submit a file with{" "}
          <span class="m">outflow bulk run</span>.
        </>
      }
    />
  );
}

function figures(bulk: Bulk): Figure[] {
  const { jobs } = bulk;
  const ended = jobs.done + jobs.dead + jobs.failed;
  return [
    {
      name: "Queued",
      value: count(jobs.queued),
      note: jobs.delayed ? `${count(jobs.delayed)} wait for an instant` : "",
    },
    { name: "In flight", value: count(jobs.in_flight), note: `of ${count(bulk.workers.all)} workers here` },
    { name: "Done", value: <Unit value={perSecond(bulk.rate_per_s)} unit="/s" />, note: `${count(jobs.done)} in all` },
    {
      name: "Fairness",
      value: bulk.fairness_ppm == null ? "–" : (bulk.fairness_ppm / 1_000_000).toFixed(2),
      note: "Jain index, 1 is fair",
    },
    {
      name: "Throttles a job",
      value: ended ? (jobs.throttles / ended).toFixed(2) : "–",
      note: `${bulk.scheduler} scheduler`,
    },
    {
      name: "Dead",
      value: <a href="#/dead">{count(jobs.dead)}</a>,
      note: `${count(bulk.recent_dead)} in 15 min`,
      tone: bulk.recent_dead ? "warn" : "",
    },
    { name: "ETA", value: bulk.jobs.queued + bulk.jobs.in_flight ? span(bulk.eta_ms) : "done", note: bulk.eta_text },
  ];
}

function Throughput({ history, bulk }: { history: History; bulk: BulkSeries }) {
  const slots = Math.round(range.value / history.step_ms);
  const cut = (values: readonly Value[]): Value[] => values.slice(-slots);
  const perSlot = 1000 / history.step_ms;
  const done = smooth(
    bulk.done.map((value) => (value == null ? null : value * perSlot)),
    Math.round(5 * perSlot),
  );
  const [moved, capacity] = [cut(done), cut(bulk.capacity_per_s)];
  const t0 = history.t0 + (done.length - moved.length) * history.step_ms;
  const rate = (value: number): string => `${perSecond(value)}/s`;
  return (
    <Chart
      title="Throughput vs capacity"
      t0={t0}
      step={history.step_ms}
      height={172}
      lost={[moved, capacity]}
      series={[
        { name: "done", values: moved, format: rate, mark: "ln c-bl", line: "rate", area: "rate-area" },
        { name: "capacity", values: capacity, format: rate, mark: "so", line: "effective" },
      ]}
    />
  );
}

/** Averages over a few slots: single seconds of a slow API jump. */
function smooth(values: readonly Value[], width: number): Value[] {
  return values.map((value, index) => {
    if (value == null) return null;
    const near = values.slice(Math.max(0, index - width + 1), index + 1).flatMap((one) => one ?? []);
    return near.reduce((sum, one) => sum + one, 0) / near.length;
  });
}

export const toState = (state: string): string => to("jobs", { state });
export const fairness = (ppm: number | null): string => percent(ppm, 0);
