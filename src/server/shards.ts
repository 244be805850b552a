/** Spawns the shard threads, and reports when one of them fails: doubtful state is never served (invariant 9). */
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { type MessagePort, type TransferListItem, Worker } from 'node:worker_threads';
import { ConfigError } from '../config/error.ts';
import type { ClusterTls } from '../config/tls.ts';
import { REPLY_RING_BYTES, REQUEST_RING_BYTES } from '../base/limits.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../mailbox/transfer-channel.ts';
import { RingReader, RingWriter, createRing, ringDepth, ringUsedBytes } from '../mailbox/ring.ts';
import type { ColdOutcome, ColdSettings, ColdStorage, ColdTask } from '../cold/ports.ts';
import { type ShardLink } from '../gateway/gateway.ts';
import { threadEntry } from '../threads/entry.ts';
import type { SessionCount } from '../peer/listener.ts';
import type { ShardRun } from '../store/rows.ts';
import type { NodeLog, ThreadLog } from '../logging/logger.ts';
import type { ClusterData } from './cluster-data.ts';
import type { DirectoryStart } from '../peer/codec/standing.ts';
import type { LastRun, OpenedShards } from './directory-run.ts';
import type { WatchedLog } from './log-watch.ts';
import type { IdentityFinding, NodeMembership, MembershipData } from './node-identity.ts';
import type { Closed } from '../threads/thread-pool.ts';

/** Bodies transferred outside the rings, per direction and shard; above the 256 MiB that HTTP admits. */
const TRANSFER_BYTES_MAX = 512 * 1024 * 1024;
const STOP_WAIT_MS = 30_000;

interface TransferEnd {
  readonly port: MessagePort;
  readonly shared: SharedArrayBuffer;
}

/** A node that a shard of this one linked to. */
export interface Introduced {
  readonly node: number;
  readonly publicUrl: string;
}

/**
 * Messages of a shard thread: its store is open and was last used in that run; it has recorded this one, or has no room
 * for that; it serves; it has stopped; it has ended, and why in a sentence; what it found; a node that it met; how many
 * shards of other nodes are connected; a line for the node's log.
 */
export type ShardMessage =
  | { readonly opened: LastRun }
  | { readonly noted: boolean }
  | 'ready'
  | 'stopped'
  | { readonly refused: string }
  | { readonly found: IdentityFinding }
  /** It has on disk that these runs of its logs are lost. */
  | { readonly stored: readonly DirectoryStart[] }
  | { readonly introduced: Introduced }
  | { readonly sessions: SessionCount }
  | { readonly logged: string }
  | ColdQuestion;
/** Findings of a shard that serves, for its node. */
type ShardNews = Extract<
  ShardMessage,
  | { readonly found: unknown }
  | { readonly stored: unknown }
  | { readonly introduced: unknown }
  | { readonly sessions: unknown }
>;
/** Messages to it before it begins. */
export type BeforeBegin = 'stop' | { readonly note: ShardRun } | { readonly begin: MembershipData };
/** Messages to it from then on. */
export type ToShard =
  | 'stop'
  | { readonly found: IdentityFinding }
  | { readonly tls: ClusterTls | undefined }
  | ColdAnswer;
/** A task for the cold store, and what became of it. */
interface ColdQuestion {
  readonly id: number;
  readonly task: ColdTask;
}
export interface ColdAnswer {
  readonly id: number;
  readonly outcome: ColdOutcome;
}
/** Each thread draws its own run for object ids. */
export type ColdUse = Omit<ColdSettings, 'run'>;

/** Start data of a shard thread. */
export interface ShardData {
  readonly shard: number;
  readonly nodeId: number;
  readonly groups: readonly number[];
  readonly directory: string;
  readonly seed: number;
  /** Identifies this run of the process; the same for all shards. */
  readonly boot: number;
  readonly groupCount: number;
  readonly shardCount: number;
  /** Undefined: a single node. */
  readonly cluster: ClusterData | undefined;
  /** The node is marked: it must not lead, from its first turn on. */
  readonly draining: boolean;
  /** Undefined: no cold store. */
  readonly cold: ColdUse | undefined;
  /** Bound per group, after which its writes are refused; 0 = no bound of its own. */
  readonly uncommittedBytesMax: number;
  /** One tick of Raft; undefined: the usual one. */
  readonly tickMs: number | undefined;
  readonly log: ThreadLog;
  /** See CommitsOptions. */
  readonly logWrites: Int32Array;
  readonly requestRing: SharedArrayBuffer;
  readonly replyRing: SharedArrayBuffer;
  readonly requestTransfers: TransferEnd;
  readonly replyTransfers: TransferEnd;
}

/** A thread as its node sees it. */
export interface ShardThread {
  on(event: 'message', listener: (message: ShardMessage) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'exit', listener: (code: number) => void): unknown;
  postMessage(message: BeforeBegin | ToShard): void;
  terminate(): Promise<unknown>;
}

export type StartShardThread = (data: ShardData, transferList: readonly TransferListItem[]) => ShardThread;

export interface ShardsOptions extends Pick<
  ShardData,
  'groupCount' | 'nodeId' | 'cluster' | 'draining' | 'uncommittedBytesMax' | 'tickMs'
> {
  readonly count: number;
  readonly dataDir: string;
  /** Where old bytes go, and how. */
  readonly cold: { readonly use: ColdUse; readonly service: ColdStorage } | undefined;
  /** Undefined: a new thread for each shard. */
  readonly startThread: StartShardThread | undefined;
  readonly log: NodeLog;
  /** A shard thread failed; the node must not continue. */
  readonly onFailure: (error: Error) => void;
}

interface Running {
  readonly worker: ShardThread;
  readonly link: ShardLink;
  readonly watched: WatchedLog;
  readonly opened: Promise<LastRun>;
  readonly noted: Promise<boolean>;
  readonly ready: Promise<void>;
  readonly stopped: Promise<void>;
}

export class Shards implements OpenedShards {
  readonly #options: ShardsOptions;
  readonly #running: Running[] = [];

  /** Directories of the stores, in shard order. */
  readonly directories: readonly string[];
  /** Where clients reach the nodes, by id; of those that say so. */
  readonly publicUrls = new Map<number, string>();
  /** By shard. */
  readonly #sessions: SessionCount[] = [];
  /** Since they began. */
  #membership: NodeMembership | undefined;

  constructor(options: ShardsOptions) {
    this.#options = options;
    this.#introduced({ node: options.nodeId, publicUrl: options.cluster?.publicUrl ?? '' });
    this.directories = Array.from({ length: options.count }, (_, shard) => join(options.dataDir, `shard-${shard}`));
  }

  /** When one thread cannot be started, stop() ends those that were. */
  start(): void {
    const boot = randomInt(1, 2 ** 31);
    for (const [shard, directory] of this.directories.entries()) {
      const hear = (news: ShardNews): void => this.#hear(shard, news);
      this.#running.push(start({ shard, boot, directory, hear }, this.#options));
    }
  }

  #hear(shard: number, news: ShardNews): void {
    if ('found' in news) this.#membership?.found(news.found);
    else if ('stored' in news) this.#membership?.stored(shard, news.stored);
    else if ('introduced' in news) this.#introduced(news.introduced);
    else this.#sessions[shard] = news.sessions;
  }

  /** The last run of a node counts: it may have lost the setting. */
  #introduced({ node, publicUrl }: Introduced): void {
    if (publicUrl === '') this.publicUrls.delete(node);
    else this.publicUrls.set(node, publicUrl);
  }

  async opened(): Promise<readonly LastRun[]> {
    return await Promise.all(this.#running.map(({ opened }) => opened));
  }

  async note(directory: string, incarnation: number): Promise<boolean> {
    for (const [shard, { worker }] of this.#running.entries())
      worker.postMessage({ note: { shard, incarnation, directory } } satisfies BeforeBegin);
    const noted = await Promise.all(this.#running.map((running) => running.noted));
    return noted.every((isNoted) => isNoted);
  }

  /** Until then no shard votes, replicates or answers. */
  begin(membership: NodeMembership): void {
    this.#membership = membership;
    const tell = (message: BeforeBegin | ToShard): void =>
      this.#running.forEach(({ worker }) => worker.postMessage(message));
    tell({ begin: membership.data });
    membership.tell = (found) => tell({ found });
  }

  /** Certificates for new links, or another mode of TLS. */
  changeTls(tls: ClusterTls | undefined): void {
    for (const { worker } of this.#running) worker.postMessage({ tls } satisfies ToShard);
  }

  get links(): readonly ShardLink[] {
    return this.#running.map(({ link }) => link);
  }

  get logs(): readonly WatchedLog[] {
    return this.#running.map(({ watched }) => watched);
  }

  /** Resolves when all groups are loaded, and lead where this node is the only voter. */
  async ready(): Promise<void> {
    await Promise.all(this.#running.map(({ ready }) => ready));
  }

  /** Requests waiting in each shard's mailbox. */
  depths(): number[] {
    return this.#running.map(({ link }) => ringDepth(link.requestSab));
  }

  /** Connections of the other nodes' shards, as of a second ago. */
  sessions(): SessionCount {
    const sum = (a: SessionCount, b: SessionCount): SessionCount => ({
      ...{ all: a.all + b.all, encrypted: a.encrypted + b.encrypted },
    });
    return this.#sessions.reduce(sum, { all: 0, encrypted: 0 });
  }

  usedBytes(): number[] {
    return this.#running.map(({ link }) => ringUsedBytes(link.requestSab));
  }

  /** Checkpoints everything and ends the threads. */
  async stop(): Promise<Closed> {
    for (const { worker } of this.#running) worker.postMessage('stop');
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Closed>((resolve) => {
      timer = setTimeout(resolve, STOP_WAIT_MS, 'hanging');
    });
    const end = async ({ stopped, worker }: Running): Promise<unknown> => {
      await stopped;
      return await worker.terminate();
    };
    const all = Promise.all(this.#running.map(end)).then((): Closed => 'ended');
    const closed = await Promise.race([all, late]);
    clearTimeout(timer);
    // A thread that hangs in a system call ends when that call returns.
    if (closed === 'hanging') for (const { worker } of this.#running) void worker.terminate();
    return closed;
  }
}

const startWorker: StartShardThread = (workerData, transferList) =>
  new Worker(threadEntry('shard'), { workerData, transferList: [...transferList] });

interface StartOfShard extends Pick<ShardData, 'shard' | 'boot' | 'directory'> {
  readonly hear: (news: ShardNews) => void;
}

function start({ shard, boot, directory, hear }: StartOfShard, options: ShardsOptions): Running {
  const { count, nodeId, groupCount, cluster, draining, uncommittedBytesMax, tickMs } = options;
  const requestRing = createRing(REQUEST_RING_BYTES);
  const replyRing = createRing(REPLY_RING_BYTES);
  const requestTransfers = createTransferChannel(TRANSFER_BYTES_MAX);
  const replyTransfers = createTransferChannel(TRANSFER_BYTES_MAX);
  const groups: number[] = [];
  for (let group = shard; group < groupCount; group += count) groups.push(group);
  const data: ShardData = {
    ...{ shard, nodeId, groups, directory, boot, groupCount, cluster, draining, uncommittedBytesMax, tickMs },
    seed: randomInt(1, 2 ** 31),
    shardCount: count,
    cold: options.cold?.use,
    log: options.log.threads,
    logWrites: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)),
    requestRing,
    replyRing,
    requestTransfers: { port: requestTransfers.receivePort, shared: requestTransfers.shared },
    replyTransfers: { port: replyTransfers.sendPort, shared: replyTransfers.shared },
  };
  const { startThread = startWorker } = options;
  const worker = startThread(data, [data.requestTransfers.port, data.replyTransfers.port]);
  const link: ShardLink = {
    requests: new RingWriter(requestRing),
    requestSab: requestRing,
    requestTransfers: new TransferSender(requestTransfers.sendPort, requestTransfers.shared),
    replies: new RingReader(replyRing),
    replyTransfers: new TransferReceiver(replyTransfers.receivePort, replyTransfers.shared),
  };
  const watched = { path: join(directory, 'log'), writes: data.logWrites };
  return { worker, link, watched, ...supervise(worker, { shard, hear }, options) };
}

const NO_STORE: ColdOutcome = { ok: false, failure: 'denied', message: 'this node has no cold store' };

async function perform(worker: ShardThread, store: ColdStorage | undefined, { id, task }: ColdQuestion): Promise<void> {
  worker.postMessage({ id, outcome: (await store?.ask(task)) ?? NO_STORE });
}

function supervise(
  worker: ShardThread,
  { shard, hear }: Pick<StartOfShard, 'shard' | 'hear'>,
  options: ShardsOptions,
): Omit<Running, 'worker' | 'link' | 'watched'> {
  const [opened, noted] = [deferred<LastRun>(), deferred<boolean>()];
  const [ready, stopped] = [deferred<void>(), deferred<void>()];
  let expected = false;
  let isReady = false;
  worker.on('message', (message: ShardMessage) => {
    if (message === 'ready') {
      isReady = true;
      ready.resolve();
    }
    if (message === 'stopped') {
      expected = true;
      stopped.resolve();
    }
    if (typeof message !== 'object') return;
    if ('opened' in message) return opened.resolve(message.opened);
    if ('noted' in message) return noted.resolve(message.noted);
    if ('logged' in message) return options.log.write(message.logged);
    if ('task' in message) return void perform(worker, options.cold?.service, message);
    if (!('refused' in message)) return hear(message);
    expected = true;
    const error = new ConfigError(message.refused);
    if (isReady) fail(error);
    else reject(error);
  });
  const reject = (error: Error): void => {
    for (const step of [opened, noted, ready]) step.reject(error);
  };
  const fail = (error: Error): void => {
    reject(error);
    options.onFailure(error);
  };
  worker.on('error', fail);
  worker.on('exit', (code) => {
    if (!expected) fail(new Error(`shard ${shard} ended with code ${code}`));
    stopped.resolve();
  });
  return { opened: opened.promise, noted: noted.promise, ready: ready.promise, stopped: stopped.promise };
}

interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: Error): void;
}

function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<T>((onResolve, onReject) => {
    [resolve, reject] = [onResolve, onReject];
  });
  // onFailure also reports a failure, so no listener is needed here.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
