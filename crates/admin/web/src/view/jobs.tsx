// Jobs by state.

import type { JobRow, Jobs, JobStateName } from "../api";
import { useResource } from "../model/resource";
import { address } from "../net/request";
import { CursorPager } from "../part/pager";
import { Banner, Empty, Pane } from "../part/pane";
import { Search } from "../part/search";
import { type Column, Table } from "../part/table";
import { Top } from "../part/top";
import { route, setQuery, toAction, toJob, toTenant } from "../route";
import { capital, clock, count, span } from "../text/format";
import { LinkBanner } from "./shell";

const STATES: JobStateName[] = ["queued", "delayed", "in_flight", "done", "failed", "dead", "expired", "cancelled"];
const PAGE = 50;

/** Words of a state. "queued" are those that can start when a limit lets them. */
const WORDS: Record<JobStateName, string> = {
  queued: "waiting",
  delayed: "delayed",
  in_flight: "in flight",
  done: "done",
  failed: "failed",
  dead: "dead",
  expired: "expired",
  cancelled: "cancelled",
};

const COLUMNS: Column<JobRow>[] = [
  { name: "Job", cell: (row) => <a href={toJob(row.id)}>{row.id}</a>, kind: "m name" },
  { name: "Tenant", cell: (row) => <a href={toTenant(row.tenant)}>{row.tenant}</a> },
  { name: "Action", cell: (row) => (row.action ? <a href={toAction(row.action)}>{row.action}</a> : "–"), kind: "tag" },
  { name: "Call", cell: (row) => callOf(row), kind: "m words" },
  { name: "API", cell: (row) => row.api ?? "handler" },
  { name: "Priority", cell: (row) => row.priority },
  { name: "Attempts", cell: (row) => count(row.attempts), right: true },
  { name: "Next", cell: (row) => nextOf(row), right: true, kind: "nw" },
  { name: "Last error", cell: (row) => row.error ?? "–", kind: "words" },
];

const callOf = (row: JobRow): string => (row.path ? `${row.method ?? "GET"} ${row.path}` : "–");

function nextOf(row: JobRow): string {
  if (row.next_at != null) return `in ${span(Math.max(0, row.next_at - Date.now()))}`;
  return row.state === "queued" || row.state === "in_flight" ? "–" : clock(row.at);
}

export function JobsView() {
  const { query } = route.value;
  const state = query.get("state") ?? "queued";
  const [q, after] = [query.get("q") ?? "", query.get("after") ?? ""];
  const filters = ["tenant", "action", "api", "reason"].flatMap((name) =>
    query.get(name) ? [[name, query.get(name) as string] as const] : [],
  );
  const path = address("/v1/bulk/jobs", { state, q, after, most: PAGE, ...Object.fromEntries(filters) });
  const { value, error, problem } = useResource<Jobs>(path, REFRESH);
  return (
    <>
      <Top
        title="Jobs"
        actions={
          <Search
            label="Job, path or words of the error"
            value={q}
            onSearch={(text) => setQuery({ q: text, after: "" })}
          />
        }
      />
      <div class="stack">
        <LinkBanner />
        <div class="row" role="group" aria-label="State">
          {STATES.map((name) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={name === state}
              onClick={() => setQuery({ state: name, after: "" })}
            >
              {capital(WORDS[name])}{" "}
              <span class="fnt">{value?.counts[name] == null ? "" : count(value.counts[name])}</span>
            </button>
          ))}
          {filters.map(([name, text]) => (
            <button
              key={name}
              type="button"
              class="chip on"
              title="Remove this filter"
              onClick={() => setQuery({ [name]: "", after: "" })}
            >
              {name}: {text} ×
            </button>
          ))}
        </div>
        {error && (
          <Banner
            tone={problem === "no_bulk" ? "" : "red"}
            lead={problem === "no_bulk" ? "This program runs no bulk jobs." : "The jobs cannot be read."}
            text={error}
          />
        )}
        {value && (
          <Pane
            title={`${capital(WORDS[state as JobStateName] ?? state)} jobs`}
            aside={
              value.counts[state as JobStateName] != null && (
                <span class="mut">{count(value.counts[state as JobStateName])}</span>
              )
            }
          >
            {value.jobs.length ? (
              <Table cards caption={`Jobs: ${state}`} columns={COLUMNS} rows={value.jobs} id={(row) => row.id} />
            ) : (
              <Empty>No job matches.</Empty>
            )}
            <CursorPager after={after} next={value.next} onMove={(next) => setQuery({ after: next })} />
          </Pane>
        )}
      </div>
    </>
  );
}

const REFRESH = 2000;
