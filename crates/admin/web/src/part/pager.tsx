// Steps through the pages of a ranking or a list.

import { count } from "../text/format";

interface RankPagerProps {
  offset: number;
  shown: number;
  matched: number;
  size: number;
  onMove: (offset: number) => void;
}

/** Pager of a ranking, whose size is known. */
export function RankPager({ offset, shown, matched, size, onMove }: RankPagerProps) {
  if (matched <= size && offset === 0) return null;
  return (
    <div class="pager">
      <button type="button" class="btn s" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - size))}>Previous</button>
      <span class="mut">{count(shown ? offset + 1 : offset)}–{count(offset + shown)} of {count(matched)}</span>
      <button type="button" class="btn s" disabled={offset + shown >= matched} onClick={() => onMove(offset + size)}>Next</button>
    </div>
  );
}

/** Pager of a list with cursors; it goes forward, and back to the start. */
export function CursorPager({ after, next, onMove }: { after: string; next: string | null; onMove: (after: string) => void }) {
  if (!after && !next) return null;
  return (
    <div class="pager">
      <button type="button" class="btn s" disabled={!after} onClick={() => onMove("")}>First page</button>
      <button type="button" class="btn s" disabled={!next} onClick={() => onMove(next ?? "")}>Next page</button>
    </div>
  );
}
