// Story of one call, and whether a call would go now.

import { useState } from "preact/hooks";
import type { Call, CallRow, Calls, WaitView } from "../api";
import { Waterfall } from "../chart/waterfall";
import { useResource } from "../model/resource";
import { shown } from "../model/store";
import { address, describe, read, segment } from "../net/request";
import { FillBar } from "../part/meter";
import { Banner, Code, Empty, Pane } from "../part/pane";
import { Search } from "../part/search";
import { type Column, Table } from "../part/table";
import { Top } from "../part/top";
import { route, setQuery, toApi, toCall } from "../route";
import { capital, clock, count, exactSpan, precise, share, span } from "../text/format";
import { LinkBanner } from "./shell";

export function ExplainView() {
  const id = route.value.query.get("id") ?? "";
  const { value: call, error } = useResource<Call>(id ? `/v1/calls/${segment(id)}` : "");
  const { value: calls } = useResource<Calls>(address("/v1/calls", { kind: "slow,refused,failed", most: 20 }), 3000);
  const search = <Search label="Request, job or trace id" value={id} onSearch={(text) => setQuery({ id: text })} />;
  return (
    <>
      <Top title="Explain" actions={search} />
      <div class="stack">
        <LinkBanner />
        {error && <Banner tone="amber" lead="This call is not known." text={error} />}
        {call && <Banner tone={toneOf(call)} lead={call.lead} text={<Code text={call.rest} />} />}
        <div class="gm">
          <div class="col">
            {call ? <Story call={call} /> : <Ask />}
            {!call && <Recent calls={calls?.calls ?? []} wide />}
          </div>
          <div class="col">
            {call && (
              <>
                <CallLimits call={call} />
                <Ask api={call.api} method={call.method} path={call.path} />
                <Recent calls={calls?.calls ?? []} />
              </>
            )}
            {!call && <Guide />}
          </div>
        </div>
      </div>
    </>
  );
}

const toneOf = (call: Call) =>
  call.kind === "failed" || call.kind === "refused" ? "red" : call.kind === "slow" ? "amber" : "blue";

function Guide() {
  return (
    <Pane title="What this answers" padded>
      <p class="mut">
        Why a call waited, was refused or failed: open one from the list, or enter the id from the header{" "}
        <span class="m">x-request-id</span>, the log or the trace. Whether a call would go now: fill in the form. Asking
        takes no quota.
      </p>
    </Pane>
  );
}

const STEPS: Record<string, string> = {
  arrived: "f-gr",
  own: "f-gr",
  cache: "f-ca",
  state: "f-am",
  queue: "f-am",
  limit: "f-am",
  scheduled: "f-gr",
  backoff: "f-gr",
  attempt: "f-bl",
  failed: "f-rd",
  answer: "f-ok",
};

function Story({ call }: { call: Call }) {
  return (
    <>
      <Pane title="The story" aside={<span class="mut m cut">{call.request_id}</span>}>
        <ol class="steps">
          {call.steps.map((step, index) => (
            <li key={index}>
              <span class="fnt r">{index === 0 ? precise(call.started) : `+${exactSpan(step.after_ms)}`}</span>
              <svg width="11" height="11" viewBox="0 0 11 11" aria-hidden="true">
                <circle cx="5.5" cy="5.5" r="4" class={STEPS[step.code] ?? "f-gr"} />
              </svg>
              <span>
                <Code text={step.text} />
              </span>
            </li>
          ))}
        </ol>
      </Pane>
      <Pane title="Where the time went" aside={<b>{exactSpan(call.total_ms)}</b>} padded>
        <Waterfall label="Parts of the call over time" parts={call.parts} />
      </Pane>
    </>
  );
}

type CallLimit = Call["limits"][number];

const LIMITS: Column<CallLimit>[] = [
  {
    name: "Limit",
    cell: (row) => (
      <>
        {row.limit}
        {row.group && <span class="sub"> {row.group}</span>}
      </>
    ),
  },
  {
    name: "Used",
    cell: (row) => (
      <FillBar label={`${share(row.used, row.capacity)} % used`} used={(row.used / Math.max(1, row.capacity)) * 100} />
    ),
    kind: "wide",
  },
  {
    name: "Quota after",
    cell: (row) =>
      row.free_after_ms == null ? (
        "never"
      ) : row.free_after_ms === 0 ? (
        "at once"
      ) : (
        <b>+{exactSpan(row.free_after_ms)}</b>
      ),
    right: true,
  },
];

function CallLimits({ call }: { call: Call }) {
  return (
    <Pane title="Each limit, when it arrived">
      {call.limits.length ? (
        <Table
          caption="Limits when the call arrived"
          columns={LIMITS}
          rows={call.limits}
          id={(row) => `${row.group} ${row.limit}`}
        />
      ) : (
        <Empty>No limit applied.</Empty>
      )}
    </Pane>
  );
}

/** Form that asks what the program would do with a call. */
function Ask({ api, method, path }: { api?: string; method?: string; path?: string }) {
  const names = shown.value?.menu.apis.map((one) => one.name) ?? [];
  const [form, setForm] = useState({
    api: api ?? "",
    method: method ?? "GET",
    path: path ?? "/",
    cost: "1",
    priority: "normal",
  });
  const [answer, setAnswer] = useState<WaitView | null>(null);
  const [failure, setFailure] = useState("");
  const chosen = form.api || names[0] || "";
  const ask = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      setAnswer(await read<WaitView>(address("/v1/explain", { ...form, api: chosen })));
      setFailure("");
    } catch (error) {
      setFailure(describe(error));
    }
  };
  const put = (name: string) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [name]: event.currentTarget.value });
  return (
    <Pane title="Would a call go now?" padded>
      <form class="row ask" onSubmit={ask}>
        <select aria-label="API" value={chosen} onChange={put("api")}>
          {(names.includes(chosen) ? names : [chosen, ...names]).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <select aria-label="Method" value={form.method} onChange={put("method")}>
          {["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <input aria-label="Path" class="grow m" value={form.path} onInput={put("path")} />
        <input aria-label="Cost" class="tiny" inputMode="numeric" value={form.cost} onInput={put("cost")} />
        <select aria-label="Priority" value={form.priority} onChange={put("priority")}>
          {["high", "normal", "low"].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <button class="btn pri">Ask</button>
      </form>
      <div role="status">
        {failure && <p class="bad after">{failure}</p>}
        {answer && !failure && (
          <p class="after">
            <b>{verdict(answer)}</b> {capital(answer.text)}. <span class="mut">Asking takes no quota.</span>
          </p>
        )}
      </div>
    </Pane>
  );
}

function verdict(answer: WaitView): string {
  switch (answer.decision) {
    case "go":
      return "It would go at once.";
    case "cache":
      return "The cache would answer it.";
    case "wait":
      return answer.delay_ms == null
        ? "It would wait."
        : `It would wait ${span(answer.delay_ms)}${answer.position ? `, behind ${count(answer.position)} others` : ""}.`;
    case "refuse":
      return answer.retry_after_ms == null
        ? "It would be refused."
        : `It would be refused: retry in ${span(answer.retry_after_ms)}.`;
    default:
      return "It can never go.";
  }
}

const RECENT: Column<CallRow>[] = [
  { name: "Time", cell: (row) => <a href={toCall(row.request_id)}>{clock(row.at)}</a>, kind: "fnt nw" },
  { name: "API", cell: (row) => <a href={toApi(row.api)}>{row.api}</a> },
  {
    name: "What happened",
    cell: (row) => <a href={toCall(row.request_id)}>{row.text}</a>,
    kind: (row) => (row.kind === "slow" ? "words" : "words bad"),
  },
];

function Recent({ calls, wide }: { calls: CallRow[]; wide?: boolean }) {
  return (
    <Pane title="Recently slow, refused or failed" aside={<span class="mut">last 1,000 kept</span>}>
      {calls.length ? (
        <Table
          caption="Calls that were slow, refused or failed"
          columns={RECENT}
          rows={calls.slice(0, wide ? 20 : 8)}
          id={(row) => row.request_id}
        />
      ) : (
        <Empty>None so far.</Empty>
      )}
    </Pane>
  );
}
