// Plays the admin API with invented data, to work on the page without the program.
//
// `node dev/server.mjs [port]`; with the variable TOKEN set, it asks for that token.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { detail, queue } from "./fixture/api_detail.mjs";
import { apis, history } from "./fixture/apis.mjs";
import {
  actions,
  bulk,
  bulkHistory,
  bulkSlot,
  failures,
  machines,
  stepTenants,
  tenantPage,
  tenants,
} from "./fixture/bulk.mjs";
import { chance } from "./fixture/chance.mjs";
import { audit, changes, config } from "./fixture/changes.mjs";
import { call, dead, job, jobs, recent, story } from "./fixture/jobs.mjs";

const PAGE = new URL("../../src/page/", import.meta.url);
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const FILES = {
  "/": ["app.html", "text/html; charset=utf-8"],
  "/app.js": ["app.js", "text/javascript; charset=utf-8"],
  "/app.css": ["app.css", "text/css; charset=utf-8"],
  "/icon.svg": ["icon.svg", "image/svg+xml"],
};
const OVERVIEW = ["sent", "effective_per_s", "throttled", "cache"];
const ALL = [
  "sent",
  "ok",
  "throttled",
  "server",
  "network",
  "other",
  "refused",
  "cache",
  "retries",
  "waiting",
  "in_flight",
  "effective_per_s",
  "wait_p50_ms",
  "wait_p95_ms",
  "latency_p50_ms",
  "latency_p95_ms",
];

const MOST = 60;
const started = Date.now();
const past = changes(started);
const random = chance(3);
const streams = new Set();
const SEVERITY = { Normal: 0, Throttle: 1, HalfOpen: 2, Sleep: 3, CacheOnly: 4 };

/** Worst first, as the contract says. */
const rankOf = (row) =>
  SEVERITY[row.state] >= 3
    ? 0
    : row.state !== "Normal"
      ? 1
      : ["concurrency", "adaptive", "foreign", "cooldown"].includes(row.slow.code)
        ? 2
        : row.slow.code === "idle"
          ? 4
          : 3;
const waitingOf = (row) => row.waiting + row.jobs;
const rows = (now) =>
  apis
    .map((api) => api.row(now))
    .sort(
      (one, other) =>
        rankOf(one) - rankOf(other) ||
        waitingOf(other) - waitingOf(one) ||
        other.error_ppm - one.error_ppm ||
        (one.name < other.name ? -1 : 1),
    );
const program = () => ({
  version: "0.2.0",
  started: started - 11_520_000,
  listen: "127.0.0.1:7070",
  machine: "worker-1",
  memory_bytes: 17_000_000,
  pages: streams.size + 1,
  has_bulk: true,
});
const menu = (now) => ({
  apis: rows(now)
    .slice(0, MOST)
    .map(({ name, state, held, waiting, jobs }) => ({ name, state, held: held != null, waiting: waiting + jobs })),
  api_count: apis.length,
  queued: 12_408,
  dead: 143,
});

function totals(now) {
  const all = rows(now);
  const sum = (name) => all.reduce((one, row) => one + row.recent[name], 0);
  return {
    calls_per_s: all.reduce((one, row) => one + row.rate.sent_per_s, 0),
    peak_per_s: 38.2,
    peak_at: now - 780_000,
    waiting: all.reduce((one, row) => one + row.waiting, 0),
    longest_wait_ms: 7700,
    calls: sum("calls"),
    throttled: sum("throttled"),
    failed: sum("failed"),
    sent: sum("sent"),
    cache: sum("cache"),
    worst: "geocode",
  };
}

function hello(query, now) {
  const view = query.get("view");
  const base = { view, at: now, program: program(), menu: menu(now) };
  if (view === "overview") {
    const range = Number(query.get("range_ms") ?? 900_000);
    return {
      ...base,
      totals: totals(now),
      apis: rows(now).slice(0, MOST),
      history: history(
        rows(now)
          .slice(0, MOST)
          .map((row) => row.name),
        OVERVIEW,
        range <= 60_000 ? 1000 : range <= 300_000 ? 5000 : 10_000,
        now,
      ),
      bulk: bulk(),
      changes: past.slice(0, 20),
    };
  }
  if (view === "bulk") {
    const page = tenantPage({
      sort: query.get("sort") ?? "queued",
      q: query.get("q") ?? "",
      offset: Number(query.get("offset") ?? 0),
      most: Number(query.get("most") ?? 50),
    });
    return {
      ...base,
      bulk: bulk(),
      tenants: page,
      actions: actions(now),
      failures: failures(now),
      machines: machines(),
      history: { t0: now - 900_000, step_ms: 1000, apis: {}, bulk: bulkHistory() },
      apis: rows(now),
    };
  }
  if (view === "events") {
    const minute = {
      sent: [],
      ok: [],
      cache: [],
      throttled: [],
      server: [],
      network: [],
      other: [],
      refused: [],
      state: "N".repeat(60),
    };
    for (let index = 0; index < 60; index++)
      for (const name of Object.keys(minute))
        if (name !== "state")
          minute[name].push(apis.reduce((all, api) => all + (api.slots[840 + index][name] ?? 0), 0));
    return {
      ...base,
      changes: past,
      calls: Array.from({ length: 60 }, (_, index) => call(now - index * 150, index, random)),
      history: { t0: now - 60_000, step_ms: 1000, apis: { "*": minute }, bulk: null },
    };
  }
  const api = apis.find((one) => `api:${one.name}` === view);
  if (api)
    return {
      ...base,
      api: detail(api, now),
      queue: queue(api, now),
      history: history([api.name], ALL, 1000, now),
      changes: past.filter((change) => change.api === api.name),
    };
  return view === "menu" ? base : null;
}

function tick(query, now) {
  const view = query.get("view");
  if (view === "overview")
    return {
      at: now,
      slots: Object.fromEntries(
        apis.slice(0, MOST).map((api) => [api.name, pick(api.slots.at(-1), [...OVERVIEW, "state"])]),
      ),
      totals: totals(now),
      apis: rows(now).slice(0, MOST),
      order: rows(now)
        .slice(0, MOST)
        .map((row) => row.name),
      menu: menu(now),
    };
  if (view === "bulk") return { at: now, bulk_slot: bulkSlot(), bulk: { rate_per_s: 14 + random.next() } };
  const api = apis.find((one) => `api:${one.name}` === view);
  if (api) return { at: now, slots: { [api.name]: api.slots.at(-1) }, api: detail(api, now), queue: queue(api, now) };
  return { at: now };
}

const pick = (object, names) => Object.fromEntries(names.map((name) => [name, object[name]]));

function write(response, event, data, now) {
  response.write(`id: ${now}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

setInterval(() => {
  const now = Date.now();
  for (const api of apis) api.step();
  stepTenants();
  for (const { query, response } of streams) {
    if (query.get("view") === "events") {
      const samples = Array.from({ length: 10 }, (_, index) => call(now, index, random));
      write(
        response,
        "calls",
        {
          at: now,
          total: 31,
          counts: { ok: 26, cache: 8, failed: random.next() < 0.3 ? 3 : 0, throttled: 0, refused: 0 },
          samples,
        },
        now,
      );
    }
    if (query.get("view") === "bulk" && !query.get("q") && !query.get("offset")) {
      const page = tenantPage({ sort: query.get("sort") ?? "queued", most: Number(query.get("most") ?? 50) });
      write(
        response,
        "tenants",
        {
          rows: page.tenants.slice(0, 8),
          order: page.tenants.map((row) => row.tenant),
          matched: page.matched,
          total: page.total,
          offset: 0,
        },
        now,
      );
    }
    write(response, "tick", tick(query, now), now);
  }
}, 1000);

const json = (response, value, status = 200) => {
  response.writeHead(status, { "Content-Type": status < 400 ? "application/json" : "application/problem+json" });
  response.end(JSON.stringify(value));
};
const problem = (response, status, name, detail) =>
  json(response, { type: `urn:outflow:problem:${name}`, title: "Failed", status, detail }, status);

function read(path, query, now) {
  const name = decodeURIComponent(path.split("/").pop());
  if (path === "/v1/bulk/dead") return dead(query, now);
  if (path === "/v1/bulk/jobs") return jobs(query.get("state") ?? "queued", now);
  if (path.startsWith("/v1/bulk/jobs/")) return name.includes("unknown") ? null : job(name, now);
  if (path.startsWith("/v1/bulk/tenants/")) return tenants.find((row) => row.tenant === name);
  if (path.startsWith("/v1/bulk/actions/")) return actions(now).actions.find((row) => row.id === name);
  if (path === "/v1/bulk/failures") return failures(now);
  if (path === "/v1/calls") return recent(now);
  if (path.startsWith("/v1/calls/")) return name.includes("unknown") ? null : story(name, now);
  if (path === "/v1/changes")
    return {
      changes: past.filter(
        (one) =>
          `${one.api} ${one.text} ${one.tenant}`.includes(query.get("q") ?? "") &&
          (!query.get("api") || one.api === query.get("api")),
      ),
      next: null,
      counts: {},
    };
  if (path === "/v1/config") return config(started);
  if (path === "/v1/audit") return audit(started);
  if (path === "/v1/explain")
    return {
      api: query.get("api"),
      group: "default",
      endpoint: null,
      cost: 1,
      state: "Throttle",
      decision: "wait",
      delay_ms: 7700,
      retry_after_ms: null,
      why: "limit",
      refusal: null,
      limit: "300/min",
      configured: "600/min",
      position: 46,
      bound: null,
      text: "it waits for limit 300/min",
    };
  return null;
}

const EFFECTS = {
  health: [
    ["refused", "46 waiting calls will be refused with 503.", "red"],
    ["finish", "12 calls in flight will finish.", ""],
    ["cache", "The cache keeps answering: 12 % of calls lately.", ""],
  ],
  variables: [
    ["applies", "The limit applies to the next call; calls in flight are not affected.", ""],
    ["drain", "The queue of 46 would drain in 4.1 s.", ""],
  ],
  cancel: [["jobs", "792 queued jobs will end as cancelled; 1 in flight will finish.", "red"]],
  purge: [["letters", "14 dead letters will be deleted with their payloads.", "red"]],
  retry: [["jobs", "14 jobs will be queued; they count for nightly-sync, which still runs.", ""]],
  pause: [["jobs", "4,102 queued jobs will wait; 1 in flight will finish.", "amber"]],
};

async function change(request, response, path, query) {
  let body = "";
  for await (const piece of request) body += piece;
  const asked = body ? JSON.parse(body) : Object.fromEntries(query);
  const operation = path.split("/").pop();
  if (asked.variable && asked.value === "")
    return problem(response, 422, "configuration", "`limits` is empty: write a rate such as 600/min");
  if (asked.dry) {
    const effects = (EFFECTS[operation] ?? [["change", "It takes effect at once.", ""]]).map(([code, text, tone]) => ({
      code,
      text,
      tone,
    }));
    return json(response, {
      dry: true,
      effects,
      count: operation === "cancel" ? 792 : operation === "purge" ? 14 : null,
    });
  }
  const api = apis.find((one) => path.includes(`/apis/${encodeURIComponent(one.name)}/`));
  if (api && operation === "health") {
    const isRelease = request.method === "DELETE";
    api.overridden = isRelease
      ? undefined
      : {
          held: asked.state,
          state: { cache_only: "CacheOnly", offline: "Sleep", throttle: "Throttle", normal: "Normal" }[asked.state],
        };
    api.released = isRelease;
  }
  const paused = tenants.find((row) => path.includes(`/tenants/${encodeURIComponent(row.tenant)}/`));
  if (paused && operation !== "cancel")
    Object.assign(paused, {
      paused: operation === "pause",
      paused_by: operation === "pause" ? `127.0.0.1: “${asked.reason}”` : null,
    });
  return json(response, {
    what: operation,
    jobs: 14,
    line: operation === "variables" ? `${asked.variable} = "${asked.value}"` : undefined,
    changed: ["shop"],
    restart: [],
  });
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  const now = Date.now();
  response.setHeader("Content-Security-Policy", POLICY);
  const file = FILES[url.pathname];
  if (file) {
    response.setHeader("Content-Type", file[1]);
    return response.end(await readFile(new URL(file[0], PAGE)));
  }
  if (process.env.TOKEN && request.headers.authorization !== `Bearer ${process.env.TOKEN}`)
    return problem(response, 401, "unauthorized", "a token is required");
  if (request.method !== "GET") return change(request, response, url.pathname, url.searchParams);
  if (url.pathname !== "/v1/stream") {
    const value = read(url.pathname, url.searchParams, now);
    return value ? json(response, value) : problem(response, 404, "not_found", "nothing has this name: check it");
  }
  const stream = { query: url.searchParams, response };
  const first = hello(url.searchParams, now);
  if (!first)
    return problem(response, 404, "unknown_api", "no API has this name: `outflow status` or GET /v1/apis lists them");
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  streams.add(stream);
  response.on("close", () => streams.delete(stream));
  write(response, "hello", first, now);
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${server.address().port}`),
);
