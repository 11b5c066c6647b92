// Limits of an API: usage, evidence against the configuration, and the processes that share them.

import type { Api, Limit, LimitHolder } from "../api";
import { changeVariable } from "../dialog/changes";
import { FillBar } from "../part/meter";
import { Code, Empty, Key, Pane, Sentence } from "../part/pane";
import { type Column, Table } from "../part/table";
import { to } from "../route";
import { count, percent, plural, rateText, share, span } from "../text/format";

interface LimitRow {
  limit: Limit;
  group: string | null;
}

function rowsOf(api: Api): LimitRow[] {
  const own = api.limits.map((limit) => ({ limit, group: null as string | null }));
  return [...own, ...api.groups.flatMap((group) => group.limits.map((limit) => ({ limit, group: group.name })))];
}

const COLUMNS: Column<LimitRow>[] = [
  {
    name: "Limit",
    cell: ({ limit, group }) => (
      <>
        {name(limit)}
        <div class="sub">{scope(limit, group)}</div>
      </>
    ),
    kind: "nw",
  },
  {
    name: "In effect",
    cell: ({ limit }) => rateText(limit.effective),
    right: true,
    kind: ({ limit }) => (limit.effective === limit.configured ? "" : "warn"),
  },
  { name: "Used, peak, predicted", cell: ({ limit }) => <Fill limit={limit} />, kind: "wide" },
  {
    name: "Used",
    cell: ({ limit }) => (
      <>
        {count(limit.used)} / {count(limit.capacity)}
      </>
    ),
    right: true,
  },
  { name: "Trend", cell: ({ limit }) => limit.pattern },
  { name: "Waits", cell: ({ limit }) => count(limit.waiting), right: true },
];

function name(limit: Limit): string {
  return limit.counts === "cost" ? `${rateText(limit.configured)} by cost` : rateText(limit.configured);
}

function scope(limit: Limit, group: string | null): string {
  const ends = limit.window_ends_ms == null ? "" : `, ends in ${span(limit.window_ends_ms)}`;
  return `${group ?? "every call"}, ${limit.kind}${ends}`;
}

function Fill({ limit }: { limit: Limit }) {
  const part = (units: number): number => (units / Math.max(1, limit.capacity)) * 100;
  const predicted = limit.prediction == null ? "" : `, predicted ${share(limit.prediction, limit.capacity)} %`;
  const label = `${percent(limit.used_ppm, 0)} % used, peak ${share(limit.peak, limit.capacity)} %${predicted}`;
  return (
    <FillBar
      label={label}
      used={limit.used_ppm / 10_000}
      peak={part(limit.peak)}
      predicted={limit.prediction == null ? null : part(limit.prediction)}
    />
  );
}

export function Limits({ api }: { api: Api }) {
  const rows = rowsOf(api);
  const link = (
    <a class="l" href={to("config", { q: `apis.${api.name}` })}>
      Configuration
    </a>
  );
  if (!rows.length)
    return (
      <Pane title="Limits" aside={link}>
        <Empty>None is configured: only concurrency bounds the calls.</Empty>
      </Pane>
    );
  return (
    <Pane title="Limits" aside={link}>
      <Table
        cards
        caption={`Limits of ${api.name}`}
        columns={COLUMNS}
        rows={rows}
        id={({ limit, group }) => `${group} ${limit.configured} ${limit.kind}`}
      />
      <div class="in foot-in">
        <span class="keys">
          <Key mark="c-ok">used</Key>
          <Key mark="c-am">≥ 90 %</Key>
          <Key mark="tick">peak</Key>
          <Key mark="tick dotted">predicted for the next window</Key>
        </span>
        {rows.map(({ limit }, index) =>
          limit.drift ? (
            <DriftNote key={index} api={api} limit={limit} />
          ) : (
            limit.lowered && (
              <Sentence
                key={index}
                tone="amber"
                lead={`${rateText(limit.configured)} is lowered.`}
                text={<Code text={limit.lowered} />}
              />
            )
          ),
        )}
      </div>
    </Pane>
  );
}

function DriftNote({ api, limit }: { api: Api; limit: Limit }) {
  const { drift } = limit;
  if (!drift) return null;
  const text = `The API grants ${rateText(drift.evidence)}, not ${rateText(drift.configured)}, for ${span(drift.lasting_ms)}.`;
  return (
    <div class="row">
      <Sentence tone="amber" lead="Found by evidence:" text={<Code text={`${text} ${limit.lowered ?? ""}`} />} />
      <button type="button" class="btn s" onClick={() => changeVariable(api)}>
        Change the limit…
      </button>
    </div>
  );
}

const HOLDERS: Column<LimitHolder>[] = [
  {
    name: "Process",
    cell: (holder) => (
      <>
        <b>{holder.process}</b>
        {holder.here && <span class="sub"> this one</span>}
      </>
    ),
  },
  { name: "Counts", cell: (holder) => count(holder.used), right: true },
  { name: "Leased, unsent", cell: (holder) => count(holder.held), right: true },
  { name: "Waits for", cell: (holder) => count(holder.wanted), right: true },
  {
    name: "Lease",
    cell: (holder) => (holder.lease_ms ? `${span(holder.lease_ms)} left` : "expired"),
    right: true,
    kind: (holder) => (holder.lease_ms ? "" : "bad"),
  },
];

/** Processes that hold units of limits that are shared. */
export function Holders({ api }: { api: Api }) {
  const shared = rowsOf(api).filter(({ limit }) => limit.shared);
  return (
    <>
      {shared.map(({ limit, group }) => (
        <Pane
          key={`${group} ${limit.configured}`}
          title={`Who holds ${group ? `${group} ` : ""}${rateText(limit.configured)}`}
          aside={
            <span class="mut">
              {plural(limit.shared?.processes ?? 0, "process").replace("processs", "processes")},{" "}
              {count((limit.shared?.arrived ?? 0) + (limit.shared?.held ?? 0))} of {count(limit.capacity)} used
            </span>
          }
        >
          {limit.shared?.holders.length ? (
            <Table
              cards
              caption={`Processes that share ${limit.configured}`}
              columns={HOLDERS}
              rows={limit.shared.holders}
              id={(holder) => holder.process}
            />
          ) : (
            <Empty>The ledger does not answer: this process counts alone.</Empty>
          )}
        </Pane>
      ))}
    </>
  );
}
