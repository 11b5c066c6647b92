// Dead letters: find what died of the same cause, retry it or delete it.

import { useState } from "preact/hooks";
import type { DeadLetter, DeadLetters } from "../api";
import { type DeadSelection, deleteDead, oneLetter, retryDead } from "../dialog/changes";
import { useResource } from "../model/resource";
import { address } from "../net/request";
import { CursorPager } from "../part/pager";
import { Banner, Empty, Pane } from "../part/pane";
import { Search } from "../part/search";
import { type Column, Table } from "../part/table";
import { Top } from "../part/top";
import { route, setQuery, toJob, toTenant } from "../route";
import { clock, count, plural } from "../text/format";
import { LinkBanner } from "./shell";

const PAGE = 50;
const FILTERS = ["reason", "tenant", "action", "q", "after"] as const;

export function DeadView() {
  const { query } = route.value;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""])) as Record<
    (typeof FILTERS)[number],
    string
  >;
  const { value, error, problem, reload } = useResource<DeadLetters>(
    address("/v1/bulk/dead", { ...filter, order: "newest", most: PAGE }),
    5000,
  );
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState("");
  const letters = value?.dead ?? [];
  const chosen = letters.filter((letter) => picked.has(letter.id));
  const after = (): void => {
    setPicked(new Set());
    reload();
  };
  const shown = letters.find((letter) => letter.id === open) ?? letters[0];
  return (
    <>
      <Top
        title="Dead letters"
        note={value && <span class="mut">{count(value.total)}</span>}
        actions={<Buttons chosen={chosen} filter={filter} value={value} after={after} />}
      />
      <div class="stack">
        <LinkBanner />
        {error && (
          <Banner
            tone={problem === "no_bulk" ? "" : "red"}
            lead={problem === "no_bulk" ? "This program runs no bulk jobs." : "The dead letters cannot be read."}
            text={error}
          />
        )}
        {value && <Facets value={value} filter={filter} />}
        {value && (
          <div class="gm">
            <Pane
              title="Letters"
              aside={
                <span class="mut">
                  {chosen.length ? `${chosen.length} selected` : `${count(letters.length)} shown`}
                </span>
              }
            >
              {letters.length ? (
                <Table
                  cards
                  caption="Dead letters, newest first"
                  columns={columnsWith(letters, picked, setPicked)}
                  rows={letters}
                  id={(letter) => String(letter.place)}
                  selected={(letter) => letter === shown}
                  onRow={(letter) => setOpen(letter.id)}
                />
              ) : (
                <Empty>
                  {value.total
                    ? "No dead letter matches."
                    : "None: every job that ended has succeeded, or was deleted."}
                </Empty>
              )}
              <CursorPager
                after={filter.after}
                next={value.next == null ? null : String(value.next)}
                onMove={(next) => setQuery({ after: next })}
              />
            </Pane>
            <div class="col">
              {shown && <Letter letter={shown} after={after} />}
              {value.note && <Banner tone="amber" {...value.note} />}
            </div>
          </div>
        )}
      </div>
    </>
  );
}

interface ButtonsProps {
  chosen: DeadLetter[];
  filter: Record<string, string>;
  value: DeadLetters | null;
  after: () => void;
}

/** Buttons for the selection; without one, for everything that the filter shows, if one filter says it all. */
function Buttons({ chosen, filter, value, after }: ButtonsProps) {
  const target = chosen.length
    ? {
        selection: { jobs: chosen.map((letter) => letter.id) } as DeadSelection,
        what: plural(chosen.length, "dead letter"),
      }
    : wholeFilter(filter);
  if (!value?.total || !target) return <span class="fnt dk">Select letters to retry or delete them</span>;
  const words = chosen.length ? `${chosen.length} selected` : "all shown";
  return (
    <span class="row">
      <button type="button" class="btn pri" onClick={() => retryDead(target.selection, target.what, after)}>
        Retry {words}…
      </button>
      <button type="button" class="btn dan" onClick={() => deleteDead(target.selection, target.what, after)}>
        Delete…
      </button>
    </span>
  );
}

function wholeFilter(filter: Record<string, string>): { selection: DeadSelection; what: string } | null {
  const { reason, tenant, action, q } = filter;
  const set = [reason, tenant, action, q].filter(Boolean).length;
  if (set === 0) return { selection: { all: true }, what: "all dead letters" };
  if (set > 1 || q) return null;
  if (reason) return { selection: { error: reason }, what: `dead letters: ${reason}` };
  if (tenant) return { selection: { tenant }, what: `dead letters of tenant ${tenant}` };
  return { selection: { action: action ?? "" }, what: `dead letters of action ${action}` };
}

function Facets({ value, filter }: { value: DeadLetters; filter: Record<string, string> }) {
  const { reasons, tenants, actions } = value;
  const pick = (name: string, text: string): void => setQuery({ [name]: text, after: "" });
  const all = reasons.reduce((sum, one) => sum + one.jobs, 0);
  return (
    <div class="row facets">
      <Search label="Job, path or words of the error" value={filter["q"] ?? ""} onSearch={(text) => pick("q", text)} />
      <button type="button" class="chip" aria-pressed={!filter["reason"]} onClick={() => pick("reason", "")}>
        All <span class="fnt">{count(all)}</span>
      </button>
      {reasons.slice(0, 8).map(({ reason, jobs }) => (
        <button
          key={reason}
          type="button"
          class="chip"
          aria-pressed={filter["reason"] === reason}
          onClick={() => pick("reason", reason)}
        >
          <span class="cut">{reason}</span> <span class="fnt">{count(jobs)}</span>
        </button>
      ))}
      <Choice label="tenant" names={tenants} value={filter["tenant"] ?? ""} onPick={pick} />
      <Choice label="action" names={actions} value={filter["action"] ?? ""} onPick={pick} />
    </div>
  );
}

function Choice({
  label,
  names,
  value,
  onPick,
}: {
  label: string;
  names: string[];
  value: string;
  onPick: (name: string, value: string) => void;
}) {
  const all = value && !names.includes(value) ? [value, ...names] : names;
  return (
    <select aria-label={label} value={value} onChange={(event) => onPick(label, event.currentTarget.value)}>
      <option value="">every {label}</option>
      {all.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

type SetPicked = (picked: ReadonlySet<string>) => void;

function columnsWith(letters: DeadLetter[], picked: ReadonlySet<string>, setPicked: SetPicked): Column<DeadLetter>[] {
  const toggle = (id: string): void => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    setPicked(next);
  };
  const isAll = letters.every((letter) => picked.has(letter.id));
  const head = (
    <input
      type="checkbox"
      aria-label={`Select all ${letters.length}`}
      checked={isAll}
      onClick={() => setPicked(new Set(isAll ? [] : letters.map((letter) => letter.id)))}
    />
  );
  return [
    {
      name: "Selected",
      head,
      quiet: true,
      cell: (letter) => (
        <input
          type="checkbox"
          aria-label={`Select ${letter.id}`}
          checked={picked.has(letter.id)}
          onClick={(event) => {
            event.stopPropagation();
            toggle(letter.id);
          }}
        />
      ),
      kind: "check",
    },
    { name: "Job", cell: (letter) => <a href={toJob(letter.id)}>{letter.id}</a>, kind: "m name" },
    { name: "Tenant", cell: (letter) => <a href={toTenant(letter.tenant)}>{letter.tenant}</a> },
    {
      name: "Call",
      cell: (letter) => (letter.path ? `${letter.method ?? "GET"} ${letter.path}` : "–"),
      kind: "m words",
    },
    {
      name: "Last error",
      cell: (letter) => (
        <button type="button" class="link" title="Show its history">
          {letter.history[letter.history.length - 1]?.words ?? letter.reason}
        </button>
      ),
      kind: "words",
    },
    { name: "Attempts", cell: (letter) => count(letter.attempts), right: true },
    { name: "Died", cell: (letter) => clock(letter.at), right: true, kind: "nw" },
  ];
}

function Letter({ letter, after }: { letter: DeadLetter; after: () => void }) {
  return (
    <Pane
      title={<span class="m">{letter.id}</span>}
      aside={
        <span class="mut">
          {letter.tenant}
          {letter.action ? `, ${letter.action}` : ""}
        </span>
      }
      padded
    >
      <ul class="tl flush">
        {letter.history.map((entry, index) => (
          <li key={index}>
            <time class="fnt">{clock(entry.at)}</time>
            <span>attempt {letter.attempts - letter.history.length + index + 1}</span>
            <span>{entry.words}</span>
          </li>
        ))}
      </ul>
      {letter.body && <pre tabIndex={0}>{letter.body}</pre>}
      <div class="row after">
        <button
          type="button"
          class="btn s"
          onClick={() => retryDead(oneLetter(letter), `dead letter ${letter.id}`, after)}
        >
          Retry…
        </button>
        <a class="btn s" href={toJob(letter.id)}>
          Open job
        </a>
        <button
          type="button"
          class="btn s dan"
          onClick={() => deleteDead(oneLetter(letter), `dead letter ${letter.id}`, after)}
        >
          Delete…
        </button>
      </div>
    </Pane>
  );
}
