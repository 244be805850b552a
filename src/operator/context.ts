/** What every verb gets, and the flags that several of them have. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { Cluster } from './cluster.ts';
import type { Flag, Values, VerbDescription } from './command-line.ts';
import { UsageError, reasonOf } from './failure.ts';
import type { ProgressBar } from './progress-bar.ts';
import type { Pace } from './waiting.ts';

export interface Context {
  readonly values: Values;
  readonly signal: AbortSignal;
  readonly progress: ProgressBar;
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
/** How nodes are asked. */
export const asking = (timeoutSeconds = 10): Readonly<Record<string, Flag>> => ({
  'http-timeout-secs': seconds(timeoutSeconds, 'bound of one call to a node'),
  'token-file': { kind: 'text', value: 'FILE', about: 'file with the bearer token of the admin planes' },
  'ca-file': {
    kind: 'text',
    value: 'FILE',
    about: 'PEM: only certificates of these authorities are believed; or MILLRACE_CA_FILE',
    env: 'MILLRACE_CA_FILE',
  },
});
export const pollInterval = (fallback = 2): Flag => seconds(fallback, 'pause between two looks');

/** Of `pollInterval` and a bound of the whole. */
export function paceOf(values: Values): Pace {
  return { intervalMs: values.ms('poll-interval-secs'), timeoutMs: values.ms('timeout-secs') };
}

/** The cluster that --config and the flags of `asking` describe. */
export function openCluster({ values, signal }: Context): Cluster {
  return Cluster.read(values.required('config'), {
    timeoutMs: values.ms('http-timeout-secs'),
    token: tokenOf(values.text('token-file')),
    ca: authoritiesOf(values.text('ca-file')),
    signal,
  });
}

function tokenOf(path: string | undefined): string | undefined {
  const fromFile = path !== undefined;
  const source = fromFile ? `--token-file ${path}` : 'MILLRACE_ADMIN_TOKEN';
  const token = (fromFile ? textOf(source, path) : process.env['MILLRACE_ADMIN_TOKEN'])?.trim();
  if (token === undefined || (token === '' && !fromFile)) return undefined;
  // It travels in an HTTP header.
  if (!/^[!-~]+$/.test(token)) throw new UsageError(`${source}: expected one line of visible ASCII without blanks`);
  return token;
}

function authoritiesOf(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const source = `--ca-file ${path}`;
  const text = textOf(source, path);
  try {
    // What is not a certificate would be ignored silently, and no node trusted.
    void new X509Certificate(text);
  } catch {
    throw new UsageError(`${source}: expected certificates in PEM`);
  }
  return text;
}

function textOf(source: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${source} cannot be read: ${reasonOf(error)}`);
  }
}
