// One tenant.

import type { Tenant } from "../api";
import { cancelTenant, pauseTenant, resumeTenant } from "../dialog/changes";
import { MiniLine } from "../chart/spark";
import { useResource } from "../model/resource";
import { segment } from "../net/request";
import { FillBar, Level } from "../part/meter";
import { Banner, Empty, Facts, Figures, Pane, Unit } from "../part/pane";
import { Crumb, Top } from "../part/top";
import { route, to } from "../route";
import { capital, count, perSecond, share, span } from "../text/format";
import { waitText } from "./bulk_tenants";
import { JobCountsPane } from "./job_counts";
import { LinkBanner } from "./shell";
import { CauseName } from "./wait_causes";

export function TenantView() {
  const name = route.value.name;
  const { value: tenant, error, reload } = useResource<Tenant>(`/v1/bulk/tenants/${segment(name)}`, 2000);
  const title = (
    <Crumb parent="Bulk" href="#/bulk">
      {name}
    </Crumb>
  );
  if (!tenant || tenant.tenant !== name)
    return (
      <>
        <Top title={title} />
        <LinkBanner />
        {error ? <Banner tone="red" lead="The tenant cannot be shown." text={error} /> : <Empty>Loading…</Empty>}
      </>
    );
  const { jobs } = tenant;
  return (
    <>
      <Top
        title={title}
        note={tenant.paused && <span class="mut">paused</span>}
        actions={<Actions tenant={tenant} reload={reload} />}
      />
      <div class="stack">
        <LinkBanner />
        <Why tenant={tenant} />
        <Figures
          list={[
            { name: "Queued", value: count(jobs.queued), note: jobs.delayed ? `${count(jobs.delayed)} delayed` : "" },
            {
              name: "In flight",
              value: count(jobs.in_flight),
              note: tenant.most_in_flight == null ? "" : `at most ${count(tenant.most_in_flight)}`,
            },
            {
              name: "Rate",
              value: <Unit value={perSecond(tenant.rate_per_s)} unit="/s" />,
              note: tenant.rate ? `cap ${tenant.rate}` : "no cap of its own",
            },
            { name: "Throttles a job", value: (tenant.throttles_ppm / 1_000_000).toFixed(2) },
            { name: "Dead", value: count(jobs.dead), note: `${count(jobs.done)} done`, tone: jobs.dead ? "warn" : "" },
            { name: "ETA", value: jobs.queued + jobs.in_flight ? span(tenant.eta_ms) : "done" },
          ]}
        />
        <div class="g2">
          <Pane title="Share" padded>
            <Facts
              list={[
                ["Weight", tenant.weight],
                ["Priority", tenant.priority],
                ["Share", <ShareOf tenant={tenant} />],
                ["Speed that binds", `${count(tenant.speed)}/s`],
                ["Congestion", <Level level={tenant.congestion} />],
                [
                  "Queued, 15 min",
                  tenant.queued_history.length ? (
                    <MiniLine values={tenant.queued_history} />
                  ) : (
                    "not kept: it is not among the 100 deepest"
                  ),
                ],
              ]}
            />
          </Pane>
          <JobCountsPane jobs={jobs} filter={{ tenant: name }} />
        </div>
      </div>
    </>
  );
}

function Why({ tenant }: { tenant: Tenant }) {
  if (tenant.paused) return <Banner tone="amber" lead={`${capital(waitText(tenant))}.`} text="New jobs wait too." />;
  if (!tenant.waits) return <Banner tone="" lead={tenant.jobs.in_flight ? "Nothing waits." : "It has no work."} />;
  const isStuck = tenant.share_ppm == null;
  return (
    <Banner
      tone={isStuck ? "red" : "blue"}
      lead={isStuck ? "It cannot move:" : "Most of its jobs wait for"}
      text={<CauseName cause={tenant.waits} />}
    />
  );
}

function ShareOf({ tenant }: { tenant: Tenant }) {
  const { share_ppm: got, fair_ppm: fair } = tenant;
  if (got == null || fair == null) return <>none</>;
  return (
    <span class="row nowrap">
      <FillBar
        label={`got ${share(got, 1_000_000)} %, fair ${share(fair, 1_000_000)} %`}
        used={got / 10_000}
        peak={fair / 10_000}
        warnAt={Infinity}
      />
      {share(got, 1_000_000)} % of {share(fair, 1_000_000)} % fair
    </span>
  );
}

function Actions({ tenant, reload }: { tenant: Tenant; reload: () => void }) {
  return (
    <span class="row">
      <a class="btn" href={to("jobs", { tenant: tenant.tenant })}>
        Its jobs
      </a>
      {tenant.paused ? (
        <button type="button" class="btn" onClick={() => resumeTenant(tenant, reload)}>
          Resume…
        </button>
      ) : (
        <button type="button" class="btn" onClick={() => pauseTenant(tenant, reload)}>
          Pause…
        </button>
      )}
      <button type="button" class="btn dan" onClick={() => cancelTenant(tenant, reload)}>
        Cancel jobs…
      </button>
    </span>
  );
}
