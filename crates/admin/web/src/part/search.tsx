// Search box that reports what was typed after a pause.

import { useEffect, useRef, useState } from "preact/hooks";

interface SearchProps {
  label: string;
  value: string;
  onSearch: (text: string) => void;
}

export function Search({ label, value, onSearch }: SearchProps) {
  const [text, setText] = useState(value);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => setText(value), [value]);
  const search = (next: string): void => {
    setText(next);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => onSearch(next.trim()), 250);
  };
  return (
    <input
      type="search"
      class="q"
      placeholder={label}
      aria-label={label}
      value={text}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => search(event.currentTarget.value)}
    />
  );
}
