/**
 * Which files may read the wall clock, and which may compare its readings. People and other nodes set wall clocks: all
 * waits, timeouts and intervals use the monotonic clock (performance.now, `clockMs`).
 */
import { parseSync } from 'oxc-parser';
import type { Sources } from './import-rules.ts';

type Table = Readonly<Record<string, string>>;

/** Files that read it, and for what. */
const READERS: Table = {
  'src/server/runtime.ts': 'the port that gives it to others',
  'workers/shard.ts': 'commands carry it',
  'src/shard/inbox.ts': 'commands carry it',
  'src/backup/export/export-history.ts': 'shown to operators',
  'src/cold/service/health.ts': 'since when the store is away, shown to operators',
  'src/subscriptions/service/driver.ts': 'records of the log carry it; leases and pauses in the log',
  'src/subscriptions/service/key-rotation.ts': 'from when keys sign, as records say',
  'src/subscriptions/service/linker.ts': 'records of the log carry it',
  'src/subscriptions/service/subscription-membership.ts': 'records of the log carry it',
  'src/subscriptions/service/workers.ts': 'records of the log carry it; when tokens end',
  'src/subscriptions/webhooks/delivering.ts': 'when tokens and signatures end',
  'src/cold/store/dir-store.ts': 'compared with times of files',
  'src/cold/store/s3-upload.ts': 'compared with times of uploads',
  'src/console/page/watch.ts': 'the axis of plots',
  'src/client/workflow-queue.ts': 'records of the queue carry it: when messages are due, and leases',
  'src/client/workflow-storage.ts': 'events carry it',
  'src/server/certificate-watch.ts': 'compared with the end of a certificate',
  'src/server/planes.ts': 'shown beside times of exports, whose age it tells',
  'src/metrics/history.ts': 'the axis of plots; all nodes take samples at the same moments',
  'src/http/live/sse.ts': "cursors of the protocol count the clock's intervals",
  'src/topics/feed.ts': "cursors of the protocol count the clock's intervals",
  'src/http/live/long-poll.ts': "cursors of the protocol count the clock's intervals",
  'src/access/token-clock.ts': 'when tokens end',
  'src/audit/audit-log.ts': 'the moment in its lines',
  'src/tracing/otlp-traces.ts': 'spans carry it',
  'src/operator/verbs/status.ts': 'shown to operators',
  'src/operator/verbs/tokens.ts': 'when tokens end',
  'src/operator/backup.ts': 'compared with when a backup was written',
  'src/operator/streams/since.ts': 'compared with when records were written',
  'src/backup/tool/create.ts': 'compared with times of files',
};

/** Files that compare or subtract `nowMs`, which is the wall clock everywhere, and with what. */
const JUDGES: Table = {
  'src/server/certificate-watch.ts': 'the end of a certificate',
  'src/group/group.ts': 'smooths it for commands; when streams were last used, as their rows say',
  'src/stream/core/head.ts': 'lifetimes of streams, as rows and headers say',
  'src/stream/backup/apply-import.ts': 'times of commands',
  'src/stream/cold/objects.ts': 'when objects were let go of, as rows say',
  'src/cold/shard/cold-status.ts': 'when streams became hot, as rows say',
  'src/cold/shard/flusher.ts': 'when streams became hot, as rows say',
  'src/cold/shard/collector.ts': 'when objects were let go of, as rows say',
  'src/cold/shard/sweeper.ts': 'when objects were written, as the store says',
  'src/subscriptions/state/decide.ts': 'leases and pauses in the log, bounded where a clock was wrong',
  'src/topics/events.ts': "the protocol's intervals of the clock",
  'src/subscriptions/state/signing-keys.ts': 'from when keys sign, as records say',
  'src/subscriptions/service/driver.ts': 'leases and pauses in the log',
  'src/subscriptions/webhooks/webhook-keys.ts': 'when tokens end',
  'src/access/scopes.ts': 'when tokens end',
  'src/access/token-book.ts': 'whether tokens have ended, looked at again each second and after a jump',
  'src/access/client-certificates.ts': 'when certificates end',
  'src/access/jwt-verifier.ts': 'when tokens begin and end',
  'src/access/narrowed-tokens.ts': 'when tokens end',
  'src/access/grant-holders.ts': 'how long until tokens end, looked at again each minute',
  'src/tracing/otlp-traces.ts': 'where the monotonic clock of a request begins',
  'src/metrics/history.ts': 'whether it was set, by the monotonic clock',
};

const COMPARES: ReadonlySet<unknown> = new Set(['<', '<=', '>', '>=', '-', '-=']);
const WALL = /^(nowMs|wallMs|lastNowMs)$/;

type Node = Readonly<Record<string, unknown>>;

/** One sentence for each violation, and for each line of the tables that is not needed. */
export function clockViolations(sources: Sources, readers = READERS, judges = JUDGES): string[] {
  const found: string[] = [];
  const readersSeen = new Set<string>();
  const judgesSeen = new Set<string>();
  for (const [path, text] of sources) {
    const { program, errors } = parseSync(path, text);
    if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
    for (const node of nodes(program as unknown as Node)) {
      if (readsWallClock(node)) readersSeen.add(path);
      if (comparesWallClock(node)) judgesSeen.add(path);
    }
  }
  for (const path of readersSeen) {
    if (readers[path] === undefined)
      found.push(`${path} reads the wall clock: waits are measured with performance.now(); see READERS`);
  }
  for (const path of judgesSeen) {
    if (judges[path] === undefined)
      found.push(`${path} compares nowMs, the wall clock: waits are measured with clockMs; see JUDGES`);
  }
  for (const path of Object.keys(readers)) {
    if (!readersSeen.has(path)) found.push(`${path} does not read the wall clock: take it out of READERS`);
  }
  for (const path of Object.keys(judges)) {
    if (!judgesSeen.has(path)) found.push(`${path} does not compare nowMs: take it out of JUDGES`);
  }
  return found;
}

function readsWallClock(node: Node): boolean {
  if (node['type'] === 'MemberExpression') {
    const property = nameOf(node['property']);
    const object = lastNameOf(node['object']);
    return (object === 'Date' && property === 'now') || (object === 'runtime' && property === 'nowMs');
  }
  const isCall = node['type'] === 'NewExpression' || node['type'] === 'CallExpression';
  return isCall && nameOf(node['callee']) === 'Date' && (node['arguments'] as readonly unknown[]).length === 0;
}

function comparesWallClock(node: Node): boolean {
  if (node['type'] !== 'BinaryExpression' && node['type'] !== 'AssignmentExpression') return false;
  return COMPARES.has(node['operator']) && (isWall(node['left']) || isWall(node['right']));
}

/** nowMs, this.#nowMs, options.nowMs() and the like; also nowMs / 1000 and nowMs + x. */
function isWall(value: unknown): boolean {
  if (!isNode(value)) return false;
  if (value['type'] === 'CallExpression') return isWall(value['callee']);
  if (value['type'] === 'MemberExpression') return isWall(value['property']);
  if (value['type'] === 'BinaryExpression') return isWall(value['left']) || isWall(value['right']);
  return WALL.test(String(nameOf(value)));
}

function* nodes(node: Node): Generator<Node> {
  yield node;
  for (const child of Object.values(node)) {
    for (const one of Array.isArray(child) ? (child as readonly unknown[]) : [child])
      if (isNode(one)) yield* nodes(one);
  }
}

/** `runtime` of `runtime`, `this.#runtime` and `this.#options.runtime`. */
function lastNameOf(node: unknown): unknown {
  return isNode(node) && node['type'] === 'MemberExpression' ? nameOf(node['property']) : nameOf(node);
}

function nameOf(node: unknown): unknown {
  return isNode(node) ? node['name'] : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}
