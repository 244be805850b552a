/**
 * One life of a node's process: the real shard on a simulated disk, network, mailbox and clock. It ends by a crash
 * (also in the middle of a commit) or a stop; the disk stays.
 */
import type { Directories } from '../../src/shard/directories.ts';
import { DIFFERS, UNDECIDED, UNSETTLED } from '../../src/shard/comparison.ts';
import { REPAIRED } from '../../src/shard/damaged-groups.ts';
import { TOO_FAR_BEHIND } from '../../src/shard/outgoing-group-snapshots.ts';
import type { Runtime } from '../../src/base/runtime.ts';
import { ReadCache } from '../../src/gateway/read-cache.ts';
import { openInbox } from '../../src/shard/inbox.ts';
import { Shard } from '../../src/shard/shard.ts';
import { LogSyncError } from '../../src/store/log-files.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { REPLY_COLD, REPLY_RESULT } from '../../src/protocol/reply.ts';
import { type Request } from '../../src/protocol/request.ts';
import type { Message } from '../../src/raft/types.ts';
import type { Random } from '../support/random.ts';
import { ColdReads } from './cold/reads.ts';
import { openDirectories, shakeHands } from './directories.ts';
import { SimCrash } from './crash.ts';
import { SimSource, SimTarget } from './mailbox.ts';
import type { Connection, Endpoint } from './network.ts';
import type { SimNode } from './node.ts';
import { SimPeers } from './peers.ts';
import { Storage } from './storage.ts';
import type { SimStore } from './store.ts';
import type { World } from './world.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

/** Delay before a message is handled or a turn begins. */
const WAKE_MS = 0.4;
const EXPIRE_MS = 1000;
/** Streams are short: every answer may be kept, and some do not fit. */
const READ_CACHE = { bytesMax: 64 * 1024, answerBytesMin: 1, answerBytesMax: 16 * 1024 };
const YEAR_2023_MS = 1_700_000_000_000;

/** All rows several times a second, or never. */
const SCRUB = { bytesPerSecond: 1024 * 1024, pauseMs: 300 };
const NO_SCRUB = { bytesPerSecond: 0, pauseMs: 0 };

export class SimProcess implements Endpoint {
  readonly id: number;
  readonly boot: number;
  readonly node: SimNode;
  readonly store: SimStore;
  readonly peers: SimPeers;
  readonly shard: Shard;
  readonly directories: Directories;
  dead = false;
  /** Every shard has acknowledged that it is draining. */
  isMarked = false;
  /** Gets the tail events of watched streams, in order, while it lives. */
  onTail: ((reply: Reply) => void) | undefined;
  readonly #world: World;
  readonly #random: Random;
  readonly #source = new SimSource();
  readonly #target = new SimTarget();
  /** As the main thread has it. By group: a restored one has the names and incarnations of another here. */
  readonly #reads = new Map<number, ReadCache>();
  readonly #bornMs: number;
  /** The process is at work until then. */
  #localMs = 0;
  #inbox: (() => void)[] = [];
  #turnAtMs = Infinity;
  readonly #pending = new Map<number, (reply: Reply | undefined) => void>();
  readonly #inOrder = new Map<number, (reply: Reply) => void>();
  #slots = 0;
  /** Clocks of this run of the process. The wall clock may be off, and the other one a little too fast or too slow. */
  readonly runtime: Runtime = {
    nowMs: () => this.wallMs,
    monotonicMs: () => this.#clockMs,
    random: () => this.#random.next(),
    randomBytes: (sizeBytes) => new Uint8Array(sizeBytes),
    setTimer: (delayMs, run) => {
      let wanted = true;
      this.later(delayMs, () => wanted && run());
      return () => (wanted = false);
    },
  };
  #readBack = 0;
  #compared = 0;
  readonly #coldReads: ColdReads | undefined;
  /** Bound of what waits for a checkpoint; undefined: as in a server. Every second run of a node has a large one. */
  readonly changedBytesMax: number | undefined;

  constructor(world: World, node: SimNode, boot: number, lostLog: boolean) {
    const { options, queue, network, diskFault } = world;
    this.#world = world;
    this.node = node;
    this.id = node.id;
    this.boot = boot;
    this.changedBytesMax = options.slowCheckpoints?.changedBytesMax[node.boots % 2];
    this.#random = node.random;
    this.#bornMs = queue.nowMs;
    this.#coldReads = world.cold === undefined ? undefined : new ColdReads(world.cold, this);
    diskFault?.onBoot?.(node.disk);
    const { random, later } = { random: this.#random, later: this.later };
    const busy = (durationMs: number): void => void (this.#localMs = this.nowMs + durationMs);
    const wake = (): void => this.wake();
    const storage = new Storage({ world, node, random, later, busy, wake });
    this.store = storage.store;
    if (this.store.fresh) this.store.markUsed(lostLog ? options.groups : []);
    const seed = this.#random.int(1, 1e9);
    const pace = options.thin !== undefined || options.starved ? 'paced' : 'at once';
    const inbox = {
      ...openInbox({ shard: () => this.shard, wake, runtime: this.runtime }),
      // Turns that a thread would leave out find nothing to do, and the seeds on record count on them.
      onRaft: (group: number, message: Message) => {
        this.shard.onRaft(group, message);
        wake();
      },
    };
    this.peers = new SimPeers(this.id, boot, network, this.runtime, inbox, pace);
    this.shard = new Shard({
      shard: 0,
      nodeId: this.id,
      groups: options.groups,
      storage: this.store,
      requests: this.#source,
      replies: this.#target,
      voters: options.voters,
      nodes: options.nodes,
      runtime: this.runtime,
      seed,
      boot,
      messages: options.messages,
      links: { peers: this.peers, wake },
      ...(options.entryFillBytes === undefined ? {} : { entryFillBytes: options.entryFillBytes }),
      ...(options.pieces === undefined ? {} : { pieces: options.pieces }),
      ...this.#coldOptions(),
      ...(options.pinBounds === undefined ? {} : { pinBounds: options.pinBounds }),
      changedBytesMax: this.changedBytesMax,
      scrub: options.rowRotMs === undefined ? NO_SCRUB : SCRUB,
      log: (level, message, fields) => {
        if (message === TOO_FAR_BEHIND) world.checks.counts.tooFarBehind++;
        if (message === REPAIRED) world.checks.counts.repaired++;
        if ([DIFFERS, UNDECIDED, UNSETTLED].includes(message))
          throw world.failure(`comparison n${this.id}: ${message}`);
        world.trace(`n${this.id} ${level} ${message} ${JSON.stringify(fields ?? {})}`);
      },
    });
    this.directories = openDirectories(this, (line) => world.trace(line));
    this.#target.onReply = (reply) => this.#onReply(reply);
    storage.isOpen = true;
    world.checks.watch(this);
  }

  #coldOptions(): Pick<ConstructorParameters<typeof Shard>[0], 'cold' | 'uncommittedBytesMax'> {
    const { cold } = this.#world;
    if (cold === undefined) return {};
    const { settings, uncommittedBytesMax } = cold.options;
    const run = this.boot.toString(16).padStart(16, '0');
    return { cold: { port: cold.port(this), settings: { ...settings, run } }, uncommittedBytesMax };
  }

  start(): void {
    this.#world.network.attach(this);
    this.shard.start(this.#clockMs);
    this.#schedule(this.nowMs);
    this.#expireLater();
  }

  get nowMs(): number {
    return Math.max(this.#world.queue.nowMs, this.#localMs);
  }

  get wallMs(): number {
    return Math.floor(YEAR_2023_MS + this.nowMs + this.node.wallOffsetMs);
  }

  get #clockMs(): number {
    return 5000 + (this.nowMs - this.#bornMs) * this.node.clockRate;
  }

  /** SIGSTOP for a while. */
  pause(durationMs: number): void {
    this.#localMs = this.nowMs + durationMs;
  }

  /** Puts a request into the mailbox. The answer comes, or undefined when the process dies first. */
  request(request: Request, isTransferred: boolean, onReply: (reply: Reply | undefined) => void): void {
    const slot = ++this.#slots;
    // This one has no answer.
    if (request.op !== QUERIES.unwatch.number) this.#pending.set(slot, onReply);
    if (request.op === QUERIES.read.number) this.readsOf(request.group).ask(request, slot);
    this.#source.push(request, slot, isTransferred);
    this.wake();
  }

  readsOf(group: number): ReadCache {
    const known = this.#reads.get(group);
    if (known !== undefined) return known;
    const reads = new ReadCache(READ_CACHE);
    this.#reads.set(group, reads);
    return reads;
  }

  /** The same, but the answer is handled when it is published: live events of the same turn come behind it. */
  requestInOrder(request: Request, onReply: (reply: Reply) => void): void {
    const slot = ++this.#slots;
    this.#inOrder.set(slot, onReply);
    if (request.op === QUERIES.read.number) this.readsOf(request.group).ask(request, slot);
    this.#source.push(request, slot, false);
    this.wake();
  }

  /** Requests that have no answer yet. */
  get waiting(): number {
    return this.#pending.size;
  }

  receive(handle: () => void): void {
    if (this.dead) return;
    if (this.#inbox.length > 0 || this.#localMs > this.#world.queue.nowMs) {
      this.#inbox.push(handle);
      if (this.#inbox.length === 1) this.#drainLater();
      return;
    }
    this.guard(handle);
  }

  onLinkUp(connection: Connection): void {
    shakeHands(this, connection.to, () => this.#world.network.reset(this.id, connection.to.id));
    this.peers.linkUp(connection);
  }

  onLinkDown(connection: Connection): void {
    this.peers.linkDown(connection);
  }

  onFrame(connection: Connection, frame: Uint8Array): void {
    this.peers.frame(connection, frame);
  }

  onPong(connection: Connection): void {
    this.peers.pong(connection);
  }

  onSessionEnd(connection: Connection): void {
    this.peers.sessionEnd(connection);
  }

  /** A turn soon. */
  wake(): void {
    this.#schedule(this.nowMs + WAKE_MS * this.#random.next());
  }

  /** Runs `work` in this process later, if it lives. */
  readonly later = (delayMs: number, work: () => void): void => {
    this.#world.queue.at(this.nowMs + delayMs, () => this.receive(work));
  };

  /** SIGTERM: it says what it can, then ends. */
  stop(): void {
    this.guard(() => this.shard.stop(this.wallMs, this.#clockMs));
    if (!this.dead) this.die(false);
  }

  /** SIGKILL, or the end of the machine. */
  die(crash: boolean): void {
    if (this.dead) return;
    this.dead = true;
    if (crash) this.node.disk.crash();
    this.node.process = undefined;
    this.#world.network.detach(this);
    this.#inbox = [];
    this.#world.checks.unwatch(this);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const onReply of pending) this.#world.queue.after(1, () => onReply(undefined));
  }

  /** Runs a part of the process' work; a crash in it ends the process. */
  guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!isTheEnd(error)) throw this.#world.failure(`n${this.id}: ${String(error)}`, error);
      this.#world.trace(`n${this.id} dies: ${String(error)}`);
      this.die(true);
    }
  }

  #turn(): void {
    const { queue } = this.#world;
    this.#turnAtMs = Infinity;
    if (this.#localMs > queue.nowMs) {
      this.#schedule(this.#localMs);
      return;
    }
    this.guard(() => this.shard.turn(this.wallMs, this.#clockMs));
    if (this.dead) return;
    this.#world.checks.afterTurn(this);
    this.#world.checks.counts.readBack += this.store.logReadBack - this.#readBack;
    this.#readBack = this.store.logReadBack;
    const { comparisons } = this.shard;
    this.#world.checks.counts.compared += comparisons - this.#compared;
    this.#compared = comparisons;
    const waitMs = this.shard.waitMs(this.#clockMs) / this.node.clockRate;
    this.#schedule(this.nowMs + Math.max(0.1, waitMs));
  }

  #schedule(atMs: number): void {
    if (this.dead || atMs >= this.#turnAtMs) return;
    this.#turnAtMs = atMs;
    this.#world.queue.at(atMs, () => {
      // An earlier turn was asked for meanwhile.
      if (!this.dead && this.#turnAtMs === atMs) this.#turn();
    });
  }

  #drainLater(): void {
    this.#world.queue.at(this.#localMs, () => {
      while (!this.dead && this.#inbox.length > 0) {
        if (this.#localMs > this.#world.queue.nowMs) {
          this.#drainLater();
          return;
        }
        const handle = this.#inbox[0] as () => void;
        this.guard(handle);
        this.#inbox.shift();
      }
    });
  }

  #expireLater(): void {
    this.#world.queue.after(EXPIRE_MS, () => {
      if (this.dead) return;
      this.receive(() => this.peers.expire());
      this.#expireLater();
    });
  }

  #onReply(reply: Reply): void {
    if (reply.kind !== REPLY_RESULT) {
      this.onTail?.(reply);
      return;
    }
    for (const reads of this.#reads.values()) reads.answered(reply.id, reply);
    const inOrder = this.#inOrder.get(reply.id);
    if (inOrder !== undefined) {
      this.#inOrder.delete(reply.id);
      inOrder(reply);
      return;
    }
    const onReply = this.#pending.get(reply.id);
    if (onReply === undefined) throw this.#world.failure(`n${this.id} answers request ${reply.id} twice, or unasked`);
    this.#pending.delete(reply.id);
    if (reply.has(REPLY_COLD)) {
      this.#coldReads?.take(reply, onReply);
      return;
    }
    // It is published now; the client has it a little later, even if the process dies at once.
    this.#world.queue.at(this.nowMs + 0.2, () => onReply(reply));
  }
}

/** After a failed sync nothing is known of the disk, and no process goes on. */
function isTheEnd(error: unknown): boolean {
  return error instanceof SimCrash || error instanceof LogSyncError;
}
