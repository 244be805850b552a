/**
 * Options and their types: a kind turns a TOML value into the value of `Config`, or says what it expected. The
 * tables are options.ts and cold-options.ts.
 */
import { isIP, isIPv6 } from 'node:net';
import { resolve } from 'node:path';
import { ConfigError } from './error.ts';
import { type Address, formatAddress, isPublicUrl, parseAddress } from '../base/address.ts';
import {
  booleanFromText,
  formatDuration,
  formatSize,
  listFromText,
  numberFromText,
  parseDurationMs,
  parseSizeBytes,
  peersFromText,
} from './values.ts';

export interface ValueKind<T> {
  /** One word for the table in README.md. */
  readonly label: string;
  /** Completes "expected ...". */
  readonly expected: string;
  /** Answers undefined when `raw` is not acceptable. */
  parse(raw: unknown, key: string): T | undefined;
  /** The text of a flag or of a variable as the TOML value it stands for; without it the text is that value. */
  fromText?(text: string): unknown;
  /** The TOML value that `raw` stands for on the host of that name. */
  onHost?(raw: unknown, hostname: string, key: string): unknown;
  format(value: T): string;
  /** The value must not appear in messages. */
  readonly secret?: true;
}

interface Flag {
  readonly name: string;
  /** Stands for the value in --help. */
  readonly placeholder: string;
}

export interface Option<T> {
  readonly kind: ValueKind<T>;
  /** A sentence or two for README.md and --help. Names the unit where it is not in the value. */
  readonly about: string;
  readonly flag?: Flag;
  /** Shown instead of the default where that depends on the host. */
  readonly defaultNote?: string;
}

export interface Defaulted<T> extends Option<T> {
  readonly fallback: T;
}

export type Extra = Pick<Option<unknown>, 'flag' | 'defaultNote'>;

export const option = <T>(of: ValueKind<T>, fallback: T, about: string, extra: Extra = {}): Defaulted<T> => ({
  kind: of,
  fallback,
  about,
  ...extra,
});
export const optional = <T>(of: ValueKind<T>, about: string, extra: Extra = {}): Option<T> => ({
  kind: of,
  about,
  ...extra,
});

export interface Peer {
  readonly nodeId: number;
  readonly address: Address;
}

/** Ids travel as unsigned 32-bit numbers between nodes; 0 stands for "no node". */
export const NODE_ID_MAX = 2 ** 32 - 1;

const isText = (raw: unknown): raw is string => typeof raw === 'string' && raw !== '' && !raw.includes('\0');
const quote = (text: string): string => JSON.stringify(text);

export const text: ValueKind<string> = {
  label: 'string',
  expected: 'a string that is not empty',
  parse: (raw) => (isText(raw) ? raw : undefined),
  format: quote,
};

export const path: ValueKind<string> = {
  label: 'path',
  expected: 'a path, absolute or relative to the working directory',
  parse: (raw) => (isText(raw) ? resolve(raw) : undefined),
  format: quote,
};

/** Travels in an HTTP header, so only visible ASCII can arrive unharmed. */
export const token: ValueKind<string> = {
  label: 'string',
  expected: 'visible ASCII characters without blanks',
  parse: (raw) => (isText(raw) && /^[!-~]+$/.test(raw) ? raw : undefined),
  format: quote,
  secret: true,
};

export const boolean: ValueKind<boolean> = {
  label: 'boolean',
  expected: 'true or false',
  parse: (raw) => (typeof raw === 'boolean' ? raw : undefined),
  fromText: booleanFromText,
  format: String,
};

export const address: ValueKind<Address> = {
  label: 'address',
  expected: 'HOST:PORT such as "127.0.0.1:4437" or "[::1]:4437"',
  parse: parseAddress,
  format: (value) => quote(formatAddress(value)),
};

/** Absolute http or https address of a service, without a path. */
export const url: ValueKind<string> = {
  label: 'URL',
  expected: 'an http:// or https:// address without a path, such as "http://127.0.0.1:9000"',
  parse: (raw, key) => {
    if (!isText(raw)) return undefined;
    // The part before an @ may be a password, which must not get into a log.
    if (raw.includes('@')) {
      throw new ConfigError(
        `${key} (not shown) holds an @: expected an address without credentials; they have keys of their own`,
      );
    }
    const written = raw.replace(/\/$/, '');
    return isOrigin(written) ? written : undefined;
  },
  format: quote,
};

/** Such an address of this node, which others are told. */
export const publicUrl: ValueKind<string> = {
  ...url,
  parse: (raw, key) => {
    const written = url.parse(raw, key);
    return written !== undefined && isPublicUrl(written) ? written : undefined;
  },
};

/** Where a service of others takes what we post: with a path, and nothing that may be secret, since it is logged. */
export const endpoint: ValueKind<string> = {
  label: 'URL',
  expected: 'an http:// or https:// address, with a path if need be, such as "http://127.0.0.1:4318/v1/traces"',
  parse: (raw, key) => {
    if (!isText(raw)) return undefined;
    if (/[@?#]/.test(raw)) {
      throw new ConfigError(
        `${key} (not shown) holds an @, ? or #: expected an address without credentials and parameters; tokens have keys of their own`,
      );
    }
    return /^https?:\/\/[^/]/.test(raw) && URL.canParse(raw) ? raw : undefined;
  },
  format: quote,
};

/** A share of something. */
export const ratio: ValueKind<number> = {
  label: 'number',
  expected: 'a number from 0 to 1, such as 0.01',
  parse: (raw) => inRange(typeof raw === 'number' ? raw : undefined, 0, 1),
  fromText: (text) => (/^\d(\.\d{1,9})?$/.test(text) ? Number(text) : text),
  format: String,
};

/** Part of object keys, so it keeps to what every store takes. */
export const keyPrefix: ValueKind<string> = {
  label: 'string',
  expected: 'letters, digits, "_", "-" and "." with "/" between, such as "prod/millrace", at most 200',
  parse: (raw) => (isText(raw) && raw.length <= 200 ? prefixOf(raw) : undefined),
  format: quote,
};

function prefixOf(written: string): string | undefined {
  const trimmed = written.replace(/^\/|\/$/g, '');
  return trimmed.split('/').every((part) => /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(part)) ? trimmed : undefined;
}

/** `loopback`: every origin of this host's loopback, by http and https. */
const NAMED_ORIGINS: ReadonlySet<string> = new Set(['*', 'null', 'loopback']);

export const origins = listOfTexts(
  'a list of origins such as ["https://app.example"], ["loopback"], ["*"] for any, or [] for none',
  (item) => (NAMED_ORIGINS.has(item) || isOrigin(item) ? item : undefined),
);

/** Names or addresses without a port, as they stand in a Host header; without brackets, in small letters. */
export const hosts = listOfTexts(
  'a list of host names or addresses without ports, such as ["millrace.example"]',
  (item) => {
    const host = item.replace(/^\[|\]$/g, '').toLowerCase();
    return /^[a-z0-9._-]{1,253}$/.test(host) || isIPv6(host) ? host : undefined;
  },
);

/** `read`: an item as it is kept; undefined: it is none. */
function listOfTexts<T extends string>(
  expected: string,
  read: (item: string) => T | undefined,
): ValueKind<readonly T[]> {
  return {
    label: 'list',
    expected,
    parse: (raw) => {
      if (!Array.isArray(raw)) return undefined;
      const list = raw.map((item: unknown) => (typeof item === 'string' ? read(item) : undefined));
      return list.every((item) => item !== undefined) ? list : undefined;
    },
    fromText: listFromText,
    format: (value) => JSON.stringify(value),
  };
}

const PLANE_NAMES = ['client', 'admin'] as const;
export type PlaneName = (typeof PLANE_NAMES)[number];

export const planes = listOfTexts('a list of "client", "admin", or both', (item) =>
  PLANE_NAMES.find((name) => name === item),
);

export const peers: ValueKind<readonly Peer[]> = {
  label: 'list',
  expected: 'a list of { node_id = N, addr = "HOST:PORT" }',
  parse: (raw, key) =>
    Array.isArray(raw) ? raw.map((item: unknown, i) => parsePeer(item, `${key}[${i}]`)) : undefined,
  fromText: peersFromText,
  format: (value) => JSON.stringify(value),
};

export function integer(min: number, max: number): ValueKind<number> {
  return {
    label: 'integer',
    expected: `an integer from ${min} to ${max}`,
    parse: (raw) => inRange(typeof raw === 'number' && Number.isSafeInteger(raw) ? raw : undefined, min, max),
    fromText: numberFromText,
    format: String,
  };
}

const plainNodeId = integer(1, NODE_ID_MAX);

/** A number, or `hostname` for that of the host's name: what replicas of one template cannot be told one by one. */
export const nodeId: ValueKind<number> = {
  ...plainNodeId,
  expected: `${plainNodeId.expected}, or "hostname"`,
  onHost: (raw, hostname, key) => (raw === 'hostname' ? nodeIdOf(hostname, key) : raw),
};

/** `millrace-0.millrace.svc` is node 1: replicas are counted from 0, nodes from 1. */
function nodeIdOf(hostname: string, key: string): number {
  const ordinal = /^[^.]*-(\d{1,9})(?:\.|$)/.exec(hostname)?.[1];
  if (ordinal !== undefined) return Number(ordinal) + 1;
  throw new ConfigError(
    `${key} = "hostname": the name of this host, ${JSON.stringify(hostname)}, does not end with "-" and a number such as "millrace-0"`,
  );
}

export function duration(minMs: number, maxMs: number): ValueKind<number> {
  return {
    label: 'duration',
    expected: `a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, such as "500ms" or "30s"`,
    parse: (raw) => inRange(parseDurationMs(raw), minMs, maxMs),
    fromText: numberFromText,
    format: (value) => quote(formatDuration(value)),
  };
}

export function size(minBytes: number, maxBytes: number): ValueKind<number> {
  return {
    label: 'size',
    expected: `a size from ${formatSize(minBytes)} to ${formatSize(maxBytes)}, such as "64 MiB"`,
    parse: (raw) => inRange(parseSizeBytes(raw), minBytes, maxBytes),
    fromText: numberFromText,
    format: (value) => quote(formatSize(value)),
  };
}

export function choice<const T extends string>(...values: readonly T[]): ValueKind<T> {
  return {
    label: 'choice',
    expected: `one of ${values.map(quote).join(', ')}`,
    parse: (raw) => values.find((value) => value === raw),
    format: quote,
  };
}

function parsePeer(raw: unknown, key: string): Peer {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) throw refuse(key, raw, peers.expected);
  const entry = raw as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(entry)) {
    if (name !== 'node_id' && name !== 'addr')
      throw new ConfigError(`${key}.${name}: unknown key; a peer has node_id and addr`);
  }
  const id = plainNodeId.parse(entry['node_id'], key);
  if (id === undefined) throw refuse(`${key}.node_id`, entry['node_id'], plainNodeId.expected);
  const peerAddress = parseAddress(entry['addr']);
  if (peerAddress === undefined || peerAddress.port === 0) throw refuse(`${key}.addr`, entry['addr'], address.expected);
  return { nodeId: id, address: peerAddress };
}

/** The one form of every complaint about a value: which key, what was written, what would do. */
export function refuse(key: string, raw: unknown, expected: string): ConfigError {
  const written = raw === undefined ? `${key} is missing` : `${key} = ${show(raw)}`;
  return new ConfigError(`${written}: expected ${expected}`);
}

/** A pasted file should not fill the terminal. */
const SHOWN_CHARS_MAX = 80;

function show(raw: unknown): string {
  const written = typeof raw === 'number' ? String(raw) : JSON.stringify(raw);
  return written.length <= SHOWN_CHARS_MAX ? written : `${written.slice(0, SHOWN_CHARS_MAX)}...`;
}

function inRange(value: number | undefined, min: number, max: number): number | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

function isOrigin(written: string): boolean {
  if (!/^https?:\/\//.test(written) || !URL.canParse(written)) return false;
  return new URL(written).origin === written;
}

/** Addresses, and networks with the number of their leading bits. */
export const networks = listOfTexts(
  'a list of addresses and networks such as ["10.0.0.7", "192.168.0.0/16", "fd00::/8"]',
  (item) => (isNetwork(item) ? item : undefined),
);

function isNetwork(written: string): boolean {
  const match = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(written);
  const family = isIP(match?.[1] ?? '');
  return family !== 0 && Number(match?.[2] ?? 0) <= (family === 4 ? 32 : 128);
}
