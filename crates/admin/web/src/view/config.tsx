// Configuration in effect with its origins, and the audit of changes.

import type { Audit, AuditEntry, Config, ConfigValue } from "../api";
import { reloadConfig } from "../dialog/changes";
import { useResource } from "../model/resource";
import { Banner, Empty, Pane } from "../part/pane";
import { Search } from "../part/search";
import { type Column, Table } from "../part/table";
import { Top } from "../part/top";
import { route, setQuery } from "../route";
import { clock, count } from "../text/format";
import { LinkBanner } from "./shell";

const COLUMNS: Column<ConfigValue>[] = [
  { name: "Key", cell: (row) => row.key, kind: "m words" },
  { name: "Value", cell: (row) => row.value ?? "–", kind: "m words" },
  {
    name: "From",
    cell: (row) => (row.origin === "default" ? "default" : row.from),
    kind: (row) => (row.origin === "default" ? "fnt from" : row.origin === "runtime" ? "warn from" : "mut from"),
  },
];

const MOST = 300;

export function ConfigView() {
  const q = route.value.query.get("q") ?? "";
  const hidesDefaults = route.value.query.get("defaults") !== "1";
  const { value: config, error, reload } = useResource<Config>("/v1/config", 30_000);
  const { value: audit, reload: reloadAudit } = useResource<Audit>("/v1/audit", 5000);
  const after = (): void => {
    reload();
    reloadAudit();
  };
  const words = q.toLowerCase();
  const values =
    config?.values.filter(
      (row) =>
        (!hidesDefaults || row.origin !== "default") &&
        `${row.key} ${row.value} ${row.from}`.toLowerCase().includes(words),
    ) ?? [];
  const note = config && (
    <span class="mut dk">
      {config.files.join(", ")}, read {clock(config.read_at)}, in effect
    </span>
  );
  return (
    <>
      <Top
        title="Configuration"
        note={note}
        actions={
          <button type="button" class="btn" onClick={() => reloadConfig(after)}>
            Reload…
          </button>
        }
      />
      <div class="stack">
        <LinkBanner />
        {error && <Banner tone="red" lead="The configuration cannot be read." text={error} />}
        <div class="gm">
          <Pane
            title="Values in effect"
            aside={
              <>
                <label class="check-label">
                  <input
                    type="checkbox"
                    checked={!hidesDefaults}
                    onClick={() => setQuery({ defaults: hidesDefaults ? "1" : "" })}
                  />{" "}
                  with defaults
                </label>
                <Search label="Filter keys" value={q} onSearch={(text) => setQuery({ q: text })} />
              </>
            }
          >
            {values.length ? (
              <Table
                cards
                caption="Values in effect"
                columns={COLUMNS}
                rows={values.slice(0, MOST)}
                id={(row) => row.key}
              />
            ) : (
              <Empty>{config ? "No value matches." : "Loading…"}</Empty>
            )}
            {values.length > MOST && <Empty>{count(values.length - MOST)} more: filter by key.</Empty>}
          </Pane>
          <Pane title="Audit" aside={<span class="mut">last 1,000 kept</span>}>
            {audit?.changes.length ? (
              <AuditList entries={audit.changes.slice(0, 60)} />
            ) : (
              <Empty>No operator has changed anything.</Empty>
            )}
          </Pane>
        </div>
      </div>
    </>
  );
}

function AuditList({ entries }: { entries: AuditEntry[] }) {
  return (
    <ul class="tl">
      {entries.map((entry, index) => (
        <li key={`${entry.at} ${index}`}>
          <time class="fnt">{clock(entry.at)}</time>
          <span>{actionWords(entry.action)}</span>
          <span>
            {[entry.api, entry.group].filter(Boolean).join(", ")}{" "}
            <span class="mut">
              by {entry.who}
              {entry.reason ? `: “${entry.reason}”` : ""}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Words of an audited change: "hold_cache_only" is an override. */
export function actionWords(action: string): string {
  return action
    .replace(/^hold_/, "override ")
    .replace(/^bulk_/, "")
    .replaceAll("_", " ");
}
