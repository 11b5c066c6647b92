// Table with a caption, which becomes cards on a narrow screen.

import type { ComponentChildren } from "preact";
import { memo } from "./memo";

/** Column of a table. */
export interface Column<T> {
  name: string;
  /** Heading in place of the name. */
  head?: ComponentChildren;
  cell: (row: T) => ComponentChildren;
  /** Right-aligned: numbers. */
  right?: boolean;
  /** Class of the cell. */
  kind?: string | ((row: T) => string);
  /** Identifier of the order that the server can give. */
  sort?: string;
  /** Title of the column is for screen readers only. */
  quiet?: boolean;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  /** Rows become cards on a narrow screen. */
  cards?: boolean;
  sorted?: string;
  onSort?: (sort: string) => void;
  selected?: (row: T) => boolean;
  onRow?: (row: T) => void;
}

export function Table<T>(props: TableProps<T>) {
  const { caption, columns, rows, id, cards, selected } = props;
  return (
    <table class={cards ? "cards" : ""}>
      <caption class="vh">{caption}</caption>
      <thead>
        <tr>{columns.map((column) => heading(column, props))}</tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <Row
            key={id(row)}
            row={row}
            columns={columns as Column<unknown>[]}
            on={selected?.(row) ?? false}
            onRow={props.onRow as (row: unknown) => void}
          />
        ))}
      </tbody>
    </table>
  );
}

function heading<T>(column: Column<T>, { sorted, onSort }: TableProps<T>) {
  const kind = `${column.right ? "r " : ""}${typeof column.kind === "string" ? column.kind : ""}`;
  if (column.sort && onSort) {
    const isSorted = column.sort === sorted;
    return (
      <th key={column.name} scope="col" class={kind} aria-sort={isSorted ? "descending" : "none"}>
        <button type="button" onClick={() => onSort(column.sort as string)}>
          {column.name}
        </button>
      </th>
    );
  }
  return (
    <th key={column.name} scope="col" class={kind}>
      {column.head ?? (column.quiet ? <span class="vh">{column.name}</span> : column.name)}
    </th>
  );
}

interface RowProps {
  row: unknown;
  columns: Column<unknown>[];
  on: boolean;
  onRow?: ((row: unknown) => void) | undefined;
}

const Row = memo<RowProps>(
  ({ row, columns, on, onRow }) => (
    <tr class={`hv ${on ? "on" : ""} ${onRow ? "act" : ""}`} onClick={onRow && (() => onRow(row))}>
      {columns.map((column) => {
        const kind = typeof column.kind === "function" ? column.kind(row) : column.kind;
        return (
          <td
            key={column.name}
            class={`${column.right ? "r " : ""}${kind ?? ""}`}
            data-l={column.quiet ? "" : column.name}
          >
            {column.cell(row)}
          </td>
        );
      })}
    </tr>
  ),
  (one, other) => one.row === other.row && one.on === other.on && one.columns === other.columns,
);
