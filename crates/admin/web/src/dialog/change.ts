// Description of a change that an operator can make, and the dialog that is open.

import { signal } from "@preact/signals";
import type { ApiRequest } from "../net/request";

/** Input of a dialog. */
export interface Field {
  name: string;
  label: string;
  value: string;
  options?: { value: string; label: string }[];
  /** Note below the input. */
  note?: string;
  required?: boolean;
}

export type FieldValues = Record<string, string>;

/** What the operator confirmed, beside the fields. */
export interface Confirmation {
  reason: string;
  dry: boolean;
  /** Number of objects that the operator saw; for cancel and delete. */
  expect: number | null;
}

export interface ChangeSpec {
  title: string;
  intro?: string;
  fields?: Field[];
  /** Button that makes the change. */
  verb: string;
  isDangerous?: boolean;
  needsReason?: boolean;
  /** The operator types the number of objects. */
  asksCount?: boolean;
  request: (values: FieldValues, confirmation: Confirmation) => ApiRequest;
  /** Sentence after the change, from its answer. */
  done?: (answer: Record<string, unknown>, values: FieldValues) => string;
  /** Runs after the change, for example to read a list again. */
  after?: () => void;
}

/** Change whose dialog is open. */
export const openChange = signal<ChangeSpec | null>(null);

/** Result of the last change, shown for a while. */
export const notice = signal("");

let noticeTimer: number | undefined;

export function announce(text: string): void {
  notice.value = text;
  window.clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => {
    notice.value = "";
  }, 12_000);
}

/** Body of a change; members without a value are left out. */
export function changeBody(
  members: Record<string, unknown>,
  { reason, dry, expect }: Confirmation,
): Record<string, unknown> {
  const body: Record<string, unknown> = { ...members };
  if (reason) body["reason"] = reason;
  if (dry) body["dry"] = true;
  else if (expect != null) body["expect"] = expect;
  return body;
}
