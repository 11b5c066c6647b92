// List of changes, newest first.

import type { Change } from "../api";
import { capital, clock } from "../text/format";
import { toAction, toApi, toTenant } from "../route";
import { Lock, StateGlyph, StateLabel } from "./glyph";
import { memo } from "./memo";
import { Code } from "./pane";

interface TimelineProps {
  changes: Change[];
  /** The changes of one API show the state in place of the name. */
  ofOne?: boolean;
}

export function Timeline({ changes, ofOne }: TimelineProps) {
  return (
    <ul class="tl">
      {changes.map((change) => (
        <Entry key={change.id} change={change} ofOne={ofOne ?? false} />
      ))}
    </ul>
  );
}

const Entry = memo<{ change: Change; ofOne: boolean }>(
  ({ change, ofOne }) => (
    <li>
      <time class="fnt" dateTime={new Date(change.at).toISOString()}>
        {clock(change.at)}
      </time>
      <span>
        {ofOne && change.state ? <StateLabel state={change.state} /> : <Subject change={change} ofOne={ofOne} />}
      </span>
      <span>
        <Code text={ofOne ? capital(change.text) : change.text} />{" "}
        {change.reason && <span class="sub m">{change.reason}</span>}
      </span>
    </li>
  ),
  (one, other) => one.change === other.change && one.ofOne === other.ofOne,
);

/** What changed, with a link to it. */
function Subject({ change, ofOne }: { change: Change; ofOne: boolean }) {
  const { state, api, tenant, action, kind } = change;
  const [name, href] = ofOne
    ? [kind, ""]
    : tenant
      ? [tenant, toTenant(tenant)]
      : action
        ? [action, toAction(action)]
        : api
          ? [api, toApi(api)]
          : [kind, ""];
  return (
    <span class="state">
      {state ? <StateGlyph state={state} /> : kind === "operator" && <Lock />}
      {href ? (
        <a href={href} class="cut">
          {name}
        </a>
      ) : (
        name
      )}
    </span>
  );
}
