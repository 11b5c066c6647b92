// Keys of the page.

import { signal } from "@preact/signals";
import { openChange } from "./dialog/change";
import { shown, toggleFreeze } from "./model/store";
import { route, toApi } from "./route";

export const helpIsOpen = signal(false);

const VIEWS: Record<string, string> = {
  g: "overview",
  b: "bulk",
  j: "jobs",
  d: "dead",
  x: "explain",
  e: "events",
  c: "config",
};

/** Keys with their effects, as the help shows them. */
export const SHORTCUTS: [string, string][] = [
  ["space", "freeze the page, or continue"],
  ["/", "search"],
  ["g", "overview"],
  ["b", "bulk"],
  ["j", "jobs"],
  ["d", "dead letters"],
  ["x", "explain"],
  ["e", "events"],
  ["c", "configuration"],
  ["[ ]", "previous, next API"],
  ["?", "this list"],
  ["esc", "close a dialog"],
];

export function followKeys(): void {
  addEventListener("keydown", onKey);
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || openChange.value || helpIsOpen.value) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
  const key = event.key;
  // Space on a button or a link is a press of it.
  if (key === " " && !/^(BUTTON|A|SUMMARY)$/.test(target.tagName)) toggleFreeze();
  else if (key === "/") focusSearch();
  else if (key === "?") helpIsOpen.value = true;
  else if (key === "[" || key === "]") step(key === "]" ? 1 : -1);
  else if (VIEWS[key]) location.hash = `#/${VIEWS[key]}`;
  else return;
  event.preventDefault();
}

function focusSearch(): void {
  document.querySelector<HTMLInputElement>("main input.q")?.focus();
}

function step(by: number): void {
  const names = shown.value?.menu.apis.map((api) => api.name) ?? [];
  if (!names.length) return;
  const index = names.indexOf(route.value.name);
  const next = index < 0 ? 0 : (index + by + names.length) % names.length;
  location.hash = toApi(names[next] ?? "");
}
