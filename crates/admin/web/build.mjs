// Builds the page into crates/admin/src/page: the same bytes from the same source and lockfile.
//
// `--check` builds in memory and fails if the committed files differ, or if the page is above its budget.

import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PAGE = fileURLToPath(new URL("../src/page/", import.meta.url));
const BUDGET = 60_000;

async function bundle() {
  const { outputFiles } = await build({
    absWorkingDir: HERE,
    entryPoints: { app: "src/main.tsx", style: "src/style/app.css" },
    outdir: "out",
    bundle: true,
    write: false,
    minify: true,
    format: "iife",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    charset: "utf8",
    legalComments: "none",
    tsconfig: "tsconfig.json",
    logLevel: "warning",
  });
  const text = (end) => outputFiles.find((file) => file.path.endsWith(end)).text;
  return {
    "app.html": await readFile(`${HERE}static/app.html`, "utf8"),
    "app.js": text("app.js"),
    "app.css": text("style.css"),
    "icon.svg": await readFile(`${HERE}static/icon.svg`, "utf8"),
  };
}

/** Returns the size of all files as a server would send them. */
function report(files) {
  let all = 0;
  for (const [name, text] of Object.entries(files)) {
    const [plain, packed] = [Buffer.byteLength(text), gzipSync(text, { level: 9 }).length];
    all += packed;
    console.log(`${name}: ${plain} bytes, ${packed} gzipped`);
  }
  console.log(`all: ${all} of ${BUDGET} bytes gzipped`);
  return all;
}

const files = await bundle();
const size = report(files);
if (size > BUDGET) {
  console.error(`the page is above its budget of ${BUDGET} bytes: remove something`);
  process.exitCode = 1;
}
for (const [name, text] of Object.entries(files)) {
  if (!process.argv.includes("--check")) await writeFile(PAGE + name, text);
  else if ((await readFile(PAGE + name, "utf8").catch(() => "")) !== text) {
    console.error(`crates/admin/src/page/${name} is not what the source builds: run \`npm run build\` and commit it`);
    process.exitCode = 1;
  }
}
