/** How results look: tables for people, JSON for programs, colours on a terminal only. */
import { stripVTControlCharacters } from 'node:util';
import { printable } from '../nodes/failure.ts';
import type { Flag, Values } from './flags.ts';

/** A verb with a result that programs read has both. */
export const OUTPUT: Readonly<Record<'output' | 'json', Flag>> = {
  output: {
    kind: 'text',
    value: 'json|table',
    about: 'table, or JSON for programs (table)',
    choices: ['json', 'table'],
    short: 'o',
  },
  json: { kind: 'switch', about: 'the same as --output json' },
};

export function wantsJson(values: Values): boolean {
  return values.isSet('json') || values.text('output') === 'json';
}

export interface Column {
  readonly head: string;
  /** Numbers end at the same column. */
  readonly isNumber?: true;
}

/** Two blanks apart and nothing drawn, so that lines can be cut with awk. */
const GAP = '  ';

/** A heading and the rows; a further page of the same table, with the widths of the pages before it, has no heading. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widths: number[] = [],
): string[] {
  const isFirst = widths.length === 0;
  const heads = columns.map(({ head }) => head);
  for (const row of [heads, ...rows]) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, widthOf(cell));
  }
  const lineOf = (row: readonly string[]): string =>
    row
      .map((cell, i) => {
        const blanks = ' '.repeat((widths[i] ?? 0) - widthOf(cell));
        return columns[i]?.isNumber === true ? blanks + cell : cell + blanks;
      })
      .join(GAP)
      .trimEnd();
  return [...(isFirst ? [paint(lineOf(heads), 'bold')] : []), ...rows.map(lineOf)];
}

/** One thing, a line for each fact. */
export function formatFacts(facts: Readonly<Record<string, unknown>>, head = 'fact'): string[] {
  const rows = Object.entries(facts).map(([name, value]) => [name, textOf(value)]);
  return formatTable([{ head }, { head: 'value' }], rows);
}

/** A value of JSON in a table. */
export const textOf = (value: unknown): string =>
  value === null ? '-' : printable(typeof value === 'string' ? value : JSON.stringify(value));

const widthOf = (cell: string): number => stripVTControlCharacters(cell).length;

const STYLES = { bold: 1, red: 31, green: 32, yellow: 33 } as const;

/** An `Output` takes the colours away again where they are not wanted. */
export function paint(text: string, style: keyof typeof STYLES): string {
  return text === '' ? '' : `\u001b[${STYLES[style]}m${text}\u001b[0m`;
}
