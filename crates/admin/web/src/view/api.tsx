// One API: why it is as fast as it is, its course, its limits, its queue, its way back.

import type { Api, Health } from "../api";
import { applySetting, changeVariable, overrideApi, releaseApi } from "../dialog/changes";
import { shown } from "../model/store";
import { StateLabel } from "../part/glyph";
import { Banner, Code, Empty, Facts, type Figure, Figures, Pane, toneOf, Unit } from "../part/pane";
import { Timeline } from "../part/timeline";
import { Crumb, Top } from "../part/top";
import { route, to } from "../route";
import {
  ago,
  capital,
  count,
  limitNumber,
  minute,
  percent,
  perSecond,
  plural,
  share,
  span,
  spanParts,
} from "../text/format";
import { ApiCharts } from "./api_charts";
import { Holders, Limits } from "./api_limits";
import { Groups, Waiting } from "./api_queue";
import { LinkBanner } from "./shell";

export function ApiView() {
  const name = route.value.name;
  const model = shown.value;
  const api = model?.view === `api:${name}` ? model.api : null;
  const title = (
    <Crumb parent="Overview" href="#/overview">
      {name}
    </Crumb>
  );
  if (!api || !model)
    return (
      <>
        <Top title={title} />
        <LinkBanner />
        <Empty>Loading…</Empty>
      </>
    );
  const held = api.held != null || api.health.some((health) => health.held);
  const note = (
    <>
      <StateLabel state={api.state} held={held} />
      <span class="mut dk">for {span(Math.max(0, model.at - api.since))}</span>
    </>
  );
  return (
    <>
      <Top title={title} note={note} actions={<Actions api={api} held={held} />} hasRange />
      <div class="stack">
        <LinkBanner />
        <Why api={api} />
        <Figures list={figures(api)} />
        {model.history && <ApiCharts api={api} history={model.history} changes={model.changes} />}
        <div class="gm">
          <div class="col">
            <Limits api={api} />
            <Holders api={api} />
            {model.queue && <Waiting queue={model.queue} />}
            {api.groups.length > 0 && <Groups api={api} />}
          </div>
          <div class="col">
            <Pane title="State changes">
              {model.changes.length ? (
                <Timeline changes={model.changes.slice(0, 12)} ofOne />
              ) : (
                <Empty>None since the program started.</Empty>
              )}
            </Pane>
            <ServerSaid api={api} at={model.at} />
            <Recovery api={api} />
          </div>
        </div>
      </div>
    </>
  );
}

function Actions({ api, held }: { api: Api; held: boolean }) {
  return (
    <span class="row">
      {held && (
        <button type="button" class="btn" onClick={() => releaseApi(api)}>
          Release…
        </button>
      )}
      <button type="button" class="btn" onClick={() => overrideApi(api)}>
        Override…
      </button>
      <button type="button" class="btn" onClick={() => changeVariable(api)}>
        Change limit…
      </button>
    </span>
  );
}

function Why({ api }: { api: Api }) {
  const { slow } = api;
  return (
    <Banner
      tone={toneOf(slow)}
      lead={slow.lead}
      text={<Code text={slow.text} />}
      hint={slow.hint && <Code text={slow.hint} />}
    >
      {slow.setting && (
        <button
          type="button"
          class="btn s"
          onClick={() => applySetting(api, slow.setting as NonNullable<typeof slow.setting>)}
        >
          Set it…
        </button>
      )}
    </Banner>
  );
}

function figures(api: Api): Figure[] {
  const { rate, wait, latency, recent } = api;
  const failures = api.health.reduce(
    (sum, { counts }) => sum + counts.throttled + counts.server + counts.network + counts.other,
    0,
  );
  const seen = failures + api.health.reduce((sum, { counts }) => sum + counts.success, 0);
  const limit =
    rate.effective_per_s == null
      ? "/s, no limit"
      : `/s of ${limitNumber(rate.configured_per_s ?? rate.effective_per_s)}/s`;
  const list: Figure[] = [
    { name: "Rate", value: <Unit value={perSecond(rate.sent_per_s)} unit={limit} />, note: lowered(api) },
    { name: "Waiting", value: count(api.waiting), note: waitingNote(api) },
    {
      name: "Wait p50 / p95",
      value: <Both one={wait.p50_ms} other={wait.p95_ms} />,
      note: api.max_wait_ms == null ? "" : `at most ${span(api.max_wait_ms)}`,
    },
    {
      name: "In flight",
      value: <Unit value={count(api.in_flight)} unit={`of ${count(api.concurrency)}`} />,
      note: api.slow.code === "concurrency" ? "binds" : "not the bottleneck",
      tone: api.slow.code === "concurrency" ? "warn" : "",
    },
    { name: "Latency p50 / p95", value: <Both one={latency.p50_ms} other={latency.p95_ms} />, note: "last minute" },
    {
      name: "Errors",
      value: <Unit value={percent(api.error_ppm)} unit="%" />,
      note: `${count(failures)} of ${plural(seen, "attempt")}`,
      tone: api.error_ppm >= 200_000 ? "bad" : "",
    },
    {
      name: "Throttled (429)",
      value: count(recent.throttled),
      note: "in 15 min",
      tone: recent.throttled ? "warn" : "",
    },
    {
      name: "From the cache",
      value: <Unit value={share(recent.cache, recent.calls)} unit="%" />,
      note: `${count(recent.cache)} in 15 min`,
    },
  ];
  if (api.retry_budget) {
    list.push({
      name: "Retry budget",
      value: <Unit value={percent(api.retry_budget.left_ppm, 0)} unit="%" />,
      note: `${api.retry_budget.retries} ${api.retry_budget.retries === 1 ? "retry" : "retries"}`,
    });
  }
  return list;
}

function Both({ one, other }: { one: number | null; other: number | null }) {
  const [first, second] = [spanParts(one), spanParts(other)];
  return (
    <>
      <Unit {...first} /> / <Unit {...second} />
    </>
  );
}

function lowered({ rate }: Api): string {
  if (rate.effective_per_s === 0) return "stopped";
  if (rate.effective == null || rate.effective === rate.configured)
    return rate.configured ? `limit ${rate.configured}` : "";
  return `${rate.effective} in effect`;
}

function waitingNote(api: Api): string {
  const jobs = api.jobs ? `and ${plural(api.jobs, "job")}` : "";
  const eta = api.waiting && api.eta_ms != null ? `last goes in ${span(api.eta_ms)}` : "";
  return jobs || eta;
}

function ServerSaid({ api, at }: { api: Api; at: number }) {
  const { said } = api;
  if (!said)
    return (
      <Pane title="What the server last said" padded>
        <Empty>Nothing about its limits so far.</Empty>
      </Pane>
    );
  const list: [string, preact.ComponentChildren][] = said.headers.map(({ name, value, note }) => [
    name,
    <>
      <span class="m">{value}</span>
      {note && <span class="warn"> {note}</span>}
    </>,
  ]);
  if (said.retry_after)
    list.push([
      "last retry-after",
      <>
        <span class="m">{said.retry_after.value}</span> at {minute(said.retry_after.at, at)}
      </>,
    ]);
  list.push(["Understood as", said.understood]);
  if (said.foreign_units != null) list.push(["Use by others", count(said.foreign_units)]);
  return (
    <Pane title="What the server last said" aside={<span class="mut">{ago(Math.max(0, at - said.at))}</span>} padded>
      <Facts list={list} />
    </Pane>
  );
}

/** Way back to full speed, of the API or of each of its groups. */
function Recovery({ api }: { api: Api }) {
  const shown = api.health.filter((health) => health.recovery.length > 0);
  if (!shown.length) return null;
  return (
    <Pane title="Recovery" padded>
      {shown.map((health) => (
        <HealthRecovery key={health.group ?? ""} health={health} />
      ))}
      <div class="row after">
        <button type="button" class="btn s" onClick={() => overrideApi(api, "normal")}>
          Override: full speed…
        </button>
        <button type="button" class="btn s" onClick={() => overrideApi(api, "offline")}>
          Take offline…
        </button>
      </div>
    </Pane>
  );
}

function HealthRecovery({ health }: { health: Health }) {
  return (
    <>
      {health.group && (
        <p class="row">
          <b>{capital(health.group)}</b> <StateLabel state={health.state} held={health.held != null} />
        </p>
      )}
      <Facts list={health.recovery} />
    </>
  );
}

export const jobsOf = (api: string): string => to("jobs", { api });
