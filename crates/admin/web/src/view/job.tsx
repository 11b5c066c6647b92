// One job: what happened to it, what it asks for, when it runs next.

import type { HttpText, Job, JobAttempt } from "../api";
import { Waterfall } from "../chart/waterfall";
import { cancelJob, changePriority, retryJob } from "../dialog/changes";
import { announce } from "../dialog/change";
import { useResource } from "../model/resource";
import { segment } from "../net/request";
import { Banner, Empty, Facts, Pane } from "../part/pane";
import { type Column, Table } from "../part/table";
import { Crumb, Top } from "../part/top";
import { route, toAction, toApi, toTenant } from "../route";
import { bytes, capital, clock, count, exactSpan, precise, span } from "../text/format";
import { LinkBanner } from "./shell";

const ENDED = ["done", "failed", "dead", "expired", "cancelled"];

export function JobView() {
  const id = route.value.name;
  const { value: job, error, reload } = useResource<Job>(`/v1/bulk/jobs/${segment(id)}`, REFRESH);
  const title = (
    <Crumb parent="Jobs" href="#/jobs">
      <span class="m">{id}</span>
    </Crumb>
  );
  if (!job || job.id !== id)
    return (
      <>
        <Top title={title} />
        <LinkBanner />
        {error ? <Banner tone="red" lead="The job cannot be shown." text={error} /> : <Empty>Loading…</Empty>}
      </>
    );
  return (
    <>
      <Top title={title} actions={<Actions job={job} reload={reload} />} />
      <div class="stack">
        <LinkBanner />
        <Banner tone={job.tone} lead={job.lead} text={job.rest} />
        <div class="gm">
          <div class="col">
            <Pane title="What happened" aside={<span class="mut">since {clock(job.started)}</span>} padded>
              {job.parts.length ? (
                <Waterfall label="Parts of the job over time" parts={job.parts} />
              ) : (
                <Empty>Nothing yet.</Empty>
              )}
            </Pane>
            <Pane title="Attempts">
              {job.tries.length ? (
                <Table cards caption="Attempts" columns={ATTEMPTS} rows={job.tries} id={(row) => String(row.number)} />
              ) : (
                <Empty>None was sent.</Empty>
              )}
            </Pane>
            {job.request && <HttpPane title="Request" message={job.request} job={job} />}
            {job.response && <HttpPane title="Last response" message={job.response} />}
          </div>
          <div class="col">
            <Pane title="Job" padded>
              <Facts list={facts(job)} />
            </Pane>
            {job.next_run.length > 0 && (
              <Pane title="Next run" padded>
                <Facts list={job.next_run} />
              </Pane>
            )}
          </div>
        </div>
      </div>
    </>
  );
}

const REFRESH = 2000;

function Actions({ job, reload }: { job: Job; reload: () => void }) {
  const { state } = job;
  return (
    <span class="row">
      {(state === "queued" || state === "delayed") && (
        <button type="button" class="btn" onClick={() => changePriority(job, reload)}>
          Change priority…
        </button>
      )}
      {(state === "delayed" || state === "dead" || state === "failed") && (
        <button type="button" class="btn" onClick={() => retryJob(job, reload)}>
          Retry…
        </button>
      )}
      {!ENDED.includes(state) && (
        <button type="button" class="btn dan" onClick={() => cancelJob(job, reload)}>
          Cancel…
        </button>
      )}
    </span>
  );
}

const ATTEMPTS: Column<JobAttempt>[] = [
  { name: "#", cell: (row) => row.number, right: true },
  { name: "Sent", cell: (row) => precise(row.sent) },
  { name: "Machine", cell: (row) => row.machine ?? "–", kind: "nw" },
  {
    name: "Response",
    cell: (row) => (
      <>
        <span class={row.is_failure ? "bad" : ""}>{row.result ?? "in flight"}</span> {row.text}
      </>
    ),
    kind: "words",
  },
  { name: "Waited", cell: (row) => exactSpan(row.waited_ms), right: true },
  { name: "Took", cell: (row) => span(row.took_ms), right: true },
  { name: "Then", cell: (row) => row.then ?? "–" },
];

function facts(job: Job): [string, preact.ComponentChildren][] {
  const at = (time: number | null): string => (time == null ? "none" : clock(time));
  return [
    ["State", <b>{capital(job.state.replace("_", " "))}</b>],
    [
      "Tenant",
      <>
        <a class="l" href={toTenant(job.tenant)}>
          {job.tenant}
        </a>
        , weight {job.weight}
      </>,
    ],
    [
      "Action",
      job.action ? (
        <a class="l" href={toAction(job.action)}>
          {job.action}
        </a>
      ) : (
        "none"
      ),
    ],
    [
      "API, group",
      <>
        {job.api ? (
          <a class="l" href={toApi(job.api)}>
            {job.api}
          </a>
        ) : (
          "handler"
        )}
        {job.group ? `, ${job.group}` : ""}
      </>,
    ],
    ["Priority", job.priority],
    ["Cost", count(job.cost)],
    ["Submitted", clock(job.submitted)],
    ["Not before", at(job.not_before)],
    ["Deadline", at(job.deadline)],
    ["Attempts", `${job.attempts}, ${job.throttles ? `${count(job.throttles)} throttled` : "none throttled"}`],
    ["Retries left", `${job.retries_left} of ${job.max_retries}`],
    ["Timeout", job.timeout_ms == null ? "of the API" : `${span(job.timeout_ms)} each`],
    ["Recoveries", count(job.recoveries)],
  ];
}

function HttpPane({ title, message, job }: { title: string; message: HttpText; job?: Job }) {
  const aside = job ? (
    <button type="button" class="btn s" onClick={() => copyCurl(job, message)}>
      Copy as curl, without secrets
    </button>
  ) : (
    <span class="mut">{bytes(message.body_bytes)}</span>
  );
  return (
    <Pane title={title} aside={aside} padded>
      <pre tabIndex={0}>{asText(message)}</pre>
    </Pane>
  );
}

function asText({ head, headers, body, is_cut, body_bytes }: HttpText): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  const text =
    body == null
      ? body_bytes
        ? `(${bytes(body_bytes)} that are not text)`
        : ""
      : body + (is_cut ? `\n… (${bytes(body_bytes)} in all)` : "");
  return [head, ...lines].join("\n") + (text ? `\n\n${text}` : "");
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Builds a command; masked headers are left out. */
export function curlCommand(job: Job, message: HttpText): string {
  const host = message.headers.find(([name]) => name.toLowerCase() === "host")?.[1] ?? "HOST";
  const sent = message.headers.filter(([name, value]) => name.toLowerCase() !== "host" && !value.includes("•"));
  const headers = sent.map(([name, value]) => ` -H ${quote(`${name}: ${value}`)}`).join("");
  const body = message.body ? ` --data-raw ${quote(message.body)}` : "";
  return `curl -X ${job.method ?? "GET"}${headers}${body} ${quote(`https://${host}${job.path ?? "/"}`)}`;
}

async function copyCurl(job: Job, message: HttpText): Promise<void> {
  try {
    await navigator.clipboard.writeText(curlCommand(job, message));
    announce("The command is in the clipboard.");
  } catch {
    announce("The browser did not allow copying: select the request and copy it.");
  }
}
