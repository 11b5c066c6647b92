// One action.

import type { Action, Failures } from "../api";
import { cancelAction, closeAction, pauseAction, resumeAction } from "../dialog/changes";
import { isOpen } from "../model/reduce";
import { useResource } from "../model/resource";
import { address, segment } from "../net/request";
import { Banner, Empty, Facts, Figures, Pane, Unit } from "../part/pane";
import { Crumb, Top } from "../part/top";
import { route, to, toApi } from "../route";
import { clock, count, perSecond, share, span } from "../text/format";
import { deadlineOf, FailuresPane, stageOf } from "./bulk_panes";
import { JobCountsPane } from "./job_counts";
import { LinkBanner } from "./shell";
import { WaitCauses } from "./wait_causes";

export function ActionView() {
  const name = route.value.name;
  const { value: action, error, reload } = useResource<Action>(`/v1/bulk/actions/${segment(name)}`, 2000);
  const { value: failures } = useResource<Failures>(address("/v1/bulk/failures", { action: name }), 10_000);
  const title = (
    <Crumb parent="Bulk" href="#/bulk">
      {name}
    </Crumb>
  );
  if (!action || action.id !== name)
    return (
      <>
        <Top title={title} />
        <LinkBanner />
        {error ? <Banner tone="red" lead="The action cannot be shown." text={error} /> : <Empty>Loading…</Empty>}
      </>
    );
  const { jobs } = action;
  return (
    <>
      <Top
        title={title}
        note={<span class="mut">{stageOf(action)}</span>}
        actions={<Actions action={action} reload={reload} />}
      />
      <div class="stack">
        <LinkBanner />
        <Why action={action} />
        <Figures
          list={[
            {
              name: "Progress",
              value: <Unit value={share(action.over_ppm, 1_000_000)} unit="%" />,
              note: `${count(jobs.done + jobs.dead + jobs.failed + jobs.cancelled)} of ${count(jobs.total)} ended`,
            },
            { name: "Queued", value: count(jobs.queued), note: `${count(jobs.in_flight)} in flight` },
            { name: "Failed", value: count(jobs.dead + jobs.failed), tone: jobs.dead + jobs.failed ? "warn" : "" },
            {
              name: "Rate",
              value: <Unit value={perSecond(action.rate_per_s)} unit="/s" />,
              note: action.mean_ms == null ? "" : `${span(action.mean_ms)} each`,
            },
            { name: "ETA", value: isOpen(action) ? span(action.eta_ms) : "ended" },
            { name: "Deadline", value: deadlineOf(action), tone: action.late_ms ? "bad" : "" },
          ]}
        />
        <div class="g2">
          <JobCountsPane jobs={jobs} filter={{ action: name }} />
          <Pane title="Action" padded>
            <Facts list={facts(action)} />
          </Pane>
        </div>
        <div class="g2 tables">
          {isOpen(action) && action.wait_causes && (
            <Pane title="What its jobs wait for" padded>
              <WaitCauses causes={action.wait_causes} queued={jobs.queued} />
            </Pane>
          )}
          {failures && <FailuresPane failures={failures} />}
        </div>
      </div>
    </>
  );
}

function Why({ action }: { action: Action }) {
  if (!isOpen(action))
    return (
      <Banner
        tone={action.stage === "COMPLETED" ? "" : "red"}
        lead={`${stageOf(action)}.`}
        text={action.ended_because}
      />
    );
  if (action.late_ms != null)
    return (
      <Banner
        tone="red"
        lead={`It misses its deadline by about ${span(action.late_ms)}.`}
        text={[action.note, ...action.waits].filter(Boolean).join(" ")}
      />
    );
  const sentences = [...action.bottlenecks, ...action.waits];
  if (action.note || action.paused)
    return <Banner tone="amber" lead={action.note ? `${action.note}.` : "It is paused."} text={sentences.join(" ")} />;
  return (
    <Banner
      tone={sentences.length ? "blue" : ""}
      lead={sentences[0] ?? "It runs."}
      text={sentences.slice(1).join(" ")}
    />
  );
}

function facts(action: Action): [string, preact.ComponentChildren][] {
  const at = (time: number | null): string => (time == null ? "–" : clock(time));
  return [
    ["Opened", at(action.opened)],
    ["First start", at(action.started)],
    ["Ended", at(action.ended)],
    [
      "Fails without progress",
      action.times_out == null ? `after ${span(action.timeout_ms)}` : `at ${clock(action.times_out)}`,
    ],
    ["Kept after its end", span(action.keep_ms)],
    [
      "Webhook",
      action.webhook ? (
        <>
          <a class="l" href={toApi(action.webhook.api)}>
            {action.webhook.api}
          </a>{" "}
          <span class="m">{action.webhook.path}</span>
        </>
      ) : (
        "none"
      ),
    ],
  ];
}

function Actions({ action, reload }: { action: Action; reload: () => void }) {
  return (
    <span class="row">
      <a class="btn" href={to("jobs", { action: action.id })}>
        Its jobs
      </a>
      {isOpen(action) && (
        <>
          {action.stage === "CREATED" && (
            <button type="button" class="btn" onClick={() => closeAction(action, reload)}>
              Close…
            </button>
          )}
          {action.paused ? (
            <button type="button" class="btn" onClick={() => resumeAction(action, reload)}>
              Resume…
            </button>
          ) : (
            <button type="button" class="btn" onClick={() => pauseAction(action, reload)}>
              Pause…
            </button>
          )}
          <button type="button" class="btn dan" onClick={() => cancelAction(action, reload)}>
            Cancel jobs…
          </button>
        </>
      )}
    </span>
  );
}
