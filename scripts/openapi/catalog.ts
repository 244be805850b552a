/** All operations of both planes: rows of the table of routes joined with what describes them. */
import type { DocumentedPlane } from '../../src/http/api-document.ts';
import type { RouteFamily } from '../../src/http/context.ts';
import { CONTROL_PREFIX } from '../../src/http/paths.ts';
import { BUCKET_OPERATIONS } from './buckets.ts';
import type { Answer, Operation, Operations } from './operation.ts';
import { OPERATOR_OPERATIONS } from './operators.ts';
import { type Asked, type DocumentedRow, type ResolvedRefusal, refusalsOf } from './refusals.ts';
import { SNAPSHOT_OPERATIONS } from './snapshots.ts';
import { STREAM_OPERATIONS } from './streams.ts';
import { SUBSCRIPTION_OPERATIONS } from './subscriptions.ts';

export interface PlaneRows {
  readonly client: readonly DocumentedRow[];
  readonly admin: readonly DocumentedRow[];
}

/** A method of a path, with everything that it may answer. */
export interface CatalogEntry extends Asked {
  readonly operation: Operation;
  readonly refusals: readonly ResolvedRefusal[];
}

const OPERATIONS: Operations = {
  ...STREAM_OPERATIONS,
  ...SNAPSHOT_OPERATIONS,
  ...BUCKET_OPERATIONS,
  ...OPERATOR_OPERATIONS,
};

const STREAM = '/{bucket}/{stream}';
const FLAT = '/v1/stream/{path}';
const ANY_CONTROL = `${CONTROL_PREFIX}*`;

/** Throws for a row without a description, and for a description without a row. */
export function catalogOf(rows: PlaneRows): CatalogEntry[] {
  const asked = [...tableOf(rows), ...controlOf(rows.client)];
  const unused = new Set([...Object.keys(OPERATIONS), ...Object.keys(SUBSCRIPTION_OPERATIONS)]);
  const entries = asked.map((one): CatalogEntry => {
    const operation = describe(one);
    unused.delete(`${one.method} ${one.row.methods.includes('*') ? one.path : one.row.pattern}`);
    return { ...one, operation, refusals: refusalsOf(one, operation) };
  });
  if (unused.size > 0) throw new Error(`no route has these descriptions: ${[...unused].join(', ')}`);
  return entries;
}

/** Methods and paths of the rows, those of both planes once. */
function tableOf({ client, admin }: PlaneRows): Asked[] {
  const found = new Map<string, Asked>();
  const add = (plane: DocumentedPlane, row: DocumentedRow): void => {
    // Routes of the page that comes with the node may change with it: they are no API.
    if (row.isForConsole === true) return;
    for (const method of row.methods) {
      const key = `${method} ${row.pattern}`;
      const planes: readonly DocumentedPlane[] = [...(found.get(key)?.planes ?? []), plane];
      // A row of both planes has a right on the one and a role on the other.
      const both = { ...found.get(key)?.row, ...row };
      found.set(key, { planes, method, path: row.pattern, family: 'bucketed', row: both });
    }
  };
  for (const row of client) if (!row.methods.includes('*')) add('client', row);
  for (const row of admin) add('admin', row);
  return [...found.values()].flatMap((one) =>
    one.path === STREAM ? [one, { ...one, path: FLAT, family: 'flat' as RouteFamily }] : [one],
  );
}

/** The service behind these rows tells paths and methods apart. */
function controlOf(rows: readonly DocumentedRow[]): Asked[] {
  return Object.keys(SUBSCRIPTION_OPERATIONS).flatMap((key) => {
    const [method = '', path = ''] = key.split(' ');
    const row = rows.find(({ pattern }) => pattern === path) ?? rows.find(({ pattern }) => pattern === ANY_CONTROL);
    if (row === undefined) throw new Error(`no row serves ${path}`);
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method];
    return methods.map((one): Asked => ({ planes: ['client'], method: one, path, family: 'flat', row }));
  });
}

function describe({ method, path, row }: Asked): Operation {
  const all = row.methods.includes('*') ? SUBSCRIPTION_OPERATIONS : OPERATIONS;
  const pattern = row.methods.includes('*') ? path : row.pattern;
  const found = all[`${method} ${pattern}`];
  const operation = found ?? (method === 'HEAD' ? headOf(all[`GET ${pattern}`]) : undefined);
  if (operation === undefined) throw new Error(`${method} ${pattern} has no description (scripts/openapi)`);
  return path === FLAT ? { ...operation, id: `${operation.id}ByPath` } : operation;
}

function headOf(operation: Operation | undefined): Operation | undefined {
  if (operation === undefined) return undefined;
  const { id, summary } = operation;
  const answers = operation.answers.map(({ status, text, headers = [] }): Answer => ({ status, text, headers }));
  return { ...operation, id: `${id}Head`, summary: `The headers of GET, which ${lowered(summary)}`, answers };
}

function lowered(summary: string): string {
  return `does this: ${summary.charAt(0).toLowerCase()}${summary.slice(1)}`;
}
