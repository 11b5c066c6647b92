// Counts of jobs by state, with links to them.

import type { JobCounts } from "../api";
import { PartBar } from "../part/meter";
import { Pane } from "../part/pane";
import { to } from "../route";
import { count, share } from "../text/format";

const ROWS: [keyof JobCounts, string, string, string][] = [
  ["done", "done", "done", "c-ok"],
  ["in_flight", "in flight", "in_flight", "c-bl"],
  ["queued", "queued", "queued", "rest"],
  ["dead", "dead letters", "dead", "c-rd hatch"],
  ["failed", "failed, deleted", "failed", "c-rd lines"],
  ["cancelled", "cancelled or expired", "cancelled", "c-gr lines"],
];

export function JobCountsPane({ jobs, filter }: { jobs: JobCounts; filter: Record<string, string> }) {
  return (
    <Pane title={`${count(jobs.total)} jobs`} padded>
      <PartBar tall label="Jobs by state" parts={ROWS.map(([name, , , mark]) => ({ mark, size: jobs[name] }))} />
      <table class="causes">
        <caption class="vh">Jobs by state</caption>
        <thead class="vh">
          <tr>
            <th scope="col">State</th>
            <th scope="col">Jobs</th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {ROWS.map(([name, word, state, mark]) => (
            <tr key={name}>
              <td>
                <span class="key wide">
                  <i class={mark} />
                  <a href={to("jobs", { ...filter, state })}>{word}</a>
                </span>
              </td>
              <td class="r">{count(jobs[name])}</td>
              <td class="r fnt">{share(jobs[name], jobs.total)} %</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Pane>
  );
}
