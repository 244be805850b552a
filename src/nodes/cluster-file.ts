/**
 * The operator's cluster file: TOML, JSON or YAML by its extension, `-` for stdin. What it holds:
 *
 *   nodes      a list of { id, admin_url | host [+ admin_port], http_url, name, instance_id }
 *   provider   a table with restart_cmd, for `restart`
 *
 * Blank strings count as absent; unknown members are ignored, because other tools keep theirs in the same file.
 */
import { readFile } from 'node:fs/promises';
import { text as readText } from 'node:stream/consumers';
import { parse as parseToml } from 'smol-toml';
import { Failure, reasonOf } from './failure.ts';
import { type Json, isObject } from './report.ts';

const ADMIN_PORT = 4438;
const CLIENT_PORT = 4437;
/** Ids are unsigned 32-bit numbers; 0 stands for "no node". */
const NODE_ID_MAX = 2 ** 32 - 1;
const FILE_BYTES_MAX = 4 * 1024 * 1024;

export interface ClusterNode {
  readonly id: number;
  /** The host as people see it. */
  readonly host: string;
  readonly name: string;
  readonly instanceId: string;
  /** Without a slash at the end. */
  readonly adminUrl: string;
  readonly httpUrl: string | undefined;
}

export interface ClusterFile {
  /** How messages call it. */
  readonly label: string;
  readonly nodes: readonly ClusterNode[];
  readonly restartCommand: string | undefined;
}

type Format = 'toml' | 'json' | 'yaml';

export async function readClusterFile(
  path: string,
  { stdin }: { readonly stdin: NodeJS.ReadableStream },
): Promise<ClusterFile> {
  const label = path === '-' ? 'the cluster file on stdin' : path;
  let text: string;
  try {
    text = path === '-' ? await readText(stdin) : await readFile(path, 'utf8');
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new Failure(`${label} cannot be read: ${isMissing ? 'there is no such file' : reasonOf(error)}`);
  }
  if (text.length > FILE_BYTES_MAX) throw new Failure(`${label} is longer than a cluster file can sensibly be`);
  return await parseClusterFile(label, text, path === '-' ? undefined : formatOf(path));
}

/** No format: that of stdin, which is guessed. */
export async function parseClusterFile(label: string, text: string, format: Format | undefined): Promise<ClusterFile> {
  // Some editors begin files with a mark of their encoding.
  const plain = text.replace(/^\uFEFF/, '');
  const document = await (format === undefined ? parseUnknown(label, plain) : parseAs(label, plain, format));
  if (!isObject(document)) throw new Failure(`${label}: expected a table with a list "nodes"`);
  const { nodes: list, provider } = document;
  if (!Array.isArray(list)) throw new Failure(`${label}: expected a list "nodes" of { id, host or admin_url }`);
  if (list.length === 0) throw new Failure(`${label}: the list "nodes" is empty`);
  const nodes = list.map((entry: unknown, i) => parseNode(`${label}: nodes[${i}]`, entry));
  const twice = nodes.find(({ id }, i) => nodes.findIndex((other) => other.id === id) !== i);
  if (twice !== undefined) throw new Failure(`${label}: node ${twice.id} is listed twice`);
  const shared = nodes.find(({ adminUrl }, i) => nodes.findIndex((other) => other.adminUrl === adminUrl) !== i);
  if (shared !== undefined) throw new Failure(`${label}: two nodes have the admin plane ${shared.adminUrl}`);
  const settings = isObject(provider) ? provider : {};
  return { label, nodes, restartCommand: textAt(`${label}: provider`, settings, 'restart_cmd') };
}

export function formatOf(path: string): Format {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const extension = name.lastIndexOf('.') > 0 ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : 'json';
  if (extension === 'toml' || extension === 'json') return extension;
  if (extension === 'yaml' || extension === 'yml') return 'yaml';
  throw new Failure(`${path}: expected a cluster file that ends in .toml, .json, .yaml or .yml`);
}

/** TOML and YAML overlap little; what neither takes is reported as TOML, which the manual uses. */
async function parseUnknown(label: string, text: string): Promise<unknown> {
  if (text.trimStart().startsWith('{')) return await parseAs(label, text, 'json');
  try {
    return await parseAs(label, text, 'toml');
  } catch (error) {
    let document: unknown;
    try {
      document = await parseAs(label, text, 'yaml');
    } catch {
      throw error;
    }
    if (isObject(document)) return document;
    throw error;
  }
}

async function parseAs(label: string, text: string, format: Format): Promise<unknown> {
  try {
    if (format === 'json') return JSON.parse(text) as unknown;
    if (format === 'toml') return parseToml(text);
    // A quarter of the tool's code, which few calls need.
    const yaml = await import('yaml');
    return yaml.parse(text, { logLevel: 'error' }) as unknown;
  } catch (error) {
    const reason = reasonOf(error).replace(/^Invalid TOML document: /, '');
    const { line } = error as { readonly line?: unknown };
    const where = typeof line === 'number' ? ` in line ${line}` : '';
    throw new Failure(`${label} is not valid ${format.toUpperCase()}${where}: ${reason.replace(/:$/, '')}`);
  }
}

function parseNode(label: string, entry: unknown): ClusterNode {
  if (!isObject(entry)) throw new Failure(`${label}: expected a table with id, and host or admin_url`);
  const { id } = entry;
  if (!isNumberUpTo(NODE_ID_MAX, id))
    throw new Failure(`${label}: expected an id from 1 to ${NODE_ID_MAX}, not ${JSON.stringify(id) ?? 'none'}`);
  const httpUrl = urlAt(label, entry, 'http_url');
  const adminUrl = urlAt(label, entry, 'admin_url');
  const host = textAt(label, entry, 'host') ?? hostOf(httpUrl) ?? hostOf(adminUrl);
  if (host === undefined) throw new Failure(`${label}: node ${id} needs a host, an http_url or an admin_url`);
  const port = portAt(label, entry);
  const fallback = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  if (adminUrl === undefined && !URL.canParse(fallback))
    throw new Failure(
      `${label}: ${JSON.stringify(host)} is not a host name${/:\d+$/.test(host) ? '; its port is an admin_port of its own' : ''}`,
    );
  return {
    id,
    host,
    name: textAt(label, entry, 'name') ?? `node-${id}`,
    instanceId: textAt(label, entry, 'instance_id') ?? '',
    adminUrl: adminUrl ?? fallback,
    httpUrl,
  };
}

/**
 * Where the node serves clients: as the file says, else on the usual port beside the usual one of its admin plane.
 * Undefined where that is on another port, such as that of a tunnel: what answers there on 4437 is anyone.
 */
export function clientUrlOf({ adminUrl, httpUrl }: ClusterNode): string | undefined {
  if (httpUrl !== undefined) return httpUrl;
  const url = new URL(adminUrl);
  if (url.port !== String(ADMIN_PORT)) return undefined;
  url.port = String(CLIENT_PORT);
  return url.origin;
}

function portAt(label: string, entry: Json): number {
  const port = entry['admin_port'] ?? ADMIN_PORT;
  if (!isNumberUpTo(65_535, port))
    throw new Failure(`${label}: expected an admin_port from 1 to 65535, not ${JSON.stringify(port)}`);
  return port;
}

function urlAt(label: string, entry: Json, name: string): string | undefined {
  const written = textAt(label, entry, name);
  if (written === undefined) return undefined;
  if (!/^https?:\/\//.test(written) || !URL.canParse(written))
    throw new Failure(
      `${label}: expected ${name} to be an http:// or https:// address, not ${JSON.stringify(written)}`,
    );
  return written.replace(/\/+$/, '');
}

/** Blank is absent. */
function textAt(label: string, entry: Json, name: string): string | undefined {
  const written = entry[name];
  if (written === undefined || written === null) return undefined;
  if (typeof written !== 'string') throw new Failure(`${label}: expected ${name} to be a string`);
  return written.trim() === '' ? undefined : written.trim();
}

function hostOf(url: string | undefined): string | undefined {
  return url === undefined ? undefined : new URL(url).hostname.replace(/^\[|\]$/g, '');
}

/** A whole number from 1. */
function isNumberUpTo(max: number, value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= max;
}
