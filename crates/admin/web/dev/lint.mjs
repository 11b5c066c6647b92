// Refuses source that could put data into the page as markup or code, or reach another host.

import { readdir, readFile } from "node:fs/promises";

const ROOT = new URL("../", import.meta.url);
const RULES = [
  [/\b(inner|outer)HTML\b|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write/, "sets markup from text"],
  [/\beval\(|new Function\(/, "runs text as code"],
  [/<[^>]*\bstyle="/, "has a style attribute: use a class, or a style object"],
  [/<script(?![^>]*\bsrc=)[^>]*>/, "has an inline script"],
  [/\bon[a-z]+="/, "has an inline handler"],
  [/localStorage|sessionStorage|document\.cookie/, "stores data in the browser"],
  [/["'`]https?:\/\/(?!\$)/, "names another host"],
];
const ALLOWED_LINES = 400;

let faults = 0;
function report(path, line, text) {
  faults += 1;
  console.error(`crates/admin/web/${path}:${line}: ${text}`);
}

for (const folder of ["src", "static"]) {
  for (const name of await readdir(new URL(folder, ROOT), { recursive: true })) {
    if (!/\.(tsx?|css|html|svg)$/.test(name)) continue;
    const path = `${folder}/${name}`;
    const lines = (await readFile(new URL(path, ROOT), "utf8")).split("\n");
    if (lines.length > ALLOWED_LINES && name !== "api.ts") report(path, 1, `has ${lines.length} lines: split it`);
    lines.forEach((line, index) => {
      for (const [pattern, text] of RULES)
        if (pattern.test(line) && !line.includes("xmlns")) report(path, index + 1, text);
    });
  }
}
if (faults) process.exitCode = 1;
