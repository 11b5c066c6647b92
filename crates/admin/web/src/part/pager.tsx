// Steps through the pages of a ranking or a list.

import type { ComponentChildren } from "preact";
import { count } from "../text/format";

interface RankPagerProps {
  offset: number;
  shown: number;
  matched: number;
  size: number;
  onMove: (offset: number) => void;
  children?: ComponentChildren;
}

/** Pager of a ranking, whose size is known. */
export function RankPager({ offset, shown, matched, size, onMove, children }: RankPagerProps) {
  if (matched <= PAGER_FROM && offset === 0) return null;
  return (
    <div class="pager">
      {children}
      <span class="sp" />
      <button type="button" class="btn s" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - size))}>
        Previous
      </button>
      <span class="mut">
        {count(shown ? offset + 1 : offset)}–{count(offset + shown)} of {count(matched)}
      </span>
      <button type="button" class="btn s" disabled={offset + shown >= matched} onClick={() => onMove(offset + size)}>
        Next
      </button>
    </div>
  );
}

/** A ranking of a screen needs no pager. */
const PAGER_FROM = 12;

/** Pager of a list with cursors; it goes forward, and back to the start. */
export function CursorPager({
  after,
  next,
  onMove,
}: {
  after: string;
  next: string | null;
  onMove: (after: string) => void;
}) {
  if (!after && !next) return null;
  return (
    <div class="pager">
      <button type="button" class="btn s" disabled={!after} onClick={() => onMove("")}>
        First page
      </button>
      <button type="button" class="btn s" disabled={!next} onClick={() => onMove(next ?? "")}>
        Next page
      </button>
    </div>
  );
}
