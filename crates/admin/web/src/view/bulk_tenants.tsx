// Tenants: a page of the server's ranking, at most 50 rows of any number.

import type { Tenant, Tenants, TenantSort } from "../api";
import { MiniLine } from "../chart/spark";
import { pauseTenant, resumeTenant } from "../dialog/changes";
import { FillBar, Level } from "../part/meter";
import { RankPager } from "../part/pager";
import { Empty, Pane } from "../part/pane";
import { type Column, Table } from "../part/table";
import { route, setQuery, toTenant } from "../route";
import { count, perSecond, share, span } from "../text/format";

/** Rows of a page: a screen, or more on demand. */
const PAGE_SIZES = { few: 12, many: 50 };

export const tenantPageSize = (): number =>
  route.value.query.get("rows") === "many" ? PAGE_SIZES.many : PAGE_SIZES.few;

const SORTS: [TenantSort, string][] = [
  ["queued", "most queued"],
  ["rate", "slowest"],
  ["unfair", "furthest from fair"],
  ["eta", "longest ETA"],
  ["name", "name"],
];

const COLUMNS: Column<Tenant>[] = [
  {
    name: "Tenant",
    cell: (row) => (
      <>
        <a href={toTenant(row.tenant)}>
          <b>{row.tenant}</b>
        </a>
        {row.paused && <span class="sub"> paused</span>}
      </>
    ),
    sort: "name",
    kind: "name",
  },
  { name: "Weight", cell: (row) => row.weight, right: true, kind: "opt" },
  { name: "Share vs fair share", cell: (row) => <Share tenant={row} />, sort: "unfair", kind: "share" },
  { name: "Rate", cell: (row) => `${perSecond(row.rate_per_s)}/s`, right: true, sort: "rate" },
  { name: "Rate cap", cell: (row) => row.rate ?? "–", right: true, kind: "opt" },
  { name: "Queued", cell: (row) => count(row.jobs.queued), right: true, sort: "queued" },
  {
    name: "15 min",
    cell: (row) => (row.queued_history.length ? <MiniLine values={row.queued_history} /> : "–"),
    kind: "opt",
  },
  { name: "Congestion", cell: (row) => <Level level={row.congestion} /> },
  { name: "Throttles a job", cell: (row) => (row.throttles_ppm / 1_000_000).toFixed(2), right: true, kind: "opt" },
  { name: "Waits for", cell: (row) => waitText(row), kind: (row) => `waits ${waitTone(row)}` },
  { name: "ETA", cell: (row) => etaOf(row), right: true, sort: "eta", kind: "nw" },
  { name: "Control", quiet: true, cell: (row) => <Control tenant={row} />, right: true },
];

function Share({ tenant }: { tenant: Tenant }) {
  const { share_ppm: got, fair_ppm: fair } = tenant;
  if (got == null || fair == null) return <span class="fnt">{tenant.jobs.queued ? "cannot move" : "no work"}</span>;
  const label = `got ${share(got, 1_000_000)} %, fair ${share(fair, 1_000_000)} %`;
  return <FillBar label={label} used={got / 10_000} peak={fair / 10_000} warnAt={Infinity} />;
}

/** Says what a tenant's jobs wait for. */
export function waitText(tenant: Tenant): string {
  if (tenant.paused) return tenant.paused_by ? `paused by ${tenant.paused_by}` : "paused";
  if (tenant.waits) return tenant.waits.text;
  return tenant.jobs.in_flight ? `nothing, ${count(tenant.jobs.in_flight)} in flight` : "nothing";
}

function etaOf({ jobs, eta_ms }: Tenant): string {
  if (jobs.queued + jobs.in_flight === 0) return "done";
  return eta_ms === 0 ? "now" : span(eta_ms);
}

function waitTone(tenant: Tenant): string {
  const code = tenant.waits?.code;
  if (code === "asleep" || code === "store") return "bad";
  return code === "concurrency" || code === "workers" ? "warn" : "mut";
}

function Control({ tenant }: { tenant: Tenant }) {
  return tenant.paused ? (
    <button type="button" class="btn s" onClick={() => resumeTenant(tenant)}>
      Resume…
    </button>
  ) : (
    <button type="button" class="btn s" onClick={() => pauseTenant(tenant)}>
      Pause…
    </button>
  );
}

export function TenantsPane({ page, active }: { page: Tenants; active: number }) {
  const sort = route.value.query.get("sort") ?? "queued";
  const size = tenantPageSize();
  const order = (next: string): void => setQuery({ sort: next, offset: "" });
  const aside = (
    <>
      <span class="mut">
        {count(active)} active of {count(page.total)}
      </span>
      <select aria-label="Sort by" value={sort} onChange={(event) => order(event.currentTarget.value)}>
        {SORTS.map(([id, text]) => (
          <option key={id} value={id}>
            {text}
          </option>
        ))}
      </select>
    </>
  );
  return (
    <Pane title="Tenants" aside={aside}>
      {page.tenants.length ? (
        <Table
          cards
          caption="Tenants with their shares"
          columns={COLUMNS}
          rows={page.tenants.slice(0, size)}
          id={(row) => row.tenant}
          sorted={sort}
          onSort={order}
        />
      ) : (
        <Empty>{page.total ? "No tenant matches." : "No tenant has jobs."}</Empty>
      )}
      <RankPager
        offset={page.offset}
        shown={Math.min(size, page.tenants.length)}
        matched={page.matched}
        size={size}
        onMove={(offset) => setQuery({ offset: offset ? String(offset) : "" })}
      >
        <button
          type="button"
          class="btn s"
          onClick={() => setQuery({ rows: size === PAGE_SIZES.few ? "many" : "", offset: "" })}
        >
          {size === PAGE_SIZES.few ? `Show ${PAGE_SIZES.many} rows` : "Show fewer"}
        </button>
      </RankPager>
    </Pane>
  );
}
