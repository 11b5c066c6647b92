// Frames of content: panes, figures, sentences, keys of charts.

import type { ComponentChildren } from "preact";
import type { Slow } from "../api";
import { type Tone, WhyIcon } from "./glyph";

interface PaneProps {
  title: ComponentChildren;
  aside?: ComponentChildren;
  /** Content with the pane's own margin; a table has none. */
  padded?: boolean;
  children: ComponentChildren;
}

/** Box with a title. */
export function Pane({ title, aside, padded, children }: PaneProps) {
  return (
    <section class="pane">
      <header>
        <h2>{title}</h2>
        <span class="sp" />
        {aside}
      </header>
      <div class={padded ? "in" : "tw"}>{children}</div>
    </section>
  );
}

/** Name, value and note of a figure. */
export interface Figure {
  name: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: "bad" | "warn" | "";
}

/** Row of figures. */
export function Figures({ list }: { list: Figure[] }) {
  return (
    <dl class="figs">
      {list.map(({ name, value, note, tone }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={tone ?? ""}>{value}</dd>
          <dd class="sub">{note || "\u00a0"}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Value with its unit set apart. */
export function Unit({ value, unit }: { value: ComponentChildren; unit: string }) {
  return (
    <>
      {value}
      {unit && <small>{unit.startsWith("/") ? unit : ` ${unit}`}</small>}
    </>
  );
}

/** Returns the tone of the sentence of an API. */
export function toneOf(slow: Slow): Tone {
  switch (slow.code) {
    case "asleep":
    case "cache_only":
    case "override":
      return "red";
    case "probing":
      return "violet";
    case "limit":
      return "blue";
    case "idle":
      return "";
    default:
      return "amber";
  }
}

interface SentenceProps {
  tone: Tone;
  lead: ComponentChildren;
  text?: ComponentChildren;
  hint?: ComponentChildren;
}

/** Sentence that says why. */
export function Sentence({ tone, lead, text, hint }: SentenceProps) {
  return (
    <div class="why">
      <WhyIcon tone={tone} />
      <div>
        {tone ? <b>{lead}</b> : lead}
        {text && <> {text}</>}
        {hint && <span class="hint"> {hint}</span>}
      </div>
    </div>
  );
}

/** Sentence in a frame, at the head of a view. */
export function Banner(props: SentenceProps & { children?: ComponentChildren }) {
  return (
    <div class={`banner ${props.tone}`}>
      <Sentence {...props} />
      {props.children}
    </div>
  );
}

/** Sentence of an API. Code in backquotes is set as such. */
export function SlowText({ slow }: { slow: Slow }) {
  return (
    <Sentence
      tone={toneOf(slow)}
      lead={slow.lead}
      text={<Code text={slow.text} />}
      hint={slow.hint && <Code text={slow.hint} />}
    />
  );
}

/** Text with code in backquotes. */
export function Code({ text }: { text: string }) {
  const parts = text.split("`");
  return <>{parts.map((part, index) => (index % 2 ? <span class="m">{part}</span> : part))}</>;
}

/** Entry of the key of a chart. `mark` names its colour, texture and shape as classes. */
export function Key({ mark, children }: { mark: string; children: ComponentChildren }) {
  return (
    <span class="key">
      <i class={mark} />
      {children}
    </span>
  );
}

/** Names and values. */
export function Facts({ list }: { list: [ComponentChildren, ComponentChildren][] }) {
  return (
    <dl class="kv">
      {list.map(([name, value], index) => [<dt key={`n${index}`}>{name}</dt>, <dd key={`v${index}`}>{value}</dd>])}
    </dl>
  );
}

/** What a view shows while it has no data, or no rows. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
