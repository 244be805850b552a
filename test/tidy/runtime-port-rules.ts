/**
 * Which files may use clocks, timers and randomness of the process directly. All others use the runtime port
 * (src/base/runtime.ts), so that the simulator can replace it. `setImmediate` only yields and is no clock.
 */
import { parseSync } from 'oxc-parser';
import type { Sources } from './import-rules.ts';

type Table = Readonly<Record<string, string>>;
type Node = Readonly<Record<string, unknown>>;

/** Files, and folders that end in a slash, with the reason. */
const DIRECT: Table = {
  'src/server/runtime.ts': "the port's implementation",
  'src/server/process.ts': 'tells a repeated signal to this process',
  'src/server/shards.ts': 'seeds the threads and waits until they end',
  'src/server/data-dir.ts': 'draws the id of a new directory',
  'src/server/node-identity.ts': 'draws the id of a new cluster',
  'src/logging/logger.ts': 'gives the log file its clock before anything else starts',
  'src/mailbox/wake.ts': 'puts a real thread to sleep on shared memory; the simulator has no threads',
  'src/console/page/': 'runs in a browser',
  'src/http/server.ts': 'closes real sockets',
  'src/access/bodies.ts': 'deadlines of real sockets',
  'src/access/upload-pace.ts': 'deadlines of real sockets',
  'src/access/token-clock.ts': 'when tokens end, and with them real sockets',
  'src/http/streaming.ts': 'deadlines of real sockets',
  'src/topics/clock.ts': 'deadlines of real sockets',
  'src/topics/feed.ts': 'cursors of the protocol',
  'src/http/live/long-poll.ts': 'cursors of the protocol',
  'src/http/live/sse.ts': 'cursors of the protocol; spread of real connections',
  'src/http/routes/bootstrap.ts': 'the boundary of a multipart answer',
  'src/http/limited.ts': 'deadlines of real sockets',
  'src/http/routes/streams.ts': 'deadlines of real sockets',
  'src/backup/import/spool.ts': 'names of files on a real disk',
  'src/cold/store/dir-store.ts': 'names and ages of files on a real disk',
  'src/cold/store/perform.ts': 'an object of its own in a real store',
  'src/cold/store/s3-upload.ts': 'ages of uploads in a real store',
  'src/encryption/age.ts': 'salts, with the rest of node:crypto',
  'src/subscriptions/webhooks/webhook-keys.ts': 'secrets, with the rest of node:crypto',
  'src/operator/': 'a separate program at a terminal, which no simulator runs',
  'src/exporter/': 'a part of the tool',
  'src/client/': 'a library for programs of others',
  'src/backup/tool/': 'a part of the tool',
};

const GLOBALS: ReadonlySet<unknown> = new Set(['setTimeout', 'setInterval']);
const MEMBERS: Readonly<Record<string, RegExp>> = {
  Date: /^now$/,
  performance: /^now$/,
  Math: /^random$/,
  process: /^hrtime$/,
  crypto: /^(getRandomValues|random\w+)$/,
  globalThis: /^(setTimeout|setInterval)$/,
};
const RANDOM = /^(getRandomValues|random\w+)$/;

/** One sentence for each violation, and for each line of the table that is not needed. */
export function runtimePortViolations(sources: Sources, direct = DIRECT): string[] {
  const found: string[] = [];
  const needed = new Set<string>();
  for (const [path, text] of sources) {
    const { program, errors } = parseSync(path, text);
    if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
    const uses = new Set<string>();
    visit(program as unknown as Node, uses);
    if (uses.size === 0) continue;
    const line = Object.keys(direct).find((one) => (one.endsWith('/') ? path.startsWith(one) : path === one));
    if (line !== undefined) needed.add(line);
    else found.push(`${path} uses ${[...uses].join(', ')}: take it from the Runtime that is passed in; see DIRECT`);
  }
  for (const line of Object.keys(direct)) {
    if (!needed.has(line)) found.push(`${line} uses no clock, timer or randomness: take it out of DIRECT`);
  }
  return found;
}

function visit(node: Node, uses: Set<string>): void {
  const use = useOf(node);
  if (use !== undefined) uses.add(use);
  // Names in `typeof setTimeout` as a type are no use, and useOf has judged an import as a whole.
  if (node['type'] === 'TSTypeQuery' || node['type'] === 'ImportDeclaration') return;
  for (const [key, child] of Object.entries(node)) {
    if ((key === 'property' || key === 'key') && node['computed'] !== true) continue;
    for (const one of Array.isArray(child) ? (child as readonly unknown[]) : [child]) if (isNode(one)) visit(one, uses);
  }
}

function useOf(node: Node): string | undefined {
  const { type } = node;
  if (type === 'Identifier') return GLOBALS.has(node['name']) ? String(node['name']) : undefined;
  if (type === 'MemberExpression') {
    const [object, property] = [String(nameOf(node['object'])), String(nameOf(node['property']))];
    return Object.hasOwn(MEMBERS, object) && MEMBERS[object]?.test(property) === true
      ? `${object}.${property}`
      : undefined;
  }
  if (type === 'ImportDeclaration') return importedUse(node);
  const isCall = type === 'NewExpression' || type === 'CallExpression';
  const isNow = isCall && nameOf(node['callee']) === 'Date' && (node['arguments'] as readonly unknown[]).length === 0;
  return isNow ? 'Date()' : undefined;
}

function importedUse(node: Node): string | undefined {
  const from = isNode(node['source']) ? String(node['source']['value']) : '';
  if (/^(node:)?timers(\/promises)?$/.test(from)) return from;
  if (!/^(node:)?crypto$/.test(from)) return undefined;
  const names = (node['specifiers'] as readonly Node[]).map((one) => String(nameOf(one['imported'])));
  return names.find((name) => RANDOM.test(name));
}

function nameOf(node: unknown): unknown {
  return isNode(node) ? node['name'] : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}
