// Actions, failures by reason and machines.

import type { Action, Bulk, FailureReason, Failures, Machine } from "../api";
import { cancelAction, pauseAction, resumeAction } from "../dialog/changes";
import { isOpen } from "../model/reduce";
import { shown } from "../model/store";
import { PartBar } from "../part/meter";
import { Empty, Key, Pane } from "../part/pane";
import { type Column, Table } from "../part/table";
import { to, toAction, toTenant } from "../route";
import { ago, capital, count, minute, perSecond, share, span } from "../text/format";

const ACTIONS: Column<Action>[] = [
  {
    name: "Action",
    cell: (action) => (
      <a href={toAction(action.id)}>
        <b>{action.id}</b>
      </a>
    ),
    kind: "name",
  },
  { name: "Stage", cell: (action) => stageOf(action) },
  { name: "Progress", cell: (action) => <Progress action={action} />, kind: "progress" },
  {
    name: "Done",
    cell: (action) => (
      <>
        {count(action.jobs.done)} / {count(action.jobs.total)}
      </>
    ),
    right: true,
  },
  { name: "Failed", cell: (action) => <Failed action={action} />, right: true },
  {
    name: "Rate",
    cell: (action) => (isOpen(action) ? `${perSecond(action.rate_per_s)}/s` : "–"),
    right: true,
    kind: "opt",
  },
  { name: "ETA", cell: (action) => etaOf(action), right: true, kind: "nw" },
  {
    name: "Deadline",
    cell: (action) => deadlineOf(action),
    right: true,
    kind: (action) => (action.late_ms ? "bad nw" : "nw"),
  },
  { name: "Control", quiet: true, cell: (action) => <Control action={action} />, right: true },
];

export function stageOf(action: Action): string {
  return action.paused && isOpen(action) ? "Paused" : capital(action.stage.toLowerCase());
}

function etaOf(action: Action): string {
  if (!isOpen(action)) return action.ended ? `ended ${minute(action.ended, Date.now())}` : "–";
  return span(action.eta_ms);
}

export function deadlineOf(action: Action): string {
  if (!isOpen(action) || action.deadline == null) return "–";
  const left = action.deadline - (shown.value?.at ?? action.deadline);
  return left > 0 ? `in ${span(left - (left > 120_000 ? left % 60_000 : 0))}` : "passed";
}

const jobsFailed = ({ jobs }: Action): number => jobs.dead + jobs.failed;

export function Progress({ action }: { action: Action }) {
  const { jobs } = action;
  const parts = [
    { mark: "c-ok", size: jobs.done },
    { mark: "c-rd hatch", size: jobsFailed(action) },
    { mark: "c-gr lines", size: jobs.cancelled },
    { mark: "c-bl", size: jobs.in_flight },
    { mark: "rest", size: jobs.queued },
  ];
  const label = `${share(jobs.done, jobs.total)} % done, ${share(jobsFailed(action), jobs.total)} % failed, ${count(jobs.in_flight)} in flight`;
  return (
    <>
      <PartBar label={label} parts={parts} />
      {action.late_ms != null && <div class="sub bad">misses its deadline by about {span(action.late_ms)}</div>}
      {action.note && <div class="sub warn">{action.note}</div>}
      {!isOpen(action) && action.ended_because && <div class="sub">{action.ended_because}</div>}
    </>
  );
}

function Failed({ action }: { action: Action }) {
  const failed = jobsFailed(action);
  return failed ? (
    <a class="l" href={to("dead", { action: action.id })}>
      {count(failed)}
    </a>
  ) : (
    <span class="fnt">0</span>
  );
}

function Control({ action }: { action: Action }) {
  if (!isOpen(action))
    return (
      <a class="btn s" href={to("jobs", { action: action.id, state: "done" })}>
        Results
      </a>
    );
  return (
    <span class="row nowrap">
      {action.paused ? (
        <button type="button" class="btn s" onClick={() => resumeAction(action)}>
          Resume…
        </button>
      ) : (
        <button type="button" class="btn s" onClick={() => pauseAction(action)}>
          Pause…
        </button>
      )}
      <button type="button" class="btn s" onClick={() => cancelAction(action)}>
        Cancel…
      </button>
    </span>
  );
}

export function ActionsPane({ actions, total }: { actions: Action[]; total: number }) {
  const aside = (
    <>
      {total > actions.length && (
        <span class="mut">
          {count(actions.length)} of {count(total)}
        </span>
      )}
      <span class="keys">
        <Key mark="c-ok">done</Key>
        <Key mark="c-rd hatch">failed</Key>
        <Key mark="c-bl">in flight</Key>
      </span>
    </>
  );
  return (
    <Pane title="Actions" aside={aside}>
      {actions.length ? (
        <Table
          cards
          caption="Actions, those in danger first"
          columns={ACTIONS}
          rows={actions}
          id={(action) => action.id}
        />
      ) : (
        <Empty>No action was opened.</Empty>
      )}
    </Pane>
  );
}

const FAILURES: Column<FailureReason>[] = [
  { name: "Reason", cell: (row) => row.reason, kind: "name words" },
  { name: "Jobs", cell: (row) => count(row.jobs), right: true },
  {
    name: "15 min",
    cell: (row) => (row.recent ? count(row.recent) : "–"),
    right: true,
    kind: (row) => (row.recent ? "warn" : ""),
  },
  { name: "Tenants", cell: (row) => <Names names={row.tenants} />, kind: "mut names" },
  { name: "Last", cell: (row) => minute(row.last, Date.now()), right: true, kind: "nw" },
  {
    name: "Letters",
    quiet: true,
    cell: (row) => (
      <a class="l" href={to("dead", { reason: row.reason })}>
        Show
      </a>
    ),
    right: true,
  },
];

function Names({ names }: { names: string[] }) {
  return (
    <>
      {names.map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <a href={toTenant(name)}>{name}</a>
        </span>
      ))}
    </>
  );
}

export function FailuresPane({ failures }: { failures: Failures }) {
  return (
    <Pane
      title="Failures by reason"
      aside={
        <a class="l" href="#/dead">
          {count(failures.dead)} dead letters
        </a>
      }
    >
      {failures.failures.length ? (
        <Table
          cards
          caption="Failed jobs by reason"
          columns={FAILURES}
          rows={failures.failures.slice(0, 12)}
          id={(row) => row.reason}
        />
      ) : (
        <Empty>No job has failed.</Empty>
      )}
    </Pane>
  );
}

const MACHINES: Column<Machine>[] = [
  {
    name: "Machine",
    cell: (row) => (
      <>
        {row.name}
        {row.here && <span class="sub"> this one</span>}
      </>
    ),
    kind: "name",
  },
  { name: "Workers", cell: (row) => (row.lease_ms ? `${row.busy} / ${row.workers}` : "–"), right: true },
  { name: "Rate", cell: (row) => (row.rate_per_s == null ? "–" : `${perSecond(row.rate_per_s)}/s`), right: true },
  {
    name: "Start lag p99",
    cell: (row) => (row.start_lag_p99_ms == null ? "–" : `${row.start_lag_p99_ms} ms`),
    right: true,
  },
  {
    name: "Lease",
    cell: (row) => (row.lease_ms ? `${span(row.lease_ms)} left` : "expired"),
    right: true,
    kind: (row) => (row.lease_ms ? "" : "bad"),
  },
  { name: "Seen", cell: (row) => ago(row.seen_ms), right: true, kind: (row) => (row.lease_ms ? "" : "bad") },
];

export function MachinesPane({ machines, bulk }: { machines: Machine[]; bulk: Bulk }) {
  const alive = machines.filter((machine) => machine.lease_ms > 0).length;
  const notes = machines.flatMap((machine) => (machine.note ? `${machine.name} is gone: ${machine.note}.` : []));
  const store = `Store: ${bulk.store}${bulk.store_ms == null ? "" : `, ${bulk.store_ms < 10 ? `${bulk.store_ms.toFixed(1)} ms` : span(bulk.store_ms)}`}.`;
  return (
    <Pane
      title="Machines"
      aside={
        <span class="mut">
          {alive} of {machines.length}
        </span>
      }
    >
      <Table cards caption="Machines with workers" columns={MACHINES} rows={machines} id={(row) => row.name} />
      <div class="in foot-in mut">{[...notes, store].join(" ")}</div>
    </Pane>
  );
}
