// Frame of every view: navigation, token prompt, dialogs, connection.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Menu, Program } from "../api";
import { ChangeDialog, Modal } from "../dialog/dialog";
import { notice } from "../dialog/change";
import { announcement, shown } from "../model/store";
import { link, reopen } from "../net/link";
import { needsToken, token } from "../net/request";
import { Icon, Logo, StateGlyph, Textures } from "../part/glyph";
import { Banner } from "../part/pane";
import { route, toApi } from "../route";
import { helpIsOpen, SHORTCUTS } from "../shortcuts";
import { bytes, clock, short, span } from "../text/format";

/** Entries of the navigation: view, word, short word. */
const VIEWS: [string, string, string][] = [
  ["overview", "Overview", "Overview"],
  ["bulk", "Bulk", "Bulk"],
  ["jobs", "Jobs", "Jobs"],
  ["dead", "Dead letters", "Dead"],
  ["explain", "Explain", "Explain"],
  ["events", "Events", "Events"],
  ["config", "Configuration", "Config"],
];

const PARENTS: Record<string, string> = { api: "overview", job: "jobs", tenant: "bulk", action: "bulk" };

export function Shell({ children }: { children: ComponentChildren }) {
  const { menu, program } = shown.value ?? {};
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <Textures />
      <div class="app">
        <Side menu={menu} program={program} />
        <main id="main" tabIndex={-1}>
          {needsToken.value ? <TokenPrompt /> : children}
        </main>
      </div>
      <Tabs />
      <ChangeDialog />
      {helpIsOpen.value && <Help />}
      {notice.value && <p class="notice">{notice.value}</p>}
      <div class="vh" role="status" aria-live="polite">
        {notice.value || announcement.value}
      </div>
    </>
  );
}

/** The fragment is the address of the view, so the link moves the focus itself. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Side({ menu, program }: { menu: Menu | undefined; program: Program | undefined }) {
  const { view, name } = route.value;
  const current = PARENTS[view] ?? view;
  const hidden = menu ? menu.api_count - menu.apis.length : 0;
  return (
    <nav class="side" aria-label="Main">
      <div class="brand">
        <Logo />
        <span>Outflow</span>
      </div>
      {VIEWS.map(([id, word]) => (
        <a key={id} href={`#/${id}`} aria-current={id === current && view !== "api" ? "page" : undefined} title={word}>
          <Icon name={id} />
          <span class="w">{word}</span>
          <span class="n">{badge(id, menu)}</span>
        </a>
      ))}
      <h2>APIs</h2>
      {menu?.apis.map((api) => (
        <a
          key={api.name}
          href={toApi(api.name)}
          aria-current={view === "api" && name === api.name ? "page" : undefined}
          title={`${api.name}: ${api.state}`}
        >
          <StateGlyph state={api.state} />
          <span class="w cut">{api.name}</span>
          <span class="vh">{api.state}</span>
          <span class="n">{api.waiting ? short(api.waiting) : ""}</span>
        </a>
      ))}
      {hidden > 0 && <p class="more">and {short(hidden)} more</p>}
      {program && <Foot program={program} />}
    </nav>
  );
}

function badge(view: string, menu: Menu | undefined): string {
  if (!menu) return "";
  if (view === "bulk") return menu.queued ? short(menu.queued) : "";
  return view === "dead" && menu.dead ? short(menu.dead) : "";
}

function Foot({ program }: { program: Program }) {
  const missed = shown.value?.missed ?? 0;
  const up = (shown.value?.at ?? program.started) - program.started;
  return (
    <div class="foot">
      <div>
        outflow {program.version}, up {span(up)}
      </div>
      <div class="cut">
        {program.listen}, {program.machine}
      </div>
      <div>
        {bytes(program.memory_bytes)}, {program.pages === 1 ? "1 page" : `${program.pages} pages`} open
      </div>
      {missed > 0 && <div class="warn">{short(missed)} updates left out: the page was too slow</div>}
    </div>
  );
}

/** Navigation of a narrow screen. */
function Tabs() {
  const { view } = route.value;
  const current = PARENTS[view] ?? view;
  return (
    <nav class="tabs" aria-label="Views">
      {VIEWS.map(([id, , word]) => (
        <a key={id} href={`#/${id}`} aria-current={id === current ? "page" : undefined}>
          <Icon name={id} />
          {word}
        </a>
      ))}
    </nav>
  );
}

/** Asks for the token. It is kept in the memory of this tab only. */
function TokenPrompt() {
  const [text, setText] = useState("");
  const isWrong = token.value !== "";
  const enter = (event: Event): void => {
    event.preventDefault();
    if (!text) return;
    token.value = text;
    needsToken.value = false;
    reopen();
  };
  return (
    <form class="token pane" onSubmit={enter}>
      <h1>Admin token</h1>
      <p class="mut">
        This program shows nothing without its admin token: the value of <span class="m">[admin] token_env</span> or{" "}
        <span class="m">token_file</span>.
      </p>
      {isWrong && (
        <p class="bad" role="alert">
          This token is wrong.
        </p>
      )}
      <label>
        <span>Token</span>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button class="btn pri">Enter</button>
      <p class="fnt">It stays in the memory of this tab, and is gone when you close or reload it.</p>
    </form>
  );
}

/** Says that the page is not connected, above what it showed last. */
export function LinkBanner() {
  const state = link.value;
  if (state.phase === "lost") {
    return (
      <Banner
        tone="amber"
        lead={`Not connected since ${clock(state.since)}.`}
        text={`${sentence(state.why)} The page tries again at ${clock(state.retryAt)}; what it shows is from before.`}
      >
        <button type="button" class="btn s" onClick={reopen}>
          Connect now
        </button>
      </Banner>
    );
  }
  if (state.phase === "refused" && state.problem !== "no_bulk")
    return <Banner tone="red" lead="The program refused the stream." text={sentence(state.why)} />;
  return null;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function Help() {
  const close = (): void => {
    helpIsOpen.value = false;
  };
  return (
    <Modal title="Keys" onClose={close}>
      <dl class="kv keys-list">
        {SHORTCUTS.map(([key, text]) => [
          <dt key={`k${key}`}>
            <kbd>{key}</kbd>
          </dt>,
          <dd key={`t${key}`}>{text}</dd>,
        ])}
      </dl>
      <div class="row end">
        <button type="button" class="btn" onClick={close}>
          Close
        </button>
      </div>
    </Modal>
  );
}
