// What queued jobs wait for: one bar in parts, and the parts with their counts.

import type { WaitCause, WaitCode } from "../api";
import { PartBar } from "../part/meter";
import { Empty } from "../part/pane";
import { toAction, toApi, toTenant } from "../route";
import { count, share } from "../text/format";

const MARKS: Record<WaitCode, string> = {
  limit: "c-ok",
  concurrency: "c-am",
  asleep: "c-rd hatch",
  paused: "c-gr",
  tenant_rate: "c-ok dotp",
  scheduled: "c-gr dotp",
  retrying: "c-vi dotp",
  workers: "c-am lines",
  store: "c-rd lines",
};

export function WaitCauses({ causes, queued }: { causes: WaitCause[]; queued: number }) {
  if (!queued) return <Empty>No job is queued.</Empty>;
  const least = queued / 80;
  const parts = causes.map((cause) => ({ mark: MARKS[cause.code], size: Math.max(cause.jobs, least) }));
  return (
    <>
      <PartBar
        tall
        label={`Causes: ${causes.map((cause) => `${cause.text}, ${count(cause.jobs)}`).join("; ")}`}
        parts={parts}
      />
      <table class="causes">
        <caption class="vh">What queued jobs wait for</caption>
        <thead class="vh">
          <tr>
            <th scope="col">Cause</th>
            <th scope="col">Jobs</th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {causes.map((cause) => (
            <tr key={`${cause.code} ${cause.text}`}>
              <td>
                <span class="key wide">
                  <i class={MARKS[cause.code]} />
                  <CauseName cause={cause} />
                </span>
              </td>
              <td class="r">{count(cause.jobs)}</td>
              <td class="r fnt">{share(cause.jobs, queued)} %</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** Text of a cause, with a link to what it is about. */
export function CauseName({ cause }: { cause: WaitCause }) {
  const href = cause.tenant
    ? toTenant(cause.tenant)
    : cause.action
      ? toAction(cause.action)
      : cause.api
        ? toApi(cause.api)
        : "";
  return href ? <a href={href}>{cause.text}</a> : <span>{cause.text}</span>;
}
