/** Every verb gets a `Context`; several share the flags declared here. */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { certificatesIn } from '../base/pem.ts';
import { Cluster } from '../nodes/cluster.ts';
import { clientUrlOf, readClusterFile } from '../nodes/cluster-file.ts';
import type { Flag, Values, VerbDescription } from './flags.ts';
import type { Agents } from '../nodes/http-client.ts';
import { Failure, UsageError, reasonOf } from '../nodes/failure.ts';
import type { EnvironmentVariables } from '../config/environment.ts';
import type { Io, Output } from './io.ts';
import type { HttpSourceOptions } from './moving/http-source.ts';
import type { ProgressBar } from './progress-bar.ts';
import { StreamClient } from './streams/stream-client.ts';
import type { PollPace } from './waiting.ts';

/** Where a node without a configuration serves clients. */
const CLIENT_URL = 'http://127.0.0.1:4437';

export interface Context {
  readonly values: Values;
  readonly signal: AbortSignal;
  readonly progress: ProgressBar;
  readonly env: EnvironmentVariables;
  readonly stdin: Io['stdin'];
  readonly out: Output;
  readonly err: Output;
  readonly giveWay: () => void;
  readonly startVerifiers: Io['startVerifiers'];
  /** A line of the result, on stdout. */
  readonly say: (line: string) => void;
}

export interface Verb extends VerbDescription {
  /** It changes nothing, so it ends when its reader goes away. */
  readonly onlyShows?: true | ((values: Values) => boolean);
  readonly run: (context: Context) => Promise<void>;
}

/** `value` is its placeholder. */
export const textFlag = (value: string, about: string, more: Partial<Flag> = {}): Flag => ({
  ...{ kind: 'text', value, about },
  ...more,
});

export const CONFIG = textFlag('FILE', 'cluster file; - for stdin; or MILLRACE_CLUSTER', {
  required: true,
  env: 'MILLRACE_CLUSTER',
});
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
export const TOKEN_FILE = textFlag('FILE', 'file with the bearer token of the admin planes');
export const CLIENT_TOKEN_FILE = textFlag(
  'FILE',
  'file with the bearer token of the client planes; or MILLRACE_CLIENT_TOKEN, the token',
);
export const CA_FILE = textFlag(
  'FILE',
  'PEM: only certificates of these authorities are believed; or MILLRACE_CA_FILE',
  { env: 'MILLRACE_CA_FILE' },
);
export const CERT_FILE = textFlag(
  'FILE',
  'PEM: certificate and key for admin planes that ask for them; or MILLRACE_CERT_FILE',
  { env: 'MILLRACE_CERT_FILE' },
);
/** The address of a client plane. */
export const ADDRESS = textFlag(
  'URL',
  'a client plane; or MILLRACE_URL, or those of the cluster file (http://127.0.0.1:4437)',
  { env: 'MILLRACE_URL' },
);
/** Main reads it, before the values of the verb are known. */
const CONTEXT = textFlag('NAME', 'the cluster of this context; or MILLRACE_CONTEXT');

/** How nodes are asked. */
export const asking = (timeoutSeconds = 10): Readonly<Record<string, Flag>> => ({
  'http-timeout-secs': seconds(timeoutSeconds, 'bound of one call to a node'),
  'token-file': TOKEN_FILE,
  'ca-file': CA_FILE,
  'cert-file': CERT_FILE,
  context: CONTEXT,
});

const RETRY_SECONDS = 30;

/** How client planes are asked. */
export const CLIENT_FLAGS: Readonly<Record<string, Flag>> = {
  url: ADDRESS,
  config: textFlag('FILE', 'cluster file; or MILLRACE_CLUSTER', { env: 'MILLRACE_CLUSTER' }),
  context: CONTEXT,
  'client-token-file': CLIENT_TOKEN_FILE,
  'ca-file': CA_FILE,
  'http-timeout-secs': seconds(10, 'bound of one call to a node'),
  'retry-secs': {
    kind: 'seconds',
    about: `how long to try again while nodes do not answer (${RETRY_SECONDS}; on a terminal 0 when they refuse the connection)`,
  },
};
export const pollInterval = (fallback = 2): Flag => seconds(fallback, 'pause between two looks');

/** Needs the flags `poll-interval-secs` and `timeout-secs`. */
export function paceOf(values: Values): PollPace {
  return { intervalMs: values.ms('poll-interval-secs'), timeoutMs: values.ms('timeout-secs') };
}

/** The cluster that --config and the flags of `asking` describe. */
export async function openCluster(context: Context): Promise<Cluster> {
  const { values, signal } = context;
  return new Cluster(await readClusterFile(values.required('config'), context), {
    timeoutMs: values.ms('http-timeout-secs'),
    token: tokenOf(context, ADMIN_TOKEN),
    ca: authoritiesOf(values.text('ca-file')),
    identity: identityOf(values.text('cert-file')),
    signal,
  });
}

/** The client planes that --url or the cluster file names; else `fallback`. */
export async function openStreams(context: Context, agents?: Agents, fallback = CLIENT_URL): Promise<StreamClient> {
  const { values, signal, progress, err } = context;
  const patienceMs = patienceOf(values);
  return new StreamClient(await clientUrls(context, fallback), {
    timeoutMs: values.ms('http-timeout-secs'),
    patienceMs,
    agents,
    refusedPatienceMs: err.isTerminal && !values.has('retry-secs') ? 0 : patienceMs,
    token: tokenOf(context, CLIENT_TOKEN),
    ca: authoritiesOf(values.text('ca-file')),
    signal,
    waiting: (why) => progress.waiting(why),
  });
}

/** How the server of an import is asked, which may be any. */
export function askingSource(context: Context): HttpSourceOptions {
  const { values, signal } = context;
  return {
    timeoutMs: values.ms('http-timeout-secs'),
    patienceMs: patienceOf(values),
    token: tokenOf(context, FROM_TOKEN),
    ca: authoritiesOf(values.text('ca-file')),
    signal,
  };
}

const patienceOf = (values: Values): number =>
  values.has('retry-secs') ? values.ms('retry-secs') : RETRY_SECONDS * 1000;

async function clientUrls(context: Context, fallback: string): Promise<readonly string[]> {
  const [url, config] = [context.values.text('url'), context.values.text('config')];
  if (url === undefined) return config === undefined ? [fallback] : await clientUrlsIn(config, context);
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(`--url ${url}: expected an http:// or https:// address`);
  return [url.replace(/\/+$/, '')];
}

async function clientUrlsIn(config: string, context: Context): Promise<readonly string[]> {
  const { label, nodes } = await readClusterFile(config, context);
  const urls = nodes.map(clientUrlOf).filter((url) => url !== undefined);
  if (urls.length > 0) return urls;
  throw new Failure(
    `${label} does not say where the nodes serve clients: give them an http_url, or the command a --url`,
  );
}

interface TokenSource {
  readonly flag: string;
  readonly variable: string;
}

const ADMIN_TOKEN: TokenSource = { flag: 'token-file', variable: 'MILLRACE_ADMIN_TOKEN' };
export const SCRAPE_TOKEN: TokenSource = { flag: 'scrape-token-file', variable: 'MILLRACE_SCRAPE_TOKEN' };
const FROM_TOKEN: TokenSource = { flag: 'from-token-file', variable: 'MILLRACE_FROM_TOKEN' };
const CLIENT_TOKEN: TokenSource = { flag: 'client-token-file', variable: 'MILLRACE_CLIENT_TOKEN' };

export function tokenOf({ values, env }: Context, { flag, variable }: TokenSource): string | undefined {
  const path = values.text(flag);
  const fromFile = path !== undefined;
  const source = fromFile ? `--${flag} ${path}` : variable;
  const token = (fromFile ? textOf(source, path) : env[variable])?.trim();
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
    const found = certificatesIn(text);
    // TLS would silently ignore a text that is no certificate, and trust no node.
    if (found.length === 0) throw new Error('there is none');
    for (const pem of found) void new X509Certificate(pem);
  } catch (error) {
    throw new UsageError(`${source}: expected certificates in PEM (${reasonOf(error)})`);
  }
  return text;
}

function identityOf(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const source = `--cert-file ${path}`;
  const text = textOf(source, path);
  try {
    const [own = ''] = certificatesIn(text);
    if (new X509Certificate(own).checkPrivateKey(createPrivateKey(text))) return text;
  } catch {
    // Said below.
  }
  throw new UsageError(`${source}: expected a certificate and its private key in PEM`);
}

function textOf(source: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${source} cannot be read: ${reasonOf(error)}`);
  }
}
