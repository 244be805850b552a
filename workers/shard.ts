/** Thread entry: one shard with its real storage and rings. The loop never sleeps while there is work. */
import process from 'node:process';
import {
  type MessagePort,
  type TransferListItem,
  Worker,
  isMainThread,
  parentPort,
  workerData,
} from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { caughtMessage } from '../src/base/caught.ts';
import { toHex } from '../src/base/hex.ts';
import { ConfigError } from '../src/config/error.ts';
import { TransferReceiver, TransferSender } from '../src/mailbox/transfer-channel.ts';
import { RingReader, RingWriter } from '../src/mailbox/ring.ts';
import { Parker, Waker } from '../src/mailbox/wake.ts';
import { type Logger, threadLogger } from '../src/logging/logger.ts';
import type { SessionCount } from '../src/peer/listener.ts';
import { PROCESS_RUNTIME } from '../src/server/runtime.ts';
import type { Introduced, ShardData, ShardMessage, ToShard } from '../src/server/shards.ts';
import type { ClusterIdentity } from '../src/shard/cluster-identity.ts';
import { HAND_OVER_MS, handOver } from '../src/shard/hand-over.ts';
import type { ShardOptions } from '../src/shard/options.ts';
import { REPLAY_BYTES_MAX, changedBytesMax } from '../src/shard/backlog.ts';
import { owedBytes } from '../src/shard/disk-pressure.ts';
import { Shard } from '../src/shard/shard.ts';
import { ThreadWriter } from '../src/store/checkpoint-writer.ts';
import { type SideThread, ThreadSyncer } from '../src/store/log-sync.ts';
import { threadEntry } from '../src/threads/entry.ts';
import { FileGone } from '../src/store/named-file.ts';
import { openStore } from '../src/store/rebuild.ts';
import type { ShardStore, StoreFinding } from '../src/store/shard-store.ts';
import { storeFailure } from '../src/store/volume.ts';
import type { SyncData } from './sync.ts';
import { MainThreadStore } from './cold-port.ts';
import { type MemberData, beginRun, checkFormation, heard, openDirectories, openIdentity } from './membership.ts';
import { openPeers, startPeers } from './peer-links.ts';
import { RingReplies, RingRequests } from './ring-ports.ts';

/** Free space is looked at this often; the reserve covers what can be written meanwhile. */
const SPACE_SAMPLE_MS = 250;
/**
 * Under full load the event loop still turns this often, for timers and messages. In a cluster after every turn: what
 * the other nodes say waits in sockets, and each of the hops of a replicated append would wait for the yield.
 */
const YIELD_ALONE_MS = 20;
const YIELD_CLUSTER_MS = 0;

/** While leaderships move away, a turn comes at least this often. */
const HAND_OVER_TURN_MS = 10;

const runtime = PROCESS_RUNTIME;

/** Entries that a log line lists. */
const REPORTED_MAX = 32;

/** Permanent part of the names of objects of this run of the thread. */
const RUN_BYTES = 8;

/** Makes the threads of a shard that write its checkpoints and wait for syncs of its log. */
export type StartSideThread = (
  name: 'checkpoint' | 'sync',
  workerData: object,
  transferList: readonly TransferListItem[],
) => SideThread;

const startSideThread: StartSideThread = (name, data, transferList) =>
  new Worker(threadEntry(name), { workerData: data, transferList: [...transferList], execArgv: [] });

interface ShardParts extends Pick<ShardOptions, 'links'> {
  readonly data: MemberData;
  readonly cold: MainThreadStore;
  readonly storage: ShardStore;
  readonly reader: RingReader;
  readonly identity: ClusterIdentity;
  readonly log: Logger;
}

function shardOptions({ data, cold, storage, reader, identity, log, links }: ShardParts): ShardOptions {
  const nodes = data.cluster?.peers.map(({ nodeId }) => nodeId) ?? [data.nodeId];
  return {
    shard: data.shard,
    nodeId: data.nodeId,
    groups: data.groups,
    storage,
    requests: new RingRequests(reader, new TransferReceiver(data.requestTransfers.port, data.requestTransfers.shared)),
    replies: new RingReplies(
      new RingWriter(data.replyRing),
      new Waker(data.replyRing),
      new TransferSender(data.replyTransfers.port, data.replyTransfers.shared),
    ),
    nodes,
    // The others have nothing yet of a directory that a single node made.
    voters: data.membership.single === true ? [data.nodeId] : nodes,
    identity,
    links,
    runtime,
    seed: data.seed,
    boot: data.boot,
    cold: data.cold && {
      port: cold,
      settings: { ...data.cold, run: toHex(runtime.randomBytes(RUN_BYTES)) },
    },
    uncommittedBytesMax: data.uncommittedBytesMax,
    changedBytesMax: changedBytesMax(data.shardCount),
    replayBytesMax: REPLAY_BYTES_MAX,
    tickMs: data.tickMs,
    logWrites: data.logWrites,
    log: (level, message, fields) => log[level](fields ?? {}, message),
  };
}

/** Looks at the free space from now on; the result ends it. A store that lost its files ends the thread. */
function keepSampling(store: ShardStore, log: Logger): () => void {
  let why: string | undefined;
  const sample = (): void => {
    cancel = runtime.setTimer(SPACE_SAMPLE_MS, sample);
    try {
      store.sampleSpace();
      why = undefined;
    } catch (error) {
      if (error instanceof FileGone) throw error;
      if (why === caughtMessage(error)) return;
      why = caughtMessage(error);
      log.warn({ why }, 'cannot read the free space of the volume');
    }
  };
  let cancel = runtime.setTimer(SPACE_SAMPLE_MS, sample);
  return () => cancel();
}

function report(
  { checkedRows, converted, cut, removed, rebuilt, lost }: StoreFinding,
  shard: number,
  log: Logger,
): void {
  if (checkedRows !== undefined)
    log.info({ shard, rows: checkedRows }, 'the rows got checksums; versions before refuse this directory');
  if (converted !== undefined)
    log.info(
      { shard, entries: converted },
      'the log was moved out of LMDB into its own files; versions before refuse this directory',
    );
  if (cut !== undefined) {
    const { sequence: record, segment, at, bytes, items } = cut;
    const entries = items.map(({ group, index }) => ({ group, index }));
    log.warn(
      { shard, record, segment, at, bytes, entries: entries.slice(0, REPORTED_MAX), count: entries.length },
      'the last record of the log was not written to its end and was cut off; no client was told that it is on disk',
    );
  }
  if (removed !== undefined)
    log.warn({ shard, segments: removed }, 'damaged segments of the log were removed; nothing of them was needed');
  if (rebuilt !== undefined)
    log.error(
      { shard, ...rebuilt },
      'pages of the state could not be read: it was rebuilt without them, and groups with rows there are not opened',
    );
  if (lost === undefined) return;
  const { why, aside } = lost;
  log.error({ shard, why, aside }, 'the log is damaged: the other nodes restore this shard');
}

/** Its thread wakes the shard as clients do, whose requests come by `ring`. */
function threadSyncer(ring: SharedArrayBuffer, log: Logger, startThread: StartSideThread): ThreadSyncer {
  return new ThreadSyncer({
    start: (words) => startThread('sync', { words, ring } satisfies SyncData, []),
    clockMs: () => runtime.monotonicMs(),
    failed: (error) => log.warn({ why: caughtMessage(error) }, 'no thread for syncs of the log: turns wait for each'),
  });
}

interface Threads {
  readonly startThread: StartSideThread;
  readonly startWriter: (directory: string) => ThreadWriter;
}

async function run(start: ShardData, port: MessagePort, { startThread, startWriter }: Threads): Promise<void> {
  const log = threadLogger(start.log, 'shard', (logged) => port.postMessage({ logged } satisfies ShardMessage));
  const syncer = threadSyncer(start.requestRing, log, startThread);
  const store = await openStore(start.directory, {
    runtime,
    groups: start.groups,
    isAlone: start.cluster === undefined,
    onRebuild: ({ message: why }, bytes) =>
      log.warn({ shard: start.shard, why, bytes }, 'pages of the state cannot be read: it is rebuilt without them'),
    writer: startWriter,
    syncer,
  });
  const membership = await beginRun(port, store);
  if (membership === undefined) return await end(store, port);
  const data = { ...start, membership };
  if (store.fresh) store.markUsed(data.cluster === undefined || data.cluster.initMembership ? [] : data.groups);
  const reader = new RingReader(data.requestRing);
  const identity = openIdentity(data, port);
  const parker = new Parker(reader, () => reader.hasNext() || syncer.hasEnded);
  const wake = (): void => parker.unpark();
  const cold = new MainThreadStore(port);
  const directories = openDirectories(data, port, store, identity, () => shard);
  const { cluster } = data;
  const introduced = (peer: Introduced): void => port.postMessage({ introduced: peer } satisfies ShardMessage);
  const onSessions = (sessions: SessionCount): void => port.postMessage({ sessions } satisfies ShardMessage);
  const ends = { directories, introduced, onSessions, wake, log, cold, runtime };
  const peers = cluster && openPeers({ data, cluster, shard: () => shard, ...ends });
  const links = peers && { peers, wake };
  const shard: Shard = new Shard(shardOptions({ data, cold, storage: store, reader, identity, log, links }));
  report(store.found, data.shard, log);
  checkFormation(data, shard);
  if (data.draining) for (const { raft } of shard.groups) raft.electionPriority = 'none';
  store.owedBytes = () => owedBytes(shard.groups);
  let stopping = false;
  port.on('message', (message: ToShard) => {
    if (message === 'stop') stopping = true;
    else if ('found' in message) heard(message.found, { identity, directories, shard, port });
    else if ('tls' in message) peers?.changeTls(message.tls);
    else cold.answered(message);
    parker.unpark();
  });
  store.sampleSpace();
  const endSampling = keepSampling(store, log);
  if (peers !== undefined && cluster !== undefined) await startPeers(peers, cluster, data.shard);
  shard.start(runtime.monotonicMs());
  shard.turn(runtime.nowMs(), runtime.monotonicMs());
  port.postMessage('ready');
  const yieldMs = peers === undefined ? YIELD_ALONE_MS : YIELD_CLUSTER_MS;
  let yieldAtMs = runtime.monotonicMs() + yieldMs;
  while (!stopping) {
    const clockMs = runtime.monotonicMs();
    if (reader.hasNext() && clockMs < yieldAtMs) {
      shard.turn(runtime.nowMs(), clockMs);
      continue;
    }
    await parker.park(reader.hasNext() ? 0 : shard.waitMs(clockMs));
    yieldAtMs = runtime.monotonicMs() + yieldMs;
    shard.turn(runtime.nowMs(), runtime.monotonicMs());
  }
  const handOverUntilMs = runtime.monotonicMs() + HAND_OVER_MS;
  while (peers !== undefined && handOver(shard.groups) && runtime.monotonicMs() < handOverUntilMs) {
    shard.turn(runtime.nowMs(), runtime.monotonicMs());
    await parker.park(HAND_OVER_TURN_MS);
  }
  endSampling();
  shard.stop(runtime.nowMs(), runtime.monotonicMs());
  store.seal();
  await peers?.stop();
  await end(store, port);
}

async function end(store: ShardStore, port: MessagePort): Promise<void> {
  await store.close();
  port.postMessage('stopped');
  port.close();
}

/** Serves one node on this thread until the node stops, or tells the port why it cannot. */
export async function serve(data: ShardData, port: MessagePort, startThread = startSideThread): Promise<void> {
  const writers: ThreadWriter[] = [];
  const startWriter = (directory: string): ThreadWriter => {
    const writer = new ThreadWriter(directory, (sent) => startThread('checkpoint', sent, [sent.port]));
    writers.push(writer);
    return writer;
  };
  try {
    await run(data, port, { startThread, startWriter });
  } catch (error) {
    const refused = error instanceof ConfigError ? error.message : storeFailure(data.directory, error);
    if (refused === undefined) throw error;
    // This thread ends, and those that write checkpoints with it.
    for (const writer of writers) writer.settle();
    port.postMessage({ refused } satisfies ShardMessage);
    // By itself, before a timer or a socket runs: the node would end it within their calls of LMDB, and abort.
    process.exit();
  }
}

assert(!isMainThread && parentPort !== null, 'workers/shard runs in a worker thread');
// Threads that serve one node after the other, in tests, call `serve` themselves.
if (workerData !== undefined) void serve(workerData as ShardData, parentPort);
