/**
 * The architecture of the folders as a function from sources to violations. `imports.test.ts` applies and distrusts it.
 */
import { posix } from 'node:path';
import { parseSync } from 'oxc-parser';

/** Path from the repository's root with forward slashes -> text. */
export type Sources = ReadonlyMap<string, string>;

/** Features: rooms with their own parts. Their services know neither the HTTP side nor the composition. */
const FEATURES = ['cold', 'backup', 'forks', 'subscriptions', 'placement'];

/**
 * Interfaces between folders (and the errors they throw): adapters implement them, so they may know them. `ports.ts` of
 * a feature says what its service offers: HTTP imports that, and never the other way around.
 */
const PORTS = new Set([
  ...['src/ports.ts', 'src/raft/types.ts', 'src/shard/ports.ts', 'src/base/tx.ts'],
  ...FEATURES.map((feature) => `src/${feature}/ports.ts`),
]);

/** The parts of the replicated state machine, lowest first: each knows only those in front of it. */
const STATE = [
  'stream/json',
  'stream/core',
  'stream/cold',
  'stream/operations',
  'stream/backup',
  'stream/forks',
  'stream',
];
export const PURE: readonly string[] = [
  'base',
  'protocol',
  'raft',
  'raft/codec',
  'peer/codec',
  'group',
  ...STATE,
  'subscriptions/state',
  'placement/state',
];
/** Everything that a shard's thread runs, without its adapters. */
const SHARD = [...PURE, 'shard', 'cold/shard', 'forks/shard', 'backup/shard'];

/** What is composed into a process. The operator's tool is a separate program. */
const MAIN_THREAD = [
  ...[
    ...SHARD,
    'digest',
    'logging',
    'threads',
    'metrics',
    'config',
    'mailbox',
    'store',
    'peer',
    'gateway',
    'tenants',
    'http',
    'placement',
    'console',
    'tracing',
  ],
  ...['cold/store', 'cold/service', 'forks/service', 'subscriptions/service', 'subscriptions/webhooks'],
  ...['backup', 'backup/format', 'backup/export', 'backup/import'],
];

/**
 * What each room may import besides itself. A room is a folder of src/, or one of the parts of a feature with separate
 * rules. Raft and the state machine do not know each other.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  protocol: ['base'],
  raft: ['base'],
  'raft/codec': ['base', 'raft'],
  'peer/codec': ['base', 'raft', 'raft/codec'],
  ...Object.fromEntries(STATE.map((part, floor) => [part, ['base', 'protocol', ...STATE.slice(0, floor)]])),
  'stream/backup': ['base', 'protocol', 'subscriptions/state', ...STATE.slice(0, STATE.indexOf('stream/backup'))],
  'subscriptions/state': ['base', 'protocol'],
  'placement/state': ['base'],
  group: ['base', 'protocol', 'raft', ...STATE],
  shard: [...SHARD, 'metrics'],
  'cold/shard': [...SHARD, 'metrics'],
  'forks/shard': ['base', 'protocol', 'group', 'stream/forks'],
  'backup/shard': ['base', 'protocol', 'group', 'stream/backup'],
  // Adapters.
  digest: ['base'],
  metrics: ['base'],
  config: ['base'],
  logging: ['config'],
  tracing: ['base', 'protocol', 'config', 'logging'],
  threads: ['base'],
  mailbox: ['base'],
  store: ['base', 'peer/codec'],
  peer: ['base', 'raft', 'raft/codec', 'peer/codec'],
  'cold/store': ['base', 'protocol', 'digest'],
  cold: ['protocol'],
  // The main thread.
  gateway: ['base', 'protocol', 'mailbox'],
  tenants: ['base', 'protocol', 'gateway'],
  http: ['base', 'protocol', 'digest', 'gateway', 'tenants', 'placement/state', 'console'],
  // Reads the built page; what is in the page shares the tool's findings.
  console: [],
  'console/model': ['operator'],
  'console/page': ['console/model', 'operator'],
  'backup/format': ['base', 'protocol', 'stream/backup', 'digest', 'cold/store'],
  'backup/export': [...PURE, 'digest', 'backup/format', 'cold/store', 'gateway', 'threads'],
  'backup/import': [...PURE, 'digest', 'backup/format', 'backup/export', 'gateway'],
  backup: ['base', 'backup/export', 'backup/import'],
  'cold/service': [...PURE, 'config', 'digest', 'cold/shard', 'cold/store', 'gateway', 'logging', 'threads'],
  'forks/service': ['base', 'protocol', 'stream/forks', 'gateway'],
  'subscriptions/webhooks': ['base', 'protocol', 'subscriptions/state', 'gateway'],
  'subscriptions/service': [
    'base',
    'protocol',
    'subscriptions/state',
    'subscriptions/webhooks',
    'digest',
    'gateway',
    'logging',
    'threads',
  ],
  subscriptions: [],
  placement: ['base', 'protocol', 'placement/state', 'config', 'gateway', 'logging', 'peer'],
  // A client of the nodes like any other: what it knows of them came over HTTP. `backup` verifies, `cold` reaches the
  // store.
  operator: [
    'base',
    'protocol',
    'config',
    'digest',
    'backup/format',
    'stream/backup',
    'cold/store',
    'subscriptions/state',
    'threads',
    'console',
  ],
  server: MAIN_THREAD,
  workers: [...MAIN_THREAD, 'server'],
};

/** Files that only their own room may import: others use the results of the operations. */
const PRIVATE = new Set(['src/protocol/generic-fields.ts']);

/** Packages that only these rooms may import: other rooms use a port. */
export const PACKAGE_HOME: readonly (readonly [RegExp, ...string[]])[] = [
  [/^uws-/, 'http'],
  // The data directory of the reference server, for imports.
  [/^lmdb$/, 'store', 'operator'],
  [/^(@napi-rs\/blake-hash|blake3)$/, 'digest'],
  [/^piscina$/, 'threads', 'operator', 'workers'],
  [/^msgpackr$/, 'backup/format'],
  [/^@(aws-sdk|smithy)\//, 'cold/store'],
  [/^@opentelemetry\//, 'tracing'],
  [/^(yargs|smol-toml)$/, 'config', 'operator'],
  [/^(yaml|cli-table3|cli-progress|prom-client)$/, 'operator'],
  [/^(preact|uplot)(\/|$)/, 'console/page'],
];

const IMPURE_GLOBALS = new Set(
  (
    'Date performance process Buffer crypto console fetch require globalThis Promise ' +
    'setTimeout setInterval setImmediate clearTimeout clearInterval queueMicrotask'
  ).split(' '),
);

interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
  readonly reExport: boolean;
}

type Node = Readonly<Record<string, unknown>>;

interface Parsed {
  readonly body: readonly Node[];
  readonly imports: readonly Import[];
}

/** One sentence for each violation in src/ and workers/; empty when the rules hold. */
export function violations(sources: Sources): string[] {
  const found: string[] = [];
  const graph = new Map<string, string[]>();
  for (const [path, text] of sources) {
    const parsed = parse(path, text);
    const folder = folderOf(path);
    if (folder !== 'src' && MAY_IMPORT[folder] === undefined)
      found.push(`${path}: the folder ${folder} has no place in the layers`);
    const edges: string[] = [];
    for (const one of parsed.imports) {
      const target = one.specifier.startsWith('.') ? posix.join(posix.dirname(path), one.specifier) : undefined;
      const complaint =
        target === undefined ? packageFault(folder, one.specifier) : importFault(folder, target, one, sources);
      if (complaint !== undefined) found.push(`${path}: ${complaint}`);
      if (target !== undefined) edges.push(target);
    }
    graph.set(path, edges);
    if (isBarrel(path, parsed)) found.push(`${path}: a file that only re-exports others`);
    if (PURE.includes(folder))
      found.push(...impurities(parsed.body).map((what) => `${path}: ${what} in a pure folder`));
  }
  return [...found, ...cycles(graph)];
}

function parse(path: string, text: string): Parsed {
  const { program, module, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const imports: Import[] = module.staticImports.map((one) => ({
    specifier: one.moduleRequest.value,
    typeOnly: one.entries.length > 0 && one.entries.every((entry) => entry.isType),
    reExport: false,
  }));
  for (const { entries } of module.staticExports) {
    for (const entry of entries) {
      if (entry.moduleRequest === null) continue;
      imports.push({ specifier: entry.moduleRequest.value, typeOnly: entry.isType, reExport: true });
    }
  }
  return { body: program.body as unknown as readonly Node[], imports };
}

/**
 * The room of a file: `base` of src/base/x.ts, `stream/cold` of src/stream/cold/x.ts, `http` of src/http/live/x.ts,
 * `src` of src/ports.ts, `workers` of workers/x.ts.
 */
function folderOf(path: string): string {
  const [top = '', second, third, fourth] = path.split('/');
  if (top !== 'src' || second === undefined || third === undefined) return top;
  const part = `${second}/${third}`;
  return fourth !== undefined && Object.hasOwn(MAY_IMPORT, part) ? part : second;
}

function importFault(folder: string, target: string, one: Import, sources: Sources): string | undefined {
  if (!sources.has(target))
    return `imports ${target}, which is not a source file in src or workers (imports end in .ts)`;
  const to = folderOf(target);
  if (to === folder) return undefined;
  if (PRIVATE.has(target)) return `imports ${target}, which is private to ${to}`;
  if (PORTS.has(target) && !PURE.includes(folder)) return undefined;
  // src/ports.ts names the types that ports carry, whatever their folder.
  if (folder === 'src') return one.typeOnly ? undefined : `imports ${target} as a value; ports are types`;
  return MAY_IMPORT[folder]?.includes(to) === true ? undefined : `${folder} must not import ${to} (${target})`;
}

function packageFault(folder: string, specifier: string): string | undefined {
  if (PURE.includes(folder) || folder === 'src')
    return `imports ${specifier}; pure folders import nothing from outside`;
  for (const [name, ...homes] of PACKAGE_HOME) {
    if (name.test(specifier) && !homes.includes(folder))
      return `imports ${specifier}, which only src/${homes.join(' and src/')} may know`;
  }
  return undefined;
}

function isBarrel(path: string, { body, imports }: Parsed): boolean {
  if (/(^|\/)index\.ts$/.test(path)) return true;
  if (!imports.some((one) => one.reExport)) return false;
  return body.every((statement) => {
    if (statement['type'] === 'ImportDeclaration' || statement['type'] === 'ExportAllDeclaration') return true;
    return statement['type'] === 'ExportNamedDeclaration' && statement['declaration'] === null;
  });
}

function impurities(body: readonly Node[]): string[] {
  const found = new Set<string>();
  for (const statement of body) visit(statement, found);
  return [...found];
}

function visit(node: Node, found: Set<string>): void {
  const { type } = node;
  if (node['async'] === true) found.add('async function');
  if (type === 'AwaitExpression' || (type === 'ForOfStatement' && node['await'] === true)) found.add('await');
  if (type === 'ImportExpression') found.add('import()');
  if (type === 'MetaProperty' && nameOf(node['meta']) === 'import') found.add('import.meta');
  if (type === 'Identifier' && IMPURE_GLOBALS.has(String(node['name']))) found.add(String(node['name']));
  if (type === 'MemberExpression' && nameOf(node['object']) === 'Math' && nameOf(node['property']) === 'random') {
    found.add('Math.random');
  }
  for (const [key, child] of Object.entries(node)) {
    // `x.process`, `{ process: 1 }` and a method called process are names, not uses of a global.
    if ((key === 'property' || key === 'key') && node['computed'] !== true) continue;
    for (const one of Array.isArray(child) ? (child as readonly unknown[]) : [child])
      if (isNode(one)) visit(one, found);
  }
}

function nameOf(node: unknown): unknown {
  return isNode(node) ? node['name'] : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Types count too: two files that need each other's types are one idea in two files. */
function cycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const walk = (path: string): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      found.push(`import cycle: ${[...trail.slice(start), path].join(' -> ')}`);
      return;
    }
    if (done.has(path)) return;
    trail.push(path);
    for (const next of graph.get(path) ?? []) walk(next);
    trail.pop();
    done.add(path);
  };
  for (const path of graph.keys()) walk(path);
  return found;
}
