/** Nodes keep some of their metrics from their start on; the page asks for them when it is opened. */
import { type Json, isObject } from '../../nodes/report.ts';
import { valuesOf } from './plots.ts';
import type { Sample } from './samples.ts';

/** A node keeps fewer of both. */
const ROWS_MAX = 4096;
const COLUMNS_MAX = 256;

/** The answer of a node to `/__svc/metrics/history`; empty when it is none. */
export function samplesIn(nodeId: number, answer: unknown): Sample[] {
  if (!isObject(answer)) return [];
  const { columns, rows, ...more } = answer;
  if (!Array.isArray(columns) || !Array.isArray(rows)) return [];
  const paths = columns.slice(0, COLUMNS_MAX).map((path) => String(path).split('.'));
  const read = rows.slice(0, ROWS_MAX).filter((row) => Array.isArray(row));
  return read.flatMap(([at, ...values]: unknown[]) => {
    if (typeof at !== 'number' || !Number.isFinite(at)) return [];
    return [{ nodeId, atMs: at, metrics: nested(paths, values, more), report: undefined, error: '' }];
  });
}

/** Metrics as the node had them. No name reaches a prototype. */
function nested(paths: readonly (readonly string[])[], values: readonly unknown[], more: Json): Json {
  const tree = new Map<string, unknown>(Object.entries(more));
  for (const [i, path] of paths.entries()) put(tree, path, values[i]);
  return plain(tree);
}

function put(tree: Map<string, unknown>, [name = '', ...path]: readonly string[], value: unknown): void {
  if (path.length === 0) return void tree.set(name, value);
  const known = tree.get(name);
  const below = known instanceof Map ? known : new Map<string, unknown>();
  tree.set(name, below);
  put(below, path, value);
}

const plain = (tree: ReadonlyMap<string, unknown>): Json =>
  Object.fromEntries([...tree].map(([name, value]) => [name, value instanceof Map ? plain(value) : value]));

/** By time in milliseconds, the values of the plots at moments for which every node that had started has a sample. */
export function valuesBefore(samples: readonly Sample[]): Map<number, ReadonlyMap<string, number>> {
  const rounds = new Map<number, Map<number, Sample>>();
  const begun = new Map<number, number>();
  for (const sample of samples) {
    const round = rounds.get(sample.atMs) ?? new Map<number, Sample>();
    rounds.set(sample.atMs, round.set(sample.nodeId, sample));
    begun.set(sample.nodeId, Math.min(sample.atMs, begun.get(sample.nodeId) ?? Infinity));
  }
  const values = new Map<number, ReadonlyMap<string, number>>();
  let before: readonly Sample[] | undefined;
  for (const [atMs, round] of [...rounds].sort(([a], [b]) => a - b)) {
    if ([...begun].some(([nodeId, beganMs]) => beganMs <= atMs && !round.has(nodeId))) continue;
    const now = [...round.values()];
    values.set(atMs, valuesOf(now, before));
    before = now;
  }
  return values;
}
