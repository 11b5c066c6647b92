// All changes that the page offers.

import type { Action, Api, ApiRow, DeadLetter, Job, Slow, Tenant } from "../api";
import { address, type ApiRequest, segment } from "../net/request";
import { count, plural, rateText } from "../text/format";
import { OVERRIDES } from "../text/state";
import { changeBody, type ChangeSpec, type Field, openChange } from "./change";

const offer = (spec: ChangeSpec): void => {
  openChange.value = spec;
};

const post = (path: string, body: Record<string, unknown>): ApiRequest => ({ method: "POST", path, body });

/** Override of the state of an API. */
export function overrideApi(api: ApiRow & Partial<Api>, state = "cache_only"): void {
  const groups = (api.health ?? []).flatMap((health) => health.group ?? []);
  const options = [EVERY_GROUP, ...groups.map((group) => ({ value: group, label: group }))];
  const fields: Field[] = [
    {
      name: "state",
      label: "State",
      value: state,
      options: OVERRIDES.map(({ name, text }) => ({ value: name, label: text })),
    },
  ];
  if (groups.length) fields.push({ name: "group", label: "Group", value: "", options });
  offer({
    title: `Override the state of ${api.name}`,
    intro: `It stays until an operator releases it. Now: ${api.state}, ${count(api.waiting)} waiting, ${count(api.in_flight)} in flight.`,
    fields,
    verb: `Override ${api.name}`,
    needsReason: true,
    request: ({ state, group }, confirmation) =>
      post(`/v1/apis/${segment(api.name)}/health`, changeBody(group ? { state, group } : { state }, confirmation)),
    done: (_, { state }) => `${api.name} is overridden: ${state?.replace("_", " ")}.`,
  });
}

/** Groups with states of their own can be changed together. */
const EVERY_GROUP = { value: "", label: "every group" };

/** End of an override. */
export function releaseApi(api: ApiRow & Partial<Api>): void {
  const held = (api.health ?? []).filter((health) => health.held && health.group);
  const options = [EVERY_GROUP, ...held.map((health) => ({ value: health.group ?? "", label: health.group ?? "" }))];
  offer({
    title: `Release ${api.name}`,
    fields: held.length ? [{ name: "group", label: "Group", value: "", options }] : [],
    intro: "Outflow decides the state again from what the API answers.",
    verb: "Release",
    request: ({ group }, { reason, dry }) => ({
      method: "DELETE",
      path: address(`/v1/apis/${segment(api.name)}/health`, { group, reason, dry }),
    }),
    done: () => `${api.name} is released.`,
  });
}

/** New value of a limit or another variable. */
export function changeVariable(api: Api, variable?: string, value?: string): void {
  const known = api.variables;
  const first = known.find((one) => one.variable === variable) ?? known[0];
  const name = variable ?? first?.variable ?? "";
  const options = known.map((one) => ({ value: one.variable, label: `${one.variable} = ${rateText(one.value)}` }));
  offer({
    title: `Change a limit or a variable of ${api.name}`,
    intro: "In effect until the program ends. The file is not changed; the line to add is shown afterwards.",
    fields: [
      {
        name: "variable",
        label: "Variable",
        value: name,
        options: options.length ? options : [{ value: name, label: name }],
      },
      {
        name: "value",
        label: "New value",
        value: value ?? first?.value ?? "",
        note: "As in a configuration file, such as 80000/min.",
      },
    ],
    verb: "Change",
    needsReason: true,
    request: ({ variable, value }, confirmation) => ({
      method: "PATCH",
      path: `/v1/apis/${segment(api.name)}/variables`,
      body: changeBody({ variable, value }, confirmation),
    }),
    done: (answer, { variable, value }) =>
      typeof answer["line"] === "string"
        ? `Changed until the program ends. To keep it, add to [apis.${api.name}]: ${answer["line"]}`
        : `${variable} is ${value} until the program ends.`,
  });
}

/** Setting that the sentence of an API suggests. */
export function applySetting(api: Api, setting: NonNullable<Slow["setting"]>): void {
  changeVariable(api, setting.variable, setting.value);
}

export function reloadConfig(after: () => void): void {
  offer({
    title: "Reload the configuration",
    intro: "All or nothing: a configuration with errors changes nothing.",
    verb: "Reload",
    request: (_, confirmation) => post("/v1/reload", changeBody({}, confirmation)),
    done: (answer) => {
      const changed = ["added", "removed", "changed"].flatMap((name) => (answer[name] as string[] | undefined) ?? []);
      const restart = (answer["restart"] as string[] | undefined) ?? [];
      const what = changed.length ? `Changed: ${changed.join(", ")}.` : "Nothing changed.";
      return restart.length ? `${what} After a restart: ${restart.join(", ")}.` : what;
    },
    after,
  });
}

type Scope = { kind: "tenants" | "actions" | "jobs"; name: string; what: string };

const tenantScope = (tenant: string): Scope => ({ kind: "tenants", name: tenant, what: `tenant ${tenant}` });
const actionScope = (action: string): Scope => ({ kind: "actions", name: action, what: `action ${action}` });

function operate(scope: Scope, operation: string, spec: Omit<ChangeSpec, "request">): void {
  const path = `/v1/bulk/${scope.kind}/${segment(scope.name)}/${operation}`;
  offer({ ...spec, request: (_, confirmation) => post(path, changeBody({}, confirmation)) });
}

function pause(scope: Scope, after?: () => void): void {
  operate(scope, "pause", {
    title: `Pause ${scope.what}`,
    intro: "Workers start no more of its jobs. Those in flight finish.",
    verb: "Pause",
    needsReason: true,
    done: () => `${scope.what} is paused.`,
    ...(after && { after }),
  });
}

function resume(scope: Scope, after?: () => void): void {
  operate(scope, "resume", {
    title: `Resume ${scope.what}`,
    verb: "Resume",
    done: () => `${scope.what} runs again.`,
    ...(after && { after }),
  });
}

function cancel(scope: Scope, after?: () => void): void {
  operate(scope, "cancel", {
    title: `Cancel ${scope.what}`,
    intro: "Jobs that have not started end as cancelled. This cannot be undone.",
    verb: "Cancel jobs",
    isDangerous: true,
    needsReason: true,
    asksCount: true,
    done: (answer) => `${plural(Number(answer["jobs"] ?? 0), "job")} cancelled.`,
    ...(after && { after }),
  });
}

export const pauseTenant = (tenant: Tenant, after?: () => void): void => pause(tenantScope(tenant.tenant), after);
export const resumeTenant = (tenant: Tenant, after?: () => void): void => resume(tenantScope(tenant.tenant), after);
export const cancelTenant = (tenant: Tenant, after?: () => void): void => cancel(tenantScope(tenant.tenant), after);
export const pauseAction = (action: Action, after?: () => void): void => pause(actionScope(action.id), after);
export const resumeAction = (action: Action, after?: () => void): void => resume(actionScope(action.id), after);
export const cancelAction = (action: Action, after?: () => void): void => cancel(actionScope(action.id), after);

export function closeAction(action: Action, after?: () => void): void {
  operate(actionScope(action.id), "close", {
    title: `Close action ${action.id}`,
    intro: "It accepts no more jobs and ends when its jobs have ended.",
    verb: "Close action",
    done: () => `action ${action.id} accepts no more jobs.`,
    ...(after && { after }),
  });
}

const jobScope = (id: string): Scope => ({ kind: "jobs", name: id, what: `job ${id}` });

export function cancelJob(job: Job, after: () => void): void {
  operate(jobScope(job.id), "cancel", {
    title: `Cancel job ${job.id}`,
    intro: "It ends as cancelled. This cannot be undone.",
    verb: "Cancel job",
    isDangerous: true,
    needsReason: true,
    done: () => `job ${job.id} is cancelled.`,
    after,
  });
}

export function retryJob(job: { id: string; state: string }, after: () => void): void {
  operate(jobScope(job.id), "retry", {
    title: job.state === "delayed" ? `Retry job ${job.id} now` : `Retry job ${job.id}`,
    intro:
      job.state === "delayed"
        ? "It waits for its limits, and no longer for its backoff."
        : "It is queued again with all its retries.",
    verb: "Retry",
    done: () => `job ${job.id} is queued.`,
    after,
  });
}

export function changePriority(job: Job, after: () => void): void {
  const names = ["high", "normal", "low"];
  offer({
    title: `Change the priority of ${job.id}`,
    fields: [
      {
        name: "priority",
        label: "Priority",
        value: job.priority === "high" ? "normal" : "high",
        options: names.map((name) => ({ value: name, label: name })),
      },
    ],
    verb: "Change",
    request: ({ priority }, confirmation) =>
      post(`/v1/bulk/jobs/${segment(job.id)}/priority`, changeBody({ priority }, confirmation)),
    done: (_, { priority }) => `job ${job.id} has priority ${priority}.`,
    after,
  });
}

/** Dead letters that a dialog is about. */
export type DeadSelection =
  { jobs: string[] } | { error: string } | { tenant: string } | { action: string } | { all: true };

export function retryDead(selection: DeadSelection, what: string, after: () => void): void {
  offer({
    title: `Retry ${what}`,
    intro: "They are queued again with all their retries, under their old names.",
    verb: "Retry",
    request: (_, confirmation) => post("/v1/bulk/dead/retry", changeBody(selection, confirmation)),
    done: (answer) => `${plural(Number(answer["jobs"] ?? 0), "job")} queued again.`,
    after,
  });
}

export function deleteDead(selection: DeadSelection, what: string, after: () => void): void {
  offer({
    title: `Delete ${what}`,
    intro: "Their payloads are lost. This cannot be undone.",
    verb: "Delete",
    isDangerous: true,
    needsReason: true,
    asksCount: true,
    request: (_, confirmation) => post("/v1/bulk/dead/purge", changeBody(selection, confirmation)),
    done: (answer) => `${plural(Number(answer["jobs"] ?? 0), "dead letter")} deleted.`,
    after,
  });
}

export const oneLetter = (letter: DeadLetter): DeadSelection => ({ jobs: [letter.id] });
