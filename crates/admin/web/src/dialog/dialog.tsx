// Dialog of a change: its fields, what it will do, the reason, and the confirmation.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { DryRun } from "../api";
import { describe, send } from "../net/request";
import { count } from "../text/format";
import { announce, type ChangeSpec, type Field, type FieldValues, openChange } from "./change";

/** Modal box. Escape closes it. */
export function Modal({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby="dialog-title"
      onClose={onClose}
      onClick={(event) => event.target === box.current && onClose()}
    >
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

/** The open dialog, if there is one. */
export function ChangeDialog() {
  const spec = openChange.value;
  return spec && <Change key={spec.title} spec={spec} />;
}

function Change({ spec }: { spec: ChangeSpec }) {
  const [values, setValues] = useState<FieldValues>(() => initialValues(spec));
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [failure, setFailure] = useState("");
  const [isSending, setSending] = useState(false);
  const forecast = useForecast(spec, values);
  const expected = forecast.run?.count ?? null;
  const isCounted = !spec.asksCount || (expected != null && typed.replace(/\D/g, "") === String(expected));
  const close = (): void => {
    openChange.value = null;
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isCounted || isSending) return;
    setSending(true);
    try {
      const answer = await send<Record<string, unknown>>(
        spec.request(values, { reason, dry: false, expect: expected }),
      );
      close();
      announce(spec.done?.(answer, values) ?? `${spec.title}: done.`);
      spec.after?.();
    } catch (error) {
      setFailure(describe(error));
      setSending(false);
    }
  };
  return (
    <Modal title={spec.title} onClose={close}>
      <form onSubmit={submit}>
        {spec.intro && <p class="mut intro">{spec.intro}</p>}
        {spec.fields?.map((field) => (
          <Input
            key={field.name}
            field={field}
            value={values[field.name] ?? ""}
            onChange={(value) => setValues({ ...values, [field.name]: value })}
          />
        ))}
        <Effects {...forecast} />
        <label>
          <span>Reason, for the audit{spec.needsReason ? "" : " (optional)"}</span>
          <input
            name="reason"
            value={reason}
            maxLength={500}
            required={spec.needsReason ?? false}
            autocomplete="off"
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
        {spec.asksCount && expected != null && (
          <label>
            <span>Type {count(expected)} to confirm</span>
            <input
              name="count"
              inputMode="numeric"
              value={typed}
              autocomplete="off"
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        {failure && (
          <p class="bad effect" role="alert">
            {failure}
          </p>
        )}
        <div class="row end">
          <button type="button" class="btn" onClick={close}>
            Close
          </button>
          <button
            type="submit"
            class={`btn pri ${spec.isDangerous ? "danger" : ""}`}
            disabled={isSending || !isCounted}
          >
            {spec.verb}
          </button>
        </div>
      </form>
    </Modal>
  );
}

function initialValues(spec: ChangeSpec): FieldValues {
  return Object.fromEntries((spec.fields ?? []).map((field) => [field.name, field.value]));
}

function Input({ field, value, onChange }: { field: Field; value: string; onChange: (value: string) => void }) {
  return (
    <label>
      <span>{field.label}</span>
      {field.options ? (
        <select name={field.name} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {field.options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      ) : (
        <input
          name={field.name}
          value={value}
          required={field.required ?? true}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
      {field.note && <span class="sub">{field.note}</span>}
    </label>
  );
}

interface Forecast {
  run: DryRun | null;
  error: string;
  isAsking: boolean;
}

/** Asks the program what the change would do, again after each change of a field. */
function useForecast(spec: ChangeSpec, values: FieldValues): Forecast {
  const [state, setState] = useState<Forecast>({ run: null, error: "", isAsking: true });
  const key = JSON.stringify(values);
  useEffect(() => {
    const abort = new AbortController();
    const ask = async (): Promise<void> => {
      try {
        const run = await send<DryRun>(spec.request(values, { reason: "", dry: true, expect: null }), abort.signal);
        setState({ run, error: "", isAsking: false });
      } catch (error) {
        if (!abort.signal.aborted) setState({ run: null, error: describe(error), isAsking: false });
      }
    };
    const timer = window.setTimeout(ask, state.run || state.error ? TYPING_PAUSE : 0);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  return state;
}

const TYPING_PAUSE = 250;

function Effects({ run, error, isAsking }: Forecast) {
  if (error) return <p class="bad effect">{error}</p>;
  if (isAsking && !run) return <p class="fnt effect">Asking what it would do…</p>;
  if (!run) return null;
  return (
    <ul class="effects">
      {run.effects.map((effect) => (
        <li key={effect.code} class={effect.tone === "red" ? "bad" : effect.tone === "amber" ? "warn" : ""}>
          {effect.text}
        </li>
      ))}
    </ul>
  );
}
