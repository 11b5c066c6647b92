// Address of a view in the fragment: `#/jobs?state=dead`.

import { computed, signal } from "@preact/signals";

/** View with its name and parameters. */
export interface Route {
  view: string;
  name: string;
  /** Further part, such as the tenant in `#/bulk/tenants/acme`. */
  query: URLSearchParams;
}

/** Parses a fragment. An unknown view is the overview. */
export function parseRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const parts = path.split("/").map(decode);
  const query = new URLSearchParams(search);
  const [first = "", second = "", third = ""] = parts;
  if (first === "bulk" && (second === "tenants" || second === "actions") && third) {
    return { view: second === "tenants" ? "tenant" : "action", name: third, query };
  }
  if (first === "apis" && second) return { view: "api", name: second, query };
  if (first === "jobs" && second) return { view: "job", name: second, query };
  return { view: VIEWS.includes(first) ? first : "overview", name: "", query };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const VIEWS = ["overview", "bulk", "jobs", "dead", "explain", "events", "config"];

const hash = signal(typeof location === "undefined" ? "" : location.hash);
export const route = computed(() => parseRoute(hash.value));

/** Follows the address bar. */
export function followHash(): void {
  addEventListener("hashchange", () => {
    hash.value = location.hash;
  });
}

const part = encodeURIComponent;
export const toApi = (name: string): string => `#/apis/${part(name)}`;
export const toJob = (id: string): string => `#/jobs/${part(id)}`;
export const toTenant = (name: string): string => `#/bulk/tenants/${part(name)}`;
export const toAction = (name: string): string => `#/bulk/actions/${part(name)}`;
export const toCall = (id: string): string => `#/explain?id=${part(id)}`;
export const to = (view: string, query: Record<string, string> = {}): string => {
  const text = new URLSearchParams(query).toString();
  return `#/${view}${text ? `?${text}` : ""}`;
};

/** Changes parameters of the current view without a new entry in the history of the tab. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  const path = location.hash.replace(/^#?/, "#").split("?")[0] || "#/overview";
  history.replaceState(null, "", text ? `${path}?${text}` : path);
  hash.value = location.hash;
}
