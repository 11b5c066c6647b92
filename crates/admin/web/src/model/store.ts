// Model that the page shows. Frames are applied at once and shown once a second; a frozen page shows none.

import { batch, signal } from "@preact/signals";
import type { Frame } from "../api";
import { type Model, reduce } from "./reduce";

/** Model on the screen. */
export const shown = signal<Model | null>(null);

/** True while the operator has frozen the page. */
export const frozen = signal(false);

/** Last state change, for screen readers. */
export const announcement = signal("");

let current: Model | null = null;
let timer: number | undefined;

/** Applies a frame. A tick completes a second and is shown with all frames before it. */
export function apply(frame: Frame): void {
  current = reduce(current, frame);
  if (frame.event === "change" && frame.data.state && frame.data.api) {
    announcement.value = `${frame.data.api} is now ${frame.data.state}: ${frame.data.text}`;
  }
  if (frame.event === "hello" || frame.event === "tick") show();
  else timer ??= window.setTimeout(show, 1000);
}

/** Shows the current model, unless the page is frozen. */
function show(): void {
  window.clearTimeout(timer);
  timer = undefined;
  if (!frozen.value) shown.value = current;
}

/** Forgets everything, for example when the program asks for a token. */
export function clear(): void {
  current = null;
  batch(() => {
    shown.value = null;
    announcement.value = "";
  });
}

/** Freezes or thaws the page. */
export function toggleFreeze(): void {
  frozen.value = !frozen.value;
  if (!frozen.value) show();
}
