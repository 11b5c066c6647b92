// Requests to the admin API. The token stays in the memory of this tab.

import { signal } from "@preact/signals";
import type { Problem } from "../api";

/** Token of the admin API; empty if none was entered. */
export const token = signal("");

/** True while the program asks for a token that the page does not have. */
export const needsToken = signal(false);

/** Failed request, with the words for people. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly problem: string,
    detail: string,
  ) {
    super(detail);
  }
}

/** Method, address and body of a request. */
export interface ApiRequest {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  body?: Record<string, unknown>;
}

/** Builds an address from its parts; absent parameters are left out. */
export function address(
  path: string,
  parameters: Record<string, string | number | boolean | null | undefined> = {},
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value != null && value !== "" && value !== false) query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Builds a path segment from a name. */
export const segment = (name: string): string => encodeURIComponent(name);

/** Sends a request; returns the response whatever its status. */
export async function open(
  request: ApiRequest,
  signal?: AbortSignal,
  headers: Record<string, string> = {},
): Promise<Response> {
  const all: Record<string, string> = { ...headers };
  if (token.value) all["Authorization"] = `Bearer ${token.value}`;
  const options: RequestInit = { method: request.method, headers: all, cache: "no-store", signal: signal ?? null };
  if (request.body) {
    all["Content-Type"] = "application/json";
    options.body = JSON.stringify(request.body);
  }
  const response = await fetch(request.path, options);
  if (response.status === 401) needsToken.value = true;
  return response;
}

/** Sends a request and returns its JSON, or throws the problem. */
export async function send<T>(request: ApiRequest, signal?: AbortSignal): Promise<T> {
  const response = await open(request, signal);
  if (!response.ok) throw await readProblem(response);
  return (await response.json()) as T;
}

/** Reads an object. */
export const read = <T>(path: string, signal?: AbortSignal): Promise<T> => send<T>({ method: "GET", path }, signal);

/** Turns a failed response into an error. */
export async function readProblem(response: Response): Promise<RequestError> {
  try {
    const problem = (await response.json()) as Problem;
    const name = problem.type.split(":").pop() ?? "";
    return new RequestError(response.status, name, problem.detail);
  } catch {
    return new RequestError(response.status, "", `the program answered with status ${response.status}`);
  }
}

/** Returns the words for people of any failure. */
export function describe(error: unknown): string {
  if (error instanceof RequestError) return error.message;
  return "the program does not answer: check that it runs";
}
