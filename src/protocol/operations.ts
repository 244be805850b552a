/**
 * The table of all operations. Code that treats operations by kind declares a record over one of these name types, so a
 * missing operation does not compile.
 */
import { assert } from '../base/assert.ts';
import { appendBatch } from './append-batch.ts';
import { append } from './append.ts';
import { deleteBucket, purge, quota } from './bucket-command.ts';
import { compact, flush, gcDone, markOrphan } from './cold-tier.ts';
import { create } from './create.ts';
import { deleteStream, expire, setAttributes, touch } from './lifecycle.ts';
import {
  forkAbort,
  forkBegin,
  forkCheck,
  forkData,
  forkEnd,
  forkPin,
  forkUnpin,
  forkUnpinned,
} from './fork-command.ts';
import { importAbort, importBegin, importEnd, importRows } from './import-command.ts';
import { type CommandTraits, type QueryScope, type QueryTraits } from './operation.ts';
import { piece } from './piece.ts';
import { publishSnapshot, retention } from './position-command.ts';
import { admin, bucketGarbage, exportGroup, flushStream, shed } from './queries/administration.ts';
import { read } from './queries/read.ts';
import { getAttributes, head, snapshot } from './queries/stream.ts';
import { bucket, forks, list, status, usage } from './queries/summaries.ts';
import { observe, unwatch } from './queries/watching.ts';
import { FIRST_QUERY_NUMBER } from './request.ts';

/** Replicated: what the log holds and the state machine applies. */
export const COMMANDS = {
  create,
  append,
  deleteStream,
  setAttributes,
  touch,
  expire,
  deleteBucket,
  appendBatch,
  publishSnapshot,
  retention,
  purge,
  quota,
  flush,
  gcDone,
  markOrphan,
  compact,
  importBegin,
  importRows,
  importEnd,
  importAbort,
  forkBegin,
  forkPin,
  forkData,
  forkEnd,
  forkAbort,
  forkUnpin,
  forkUnpinned,
  forkCheck,
  piece,
} satisfies Readonly<Record<string, CommandTraits>>;

/** Answered by one node from its applied state. */
export const QUERIES = {
  read,
  head,
  getAttributes,
  list,
  bucket,
  unwatch,
  usage,
  status,
  admin,
  shed,
  snapshot,
  flushStream,
  bucketGarbage,
  exportGroup,
  observe,
  forks,
} satisfies Readonly<Record<string, QueryTraits>>;

export type CommandName = keyof typeof COMMANDS;
export type QueryName = keyof typeof QUERIES;
/** Commands with certain traits. */
export type CommandsWith<T extends Partial<CommandTraits>> = {
  [K in CommandName]: (typeof COMMANDS)[K] extends T ? K : never;
}[CommandName];
/** Queries of one scope. */
export type QueriesOf<S extends QueryScope> = {
  [K in QueryName]: (typeof QUERIES)[K]['scope'] extends S ? K : never;
}[QueryName];

const ALL: Readonly<Record<string, CommandTraits | QueryTraits>> = { ...COMMANDS, ...QUERIES };

/** A set of operation numbers. Faster than a Set: it is used several times for each append. */
export class NumberSet {
  readonly #has: boolean[] = [];

  constructor(members: readonly { readonly number: number }[]) {
    for (const { number } of members) {
      while (this.#has.length <= number) this.#has.push(false);
      this.#has[number] = true;
    }
  }

  has(number: number): boolean {
    return this.#has[number] === true;
  }
}

export function commandsWhere(trait: (traits: CommandTraits) => boolean): NumberSet {
  return new NumberSet(Object.values<CommandTraits>(COMMANDS).filter(trait));
}

export function queriesWhere(trait: (traits: QueryTraits) => boolean): NumberSet {
  return new NumberSet(Object.values<QueryTraits>(QUERIES).filter(trait));
}

/** Converts a record by operation name to an array by number, for dispatch. */
export function byNumber<T>(byName: Readonly<Record<string, T>>): readonly (T | undefined)[] {
  const table: (T | undefined)[] = [];
  for (const [name, value] of Object.entries(byName)) {
    const number = ALL[name]?.number;
    assert(number !== undefined, `${name} is an operation`);
    while (table.length <= number) table.push(undefined);
    table[number] = value;
  }
  return table;
}

assert(new Set(Object.values(ALL).map(({ number }) => number)).size === Object.keys(ALL).length, 'numbers are unique');
assert(
  Object.values(COMMANDS).every(({ number }) => number < FIRST_QUERY_NUMBER) &&
    Object.values(QUERIES).every(({ number }) => number >= FIRST_QUERY_NUMBER),
  'commands have the lower numbers',
);
