// Guard around a view: one that cannot be drawn says so, and the rest of the page goes on.

import { Component, type ComponentChildren } from "preact";
import { Banner } from "../part/pane";
import { Top } from "../part/top";

interface GuardProps {
  children: ComponentChildren;
}

export class FailureGuard extends Component<GuardProps, { failure: string }> {
  override state = { failure: "" };

  override componentDidCatch(error: unknown): void {
    this.setState({ failure: error instanceof Error ? error.message : String(error) });
  }

  override render(): ComponentChildren {
    const { failure } = this.state;
    if (!failure) return this.props.children;
    return (
      <>
        <Top title="This view cannot be drawn" />
        <Banner
          tone="red"
          lead="The program sent something that this page does not understand."
          text={`Reload the page; if it stays so, report it with these words: ${failure}`}
        >
          <button type="button" class="btn s" onClick={() => this.setState({ failure: "" })}>
            Draw again
          </button>
        </Banner>
      </>
    );
  }
}
