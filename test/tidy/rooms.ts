/**
 * The rooms of the house, floor by floor from the ground up. A file may import its own room and rooms on lower floors,
 * types too, and of these only the ones that its row names.
 */

export type Floor = Readonly<Record<string, readonly string[]>>;

/** Everything that lies on lower floors. */
export const ALL_BELOW = '*';

/**
 * A room is a folder of src/, or a part of one with a row of its own. A file in a row of its own is a port: an
 * interface that its room defines and that every higher room may import, except the pure ones. Raft and the state
 * machine do not know each other.
 */
const CORE: readonly Floor[] = [
  { 'base/tx.ts': [] },
  { base: [] },
  { 'raft/types.ts': [] },
  {
    ...{ protocol: ['base'], raft: ['base'], 'placement/state': ['base'] },
    // Tools that know nothing of streams.
    ...{
      json: ['base'],
      config: ['base'],
      digest: ['base'],
      encryption: [],
      access: ['base'],
      audit: ['base'],
      mailbox: ['base'],
      metrics: ['base'],
      threads: ['base'],
    },
    // Reads the built page.
    console: [],
    // Programs beside the nodes ask them over HTTP only.
    nodes: ['base'],
    // A package of its own for other people's programs.
    client: [],
  },
  {
    ...{ 'ports.ts': ['protocol'], 'cold/ports.ts': ['protocol'], 'backup/ports.ts': ['base'] },
    ...{ 'placement/ports.ts': [], 'subscriptions/ports.ts': [] },
    ...{ 'raft/codec': ['base', 'raft'], 'subscriptions/state': ['base', 'protocol'], logging: ['config'] },
  },
  {
    'peer/codec': ['base', 'raft', 'raft/codec'],
    gateway: ['base', 'protocol', 'mailbox'],
    topics: ['base', 'protocol'],
    'cold/store': ['base', 'protocol', 'digest', 'encryption'],
    tracing: ['base', 'protocol', 'config', 'logging'],
  },
];

/** The parts of the replicated state machine, lowest first: each knows only those in front of it. */
const STATE = [...['stream/core', 'stream/cold', 'stream/operations', 'stream/backup', 'stream/forks', 'stream']];

const STREAM: readonly Floor[] = STATE.map((part, floor) => ({
  [part]: [
    ...['base', 'protocol', 'json', ...STATE.slice(0, floor)],
    // The export leaves out the keys of webhooks.
    ...(part === 'stream/backup' ? ['subscriptions/state'] : []),
  ],
}));

/** Folders without a clock, randomness, `node:` modules and `async`. */
export const PURE: readonly string[] = [
  ...['base/tx.ts', 'base', 'protocol', 'json', 'raft/types.ts', 'raft', 'raft/codec', 'peer/codec', ...STATE, 'group'],
  ...['subscriptions/state', 'placement/state'],
];

/** Everything that a shard's thread runs, without its adapters. */
const SHARD: readonly Floor[] = [
  { group: ['base', 'protocol', 'json', 'raft', ...STATE] },
  {
    'shard/ports.ts': ['base', 'raft', 'peer/codec'],
    'forks/shard': ['base', 'protocol', 'group', 'stream/forks'],
  },
  {
    'backup/shard': ['base', 'protocol', 'group', 'stream/backup'],
    'cold/shard': [...PURE, 'metrics'],
  },
  { shard: [...PURE, 'metrics', 'cold/shard', 'forks/shard', 'backup/shard'] },
];

/**
 * Adapters implement the ports of the core; services run on the main thread and know neither HTTP nor the composition.
 */
const ADAPTERS: readonly Floor[] = [
  {
    store: ['base', 'peer/codec'],
    peer: ['base', 'raft', 'raft/codec', 'peer/codec'],
    tenants: ['base', 'protocol', 'access', 'gateway'],
    'backup/format': ['base', 'protocol', 'stream/backup', 'digest', 'encryption', 'cold/store'],
    'forks/service': ['base', 'protocol', 'stream/forks', 'gateway'],
    'subscriptions/webhooks': ['base', 'protocol', 'subscriptions/state', 'gateway'],
    'cold/service': [
      ...PURE,
      'config',
      'digest',
      'encryption',
      'cold/shard',
      'cold/store',
      'gateway',
      'logging',
      'threads',
    ],
  },
  {
    placement: ['base', 'protocol', 'placement/state', 'config', 'gateway', 'logging', 'peer'],
    'backup/export': [...PURE, 'digest', 'backup/format', 'cold/store', 'gateway', 'threads'],
    'subscriptions/service': [
      ...['base', 'protocol', 'subscriptions/state', 'subscriptions/webhooks'],
      ...['digest', 'gateway', 'logging', 'threads'],
    ],
  },
  { 'backup/import': [...PURE, 'digest', 'backup/format', 'backup/export', 'gateway'] },
  {
    backup: ['base', 'backup/export', 'backup/import'],
    http: [
      'base',
      'protocol',
      'topics',
      'access',
      'audit',
      'metrics',
      'digest',
      'gateway',
      'tenants',
      'placement/state',
      'console',
    ],
  },
  // Another form of the same operations, by the same functions.
  { session: ['base', 'protocol', 'topics', 'access', 'audit', 'http'] },
];

/** Programs: the node, its threads, and on top the tool, which no part of a node may import. */
const PROGRAMS: readonly Floor[] = [
  { server: [ALL_BELOW] },
  { workers: [ALL_BELOW] },
  {
    exporter: ['base', 'nodes'],
    // The page of the console for a whole cluster.
    'console/cluster': ['base', 'console', 'nodes'],
    // Backups as the tool makes, verifies and restores them.
    'backup/tool': [
      ...['base', 'config', 'encryption', 'threads', 'nodes'],
      ...['backup/format', 'stream/backup', 'subscriptions/state'],
    ],
  },
  {
    // A client of the nodes like any other.
    operator: [
      ...['base', 'config', 'audit', 'threads', 'console', 'console/cluster', 'nodes', 'exporter'],
      ...['backup/format', 'backup/tool', 'stream/backup'],
    ],
  },
  // The page and the tool share their findings.
  { 'console/model': ['base', 'nodes'] },
  { 'console/page': ['base', 'console/model', 'nodes'] },
];

export const FLOORS: readonly Floor[] = [...CORE, ...STREAM, ...SHARD, ...ADAPTERS, ...PROGRAMS];

/** Packages of pure functions: pure rooms may be their home. */
export const PURE_PACKAGE = /^(@node-rs\/crc32|msgpackr)$/;

/** Packages that only these rooms may import: other rooms use a port. */
export const PACKAGE_HOME: readonly (readonly [RegExp, ...string[]])[] = [
  [/^uws-/, 'http'],
  [/^lmdb$/, 'store'],
  [/^@node-rs\/crc32$/, 'store', 'peer/codec'],
  [/^(@napi-rs\/blake-hash|blake3)$/, 'digest'],
  [/^age-encryption$/, 'encryption'],
  [/^piscina$/, 'threads', 'backup/tool', 'workers'],
  [/^msgpackr$/, 'protocol', 'backup/format', 'client'],
  [/^@(aws-sdk|smithy)\//, 'cold/store'],
  [/^@opentelemetry\//, 'tracing'],
  [/^fast-jwt$/, 'access'],
  [/^smol-toml$/, 'config', 'nodes'],
  [/^yaml$/, 'nodes'],
  [/^(yargs|cli-progress)$/, 'operator'],
  [/^prom-client$/, 'exporter'],
  [/^(preact|uplot)(\/|$)/, 'console/page'],
];
