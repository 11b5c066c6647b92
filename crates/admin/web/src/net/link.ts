// Connection to the event stream: opens it, reads it, and reconnects.

import { signal } from "@preact/signals";
import type { Frame } from "../api";
import { apply, clear } from "../model/store";
import { reconnectDelay } from "./backoff";
import { FrameParser } from "./frames";
import { describe, needsToken, open, readProblem, RequestError } from "./request";

/** State of the connection. */
export type LinkState =
  | { phase: "connecting" }
  | { phase: "live" }
  | { phase: "lost"; since: number; retryAt: number; why: string }
  | { phase: "refused"; why: string; problem: string }
  | { phase: "hidden" };

export const link = signal<LinkState>({ phase: "connecting" });

let address = "";
let lastId = "";
let lastAddress = "";
let failures = 0;
let lostSince = 0;
let abort: AbortController | null = null;
let retryTimer: number | undefined;
let hiddenTimer: number | undefined;

/** Shows another view: opens its stream and closes the one before. */
export function watch(path: string): void {
  if (path === address) return;
  address = path;
  reopen();
}

/** Connects again at once, for example with a new token. */
export function reopen(): void {
  failures = 0;
  lostSince = 0;
  if (document.hidden && link.value.phase === "hidden") return;
  connect();
}

function connect(): void {
  window.clearTimeout(retryTimer);
  abort?.abort();
  const controller = new AbortController();
  abort = controller;
  if (lostSince === 0) link.value = { phase: "connecting" };
  void run(address, controller.signal);
}

async function run(path: string, signal: AbortSignal): Promise<void> {
  try {
    const headers: Record<string, string> = lastId && lastAddress === path ? { "Last-Event-ID": lastId } : {};
    const response = await open({ method: "GET", path }, signal, headers);
    if (response.status === 401) return clear();
    if (!response.ok || !response.body) throw await readProblem(response);
    needsToken.value = false;
    lastAddress = path;
    await receive(response.body, signal);
    throw new Error("the stream ended");
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

async function receive(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
  const parser = new FrameParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done || signal.aborted) return;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) {
      lastId = event.id;
      accept({ event: event.event, data: JSON.parse(event.data) } as Frame);
    }
  }
}

function accept(frame: Frame): void {
  if (frame.event === "hello") {
    failures = 0;
    lostSince = 0;
    link.value = { phase: "live" };
  }
  apply(frame);
}

function fail(error: unknown): void {
  if (error instanceof RequestError && error.status >= 400 && error.status < 500) {
    link.value = { phase: "refused", why: error.message, problem: error.problem };
    return;
  }
  const now = Date.now();
  const delay = reconnectDelay(failures, Math.random());
  failures += 1;
  lostSince ||= now;
  link.value = { phase: "lost", since: lostSince, retryAt: now + delay, why: describe(error) };
  retryTimer = window.setTimeout(connect, delay);
}

/** A hidden tab closes its stream after a minute and opens it again when it is shown. */
function onVisibility(): void {
  window.clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = window.setTimeout(rest, HIDDEN_AFTER);
  else if (link.value.phase === "hidden") {
    link.value = { phase: "connecting" };
    connect();
  }
}

function rest(): void {
  window.clearTimeout(retryTimer);
  abort?.abort();
  link.value = { phase: "hidden" };
}

const HIDDEN_AFTER = 60_000;

/** Starts to follow the visibility of the tab. */
export function followVisibility(): void {
  document.addEventListener("visibilitychange", onVisibility);
}
