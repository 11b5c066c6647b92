// Filter of calls: words, and fields such as `api:openai status:5xx waited>1s`.

import type { CallRow } from "../api";

/** Parsed filter. */
export interface CallFilter {
  api: string;
  status: string;
  waitedOver: number | null;
  tookOver: number | null;
  words: string[];
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, min: 60_000 };

/** Parses a filter. What is no known field is a word. */
export function parseCallFilter(text: string): CallFilter {
  const filter: CallFilter = { api: "", status: "", waitedOver: null, tookOver: null, words: [] };
  for (const part of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const over = /^(waited|took)>(\d+(?:\.\d+)?)(ms|s|m|min)?$/.exec(part);
    if (part.startsWith("api:")) filter.api = part.slice(4);
    else if (part.startsWith("status:")) filter.status = part.slice(7);
    else if (over)
      filter[over[1] === "waited" ? "waitedOver" : "tookOver"] = Number(over[2]) * (UNITS[over[3] ?? "ms"] ?? 1);
    else filter.words.push(part);
  }
  return filter;
}

/** Returns true if the call is one that the filter asks for. */
export function matchesCall(call: CallRow, filter: CallFilter): boolean {
  if (filter.api && call.api.toLowerCase() !== filter.api) return false;
  if (filter.status && ![call.status, String(call.code), call.reason, call.kind].includes(filter.status)) return false;
  if (filter.waitedOver != null && call.waited_ms <= filter.waitedOver) return false;
  if (filter.tookOver != null && call.latency_ms <= filter.tookOver) return false;
  const { api, group, method, path, status, code, reason, text, request_id } = call;
  const all = [api, group, method, path, status, code, reason, text, request_id].join(" ").toLowerCase();
  return filter.words.every((word) => all.includes(word));
}
