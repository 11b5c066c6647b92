// Component that draws again only if its input changed.

import { Component, type ComponentChildren } from "preact";

/** Wraps a component; `equals` compares two inputs. */
export function memo<P extends object>(draw: (props: P) => ComponentChildren, equals: (one: P, other: P) => boolean) {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !equals(this.props as P, next as P);
    }
    override render(): ComponentChildren {
      return draw(this.props as P);
    }
  };
}
