// Objects that a view reads by requests, repeated while it is open.

import { useEffect, useRef, useState } from "preact/hooks";
import { describe, needsToken, read, RequestError } from "../net/request";
import { frozen } from "./store";

/** Object of the API as far as it is known. */
export interface Resource<T> {
  value: T | null;
  error: string | null;
  /** Name of the problem, such as "unknown_job". */
  problem: string;
  /** Reads it again now. */
  reload: () => void;
}

/** Reads an object, and again after every `every` milliseconds; 0 reads it once. An empty path reads nothing. */
export function useResource<T>(path: string, every = 0): Resource<T> {
  const [state, setState] = useState<{ path: string; value: T | null; error: string | null; problem: string }>(NOTHING);
  const [turn, setTurn] = useState(0);
  const waits = useRef<number | undefined>(undefined);
  const asks = needsToken.value;
  useEffect(() => {
    if (!path || asks) return;
    const abort = new AbortController();
    const load = async (): Promise<void> => {
      if (!document.hidden && !frozen.value) {
        try {
          const value = await read<T>(path, abort.signal);
          setState({ path, value, error: null, problem: "" });
        } catch (error) {
          if (abort.signal.aborted) return;
          const problem = error instanceof RequestError ? error.problem : "";
          setState((old) => ({ path, value: old.path === path ? old.value : null, error: describe(error), problem }));
        }
      }
      if (every && !abort.signal.aborted) waits.current = window.setTimeout(load, every);
    };
    void load();
    return () => {
      abort.abort();
      window.clearTimeout(waits.current);
    };
  }, [path, every, turn, asks]);
  const reload = (): void => setTurn(turn + 1);
  // An object of another address must not be shown under this one, but a list may stay until its next page comes.
  const isSame = state.path.split("?")[0] === path.split("?")[0];
  return isSame ? { ...state, reload } : { ...NOTHING, reload };
}

const NOTHING = { path: "", value: null, error: null, problem: "" };
