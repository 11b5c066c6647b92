// Start of the page: opens the stream of the current view and draws it.

import { computed, effect, untracked } from "@preact/signals";
import { render } from "preact";
import { shown } from "./model/store";
import { followVisibility, watch } from "./net/link";
import { address } from "./net/request";
import { followHash, route } from "./route";
import { followKeys } from "./shortcuts";
import { ActionView } from "./view/action";
import { ApiView } from "./view/api";
import { BulkView, bulkStream } from "./view/bulk";
import { ConfigView } from "./view/config";
import { DeadView } from "./view/dead";
import { EventsView } from "./view/events";
import { ExplainView } from "./view/explain";
import { FailureGuard } from "./view/failure_guard";
import { JobView } from "./view/job";
import { JobsView } from "./view/jobs";
import { Overview, overviewStream } from "./view/overview";
import { Shell } from "./view/shell";
import { TenantView } from "./view/tenant";

const VIEWS: Record<string, () => preact.ComponentChild> = {
  overview: Overview,
  api: ApiView,
  bulk: BulkView,
  tenant: TenantView,
  action: ActionView,
  jobs: JobsView,
  job: JobView,
  dead: DeadView,
  explain: ExplainView,
  events: EventsView,
  config: ConfigView,
};

function Page() {
  const { view, name } = route.value;
  const View = VIEWS[view] ?? Overview;
  const key = `${view} ${name}`;
  return (
    <Shell>
      <FailureGuard key={key}>
        <View />
      </FailureGuard>
    </Shell>
  );
}

/** Address of the stream that a view needs. */
function streamOf(): string {
  const { view, name } = route.value;
  switch (view) {
    case "overview":
      return overviewStream();
    case "api":
      return address("/v1/stream", { view: `api:${name}` });
    case "bulk":
      return bulkStream();
    case "events":
      return "/v1/stream?view=events";
    default:
      return "/v1/stream?view=menu";
  }
}

function titleOf(): string {
  const { view, name } = route.value;
  const word = view.charAt(0).toUpperCase() + view.slice(1);
  const stopped =
    shown.value?.menu.apis.filter((api) => api.state === "Sleep" || api.state === "CacheOnly").length ?? 0;
  return `${stopped ? `(${stopped}) ` : ""}${name || word} – Outflow`;
}

followHash();
followKeys();
followVisibility();
effect(() => {
  const path = streamOf();
  untracked(() => watch(path));
});
effect(() => {
  document.title = titleOf();
});
const place = computed(() => `${route.value.view} ${route.value.name}`);
// A new view starts at its top; parameters of a view keep the place.
place.subscribe(() => {
  scrollTo(0, 0);
  if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
});
const root = document.getElementById("app");
if (root) render(<Page />, root);
