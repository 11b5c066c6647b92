// The live page: one stream of snapshots and events, shown as text. Nothing that comes in is ever
// taken as markup, and the token stays in this tab's memory.
"use strict";

const byId = (id) => document.getElementById(id);
const KEPT_EVENTS = 100;
const QUIET = new Set(["waiting", "admitted", "settled", "refunded", "cache", "snapshot"]);
let token = "";

function made(tag, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = String(text);
  if (kind) node.className = kind;
  return node;
}

function percent(ppm) {
  return (ppm / 10000).toFixed(1) + " %";
}

function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return ms + " ms";
  if (ms < 120000) return (ms / 1000).toFixed(1) + " s";
  return Math.round(ms / 60000) + " min";
}

function limit(of, owner) {
  const row = made("div", undefined, "limit");
  const name = of.effective === of.configured ? of.effective : of.effective + " of " + of.configured;
  row.append(made("span", owner + name), made("span", of.used + " / " + of.capacity));
  const bar = made("meter");
  bar.max = Math.max(of.capacity, 1);
  bar.value = Math.min(of.used, bar.max);
  bar.high = bar.max * 0.8;
  row.append(bar);
  return row;
}

function state(health, card) {
  const title = made("h2", health.group ?? card);
  const badge = made("span", health.held ? health.state + ", held" : health.state, "state");
  badge.dataset.state = health.state;
  title.append(badge);
  return title;
}

function facts(pairs) {
  const list = made("dl");
  for (const [name, value] of pairs) list.append(made("dt", name), made("dd", value));
  return list;
}

function card(api) {
  const box = made("article");
  box.dataset.api = api.name;
  for (const health of api.health) {
    box.append(state(health, api.name));
    box.append(facts([
      ["waiting", api.waiting],
      ["in flight", health.in_flight + " / " + health.concurrency],
      ["errors", percent(health.error_ppm)],
      ["429s", health.counts.throttled],
      ["since", span(health.since_ms)],
      ["opens in", health.until_ms ? span(health.until_ms) : "–"],
    ]));
  }
  for (const one of api.limits) box.append(limit(one, ""));
  for (const group of api.groups) {
    for (const one of group.limits) box.append(limit(one, group.name + "  "));
  }
  return box;
}

function show(snapshot) {
  byId("apis").replaceChildren(...snapshot.apis.map(card));
  byId("about").textContent = "version " + snapshot.version + ", up " + span(snapshot.uptime_ms);
}

function tell(name, event) {
  if (QUIET.has(name)) return;
  const { at, api, event: _same, ...rest } = event;
  const words = Object.entries(rest).filter(([, value]) => value !== null);
  const line = words.map(([key, value]) => key + "=" + value).join(" ");
  const time = at ? new Date(at).toLocaleTimeString() + " " : "";
  const list = byId("events");
  list.prepend(made("li", time + name + " " + (api ?? "") + " " + line));
  while (list.childElementCount > KEPT_EVENTS) list.lastElementChild.remove();
}

function heard(block) {
  let name = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!data) return;
  const value = JSON.parse(data);
  if (name === "snapshot") show(value);
  tell(name, value);
}

async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    blocks.forEach(heard);
  }
}

async function watch() {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch("/v1/events?snapshot_ms=1000", { headers });
  if (answer.status === 401) {
    byId("ask").hidden = false;
    byId("about").textContent = token ? "that was not the token" : "a token is needed";
    return;
  }
  if (!answer.ok) throw new Error("status " + answer.status);
  byId("ask").hidden = true;
  await read(answer.body);
  throw new Error("the stream ended");
}

// A program that is being restarted is back in a moment.
async function stay() {
  try {
    await watch();
  } catch (error) {
    byId("about").textContent = "not connected (" + error.message + "), trying again";
    setTimeout(stay, 2000);
  }
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  byId("token").value = "";
  stay();
});

stay();
