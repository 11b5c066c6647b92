// Dashboard: shows one stream of snapshots and events. All data is set as text, never as markup, and the
// token stays in the memory of this tab.
"use strict";

const byId = (id) => document.getElementById(id);
const MAX_EVENTS = 100;
const HIDDEN_EVENTS = new Set(["waiting", "admitted", "settled", "refunded", "cache", "snapshot"]);
let token = "";

function element(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = String(text);
  if (kind) node.className = kind;
  return node;
}

function formatPercent(ppm) {
  return (ppm / 10000).toFixed(1) + " %";
}

function formatDuration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return ms + " ms";
  if (ms < 120000) return (ms / 1000).toFixed(1) + " s";
  return Math.round(ms / 60000) + " min";
}

function limitRow(limit, owner) {
  const row = element("div", undefined, "limit");
  const name = limit.effective === limit.configured
    ? limit.effective
    : limit.effective + " of " + limit.configured;
  row.append(element("span", owner + name), element("span", limit.used + " / " + limit.capacity));
  const bar = element("meter");
  bar.max = Math.max(limit.capacity, 1);
  bar.value = Math.min(limit.used, bar.max);
  bar.high = bar.max * 0.8;
  row.append(bar);
  return row;
}

function healthTitle(health, name) {
  const title = element("h2", health.group ?? name);
  const badge = element("span", health.held ? health.state + ", held" : health.state, "state");
  badge.dataset.state = health.state;
  title.append(badge);
  return title;
}

function factList(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value));
  return list;
}

function formatRate(health) {
  if (!health.rate) return "–";
  const of = health.rate === health.configured_rate ? "" : " of " + health.configured_rate;
  const owner = health.rate_group && health.rate_group !== health.group ? " (" + health.rate_group + ")" : "";
  return health.rate + of + owner;
}

function apiCard(api) {
  const box = element("article");
  box.dataset.api = api.name;
  for (const health of api.health) {
    box.append(healthTitle(health, api.name));
    box.append(factList([
      ["waiting", api.waiting],
      ["in flight", health.in_flight + " / " + health.concurrency],
      ["rate", formatRate(health)],
      ["errors", formatPercent(health.error_ppm)],
      ["429s", health.counts.throttled],
      ["since", formatDuration(health.since_ms)],
      ["opens in", health.until_ms ? formatDuration(health.until_ms) : "–"],
    ]));
    if (health.why) box.append(element("p", health.why));
  }
  for (const limit of api.limits) box.append(limitRow(limit, ""));
  for (const group of api.groups) {
    for (const limit of group.limits) box.append(limitRow(limit, group.name + "  "));
  }
  return box;
}

function showSnapshot(snapshot) {
  byId("apis").replaceChildren(...snapshot.apis.map(apiCard));
  byId("about").textContent = "version " + snapshot.version + ", up " + formatDuration(snapshot.uptime_ms);
}

function addEvent(name, event) {
  if (HIDDEN_EVENTS.has(name)) return;
  const { at, api, event: _name, ...rest } = event;
  const fields = Object.entries(rest).filter(([, value]) => value !== null);
  const line = fields.map(([key, value]) => key + "=" + value).join(" ");
  const time = at ? new Date(at).toLocaleTimeString() + " " : "";
  const list = byId("events");
  list.prepend(element("li", time + name + " " + (api ?? "") + " " + line));
  while (list.childElementCount > MAX_EVENTS) list.lastElementChild.remove();
}

function handleBlock(block) {
  let name = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return;
  const value = JSON.parse(data);
  if (name === "snapshot") showSnapshot(value);
  addEvent(name, value);
}

async function readStream(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    blocks.forEach(handleBlock);
  }
}

async function watch() {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const response = await fetch("/v1/events?snapshot_ms=1000", { headers });
  if (response.status === 401) {
    byId("ask").hidden = false;
    byId("about").textContent = token ? "this token is wrong" : "a token is required";
    return;
  }
  if (!response.ok) throw new Error("status " + response.status);
  byId("ask").hidden = true;
  await readStream(response.body);
  throw new Error("the stream ended");
}

// A restarted program is available again after a moment.
async function connect() {
  try {
    await watch();
  } catch (error) {
    byId("about").textContent = "not connected (" + error.message + "), retrying";
    setTimeout(connect, 2000);
  }
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  byId("token").value = "";
  connect();
});

connect();
