/** What every verb gets, and the flags that several of them have. */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { Cluster } from './cluster.ts';
import type { Flag, Values, VerbDescription } from './command-line.ts';
import { UsageError, reasonOf } from './failure.ts';
import type { Progress } from './progress.ts';

export interface Context {
  readonly values: Values;
  readonly signal: AbortSignal;
  readonly progress: Progress;
  /** A line of the result, on stdout. */
  readonly say: (line: string) => void;
}

export interface Verb extends VerbDescription {
  readonly run: (context: Context) => Promise<void>;
}

export const CONFIG: Flag = {
  kind: 'text',
  value: 'FILE',
  about: 'cluster file; - for stdin; or MILLRACE_CLUSTER',
  required: true,
  env: 'MILLRACE_CLUSTER',
};
export const NODE: Flag = { kind: 'integer', value: 'ID', about: 'the node', required: true, min: 1 };
export const TOKEN_FILE: Flag = {
  kind: 'text',
  value: 'FILE',
  about: 'file with the bearer token of the admin planes',
};
export const LAG: Flag = {
  kind: 'integer',
  about: 'entries that a node may be behind and count as ready',
  fallback: 16,
};
export const DRY_RUN: Flag = { kind: 'switch', about: 'only say what would be done' };

/** A call that may take no time, or a loop without a pause, is a slip. */
const SHORTEST_SECONDS = 0.05;

export const seconds = (fallback: number, about: string): Flag => ({
  kind: 'seconds',
  about,
  fallback,
  min: SHORTEST_SECONDS,
});
export const httpTimeout = (fallback = 10): Flag => seconds(fallback, 'bound of one call to a node');
export const pollInterval = (fallback = 2): Flag => seconds(fallback, 'pause between two looks');

/** The cluster that --config, --token-file and --http-timeout-secs describe. */
export function openCluster({ values, signal }: Context): Cluster {
  return new Cluster(values.text('config') as string, {
    timeoutMs: values.ms('http-timeout-secs'),
    token: tokenOf(values.text('token-file')),
    signal,
  });
}

function tokenOf(path: string | undefined): string | undefined {
  let token = process.env['MILLRACE_ADMIN_TOKEN']?.trim();
  let source = 'MILLRACE_ADMIN_TOKEN';
  if (path !== undefined) {
    source = `--token-file ${path}`;
    try {
      token = readFileSync(path, 'utf8').trim();
    } catch (error) {
      throw new UsageError(`${source} cannot be read: ${reasonOf(error)}`);
    }
  }
  if (token === undefined || (token === '' && path === undefined)) return undefined;
  // It travels in an HTTP header.
  if (!/^[!-~]+$/.test(token)) throw new UsageError(`${source}: expected one line of visible ASCII without blanks`);
  return token;
}
