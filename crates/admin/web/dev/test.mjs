// Bundles the unit tests and runs them with Node's own test runner.

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "outflow-web-"));
const tests = (await readdir(join(ROOT, "test"))).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: ROOT,
  entryPoints: tests.map((name) => `test/${name}`),
  outdir: folder,
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
  tsconfig: "tsconfig.json",
});
const { status } = spawnSync(
  process.execPath,
  ["--test", ...tests.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")))],
  { stdio: "inherit", env: { ...process.env, TZ: "UTC" } },
);
await rm(folder, { recursive: true });
process.exitCode = status ?? 1;
