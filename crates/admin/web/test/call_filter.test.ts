import assert from "node:assert/strict";
import { test } from "node:test";
import type { CallRow } from "../src/api";
import { matchesCall, parseCallFilter } from "../src/text/call_filter";

const call = {
  api: "openai",
  group: "chat",
  method: "POST",
  path: "/v1/embeddings",
  status: "5xx",
  code: 503,
  reason: "5xx",
  kind: "failed",
  text: "failed: 503, 3 attempts",
  request_id: "r-1",
  waited_ms: 1500,
  latency_ms: 80,
} as CallRow;

test("fields and words must all match", () => {
  const cases: [string, boolean][] = [
    ["", true],
    ["embed", true],
    ["POST 503", true],
    ["api:openai", true],
    ["api:open", false],
    ["status:5xx", true],
    ["status:503", true],
    ["status:failed", true],
    ["status:2xx", false],
    ["waited>1s", true],
    ["waited>1500ms", false],
    ["took>50", true],
    ["took>1s", false],
    ["api:openai waited>1s embed", true],
    ["api:openai chess", false],
  ];
  for (const [text, expected] of cases) assert.equal(matchesCall(call, parseCallFilter(text)), expected, text);
});
