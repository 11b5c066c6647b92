// Waiting calls of an API, and its groups.

import type { Api, Group, Health, Queue, QueueRow } from "../api";
import { StateLabel } from "../part/glyph";
import { Empty, Pane } from "../part/pane";
import { type Column, Table } from "../part/table";
import { toCall } from "../route";
import { count, perSecond, span } from "../text/format";

const QUEUE: Column<QueueRow>[] = [
  { name: "#", cell: (row) => row.position, right: true },
  { name: "Call", cell: (row) => <CallName row={row} />, kind: "m words" },
  { name: "Group", cell: (row) => row.group, kind: "dk" },
  { name: "Priority", cell: (row) => row.priority, kind: "dk" },
  { name: "Waits for", cell: (row) => row.text },
  { name: "Waited", cell: (row) => span(row.waited_ms), right: true, kind: "dk" },
  { name: "Goes in", cell: (row) => span(row.eta_ms), right: true },
];

function CallName({ row }: { row: QueueRow }) {
  const text = row.path ? `${row.method ?? ""} ${row.path}` : "a permit alone";
  return row.request_id ? <a href={toCall(row.request_id)}>{text}</a> : <>{text}</>;
}

export function Waiting({ queue }: { queue: Queue }) {
  const shown = queue.rows.length;
  const aside = queue.total > shown && (
    <span class="mut">
      {shown} of {count(queue.total)}
    </span>
  );
  return (
    <Pane title="Queue" aside={aside}>
      {shown ? (
        <Table
          caption="Waiting calls, the next first"
          columns={QUEUE}
          rows={queue.rows}
          id={(row) => row.request_id ?? String(row.position)}
        />
      ) : (
        <Empty>No call waits.</Empty>
      )}
    </Pane>
  );
}

export function Groups({ api }: { api: Api }) {
  const columns: Column<Group>[] = [
    { name: "Group", cell: (group) => group.name },
    { name: "State", cell: (group) => <GroupState health={healthOf(api, group)} /> },
    { name: "Rate", cell: (group) => `${perSecond(group.rate_per_s)}/s`, right: true },
    { name: "Waiting", cell: (group) => count(group.waiting), right: true },
    { name: "Admitted", cell: (group) => count(group.admitted), right: true, kind: "dk" },
    { name: "Refused", cell: (group) => count(group.refused), right: true, kind: "dk" },
    { name: "p95 wait", cell: (group) => span(group.wait_p95_ms), right: true, kind: "dk" },
  ];
  return (
    <Pane title="Groups">
      <Table caption={`Groups of ${api.name}`} columns={columns} rows={api.groups} id={(group) => group.name} />
    </Pane>
  );
}

/** Finds the state of a group: its own, or that of the API. */
function healthOf(api: Api, group: Group): Health | undefined {
  return api.health.find((health) => health.group === group.name) ?? api.health[0];
}

function GroupState({ health }: { health: Health | undefined }) {
  return health ? <StateLabel state={health.state} held={health.held != null} /> : <>–</>;
}
