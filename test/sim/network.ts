/**
 * The simulated network. A link is a connection one way, as in src/peer: messages of Raft on it may be lost, doubled,
 * late and out of order; everything else arrives once and in order as long as the connection lasts, as on TCP. What was
 * under way when a connection breaks arrives or does not; neither end knows.
 */
import type { Directories } from '../../src/shard/directories.ts';
import type { Random } from '../support/random.ts';
import type { EventQueue } from './queue.ts';

/** One run of a node's process, as its network card sees it. */
export interface Endpoint {
  readonly id: number;
  readonly boot: number;
  readonly directories: Directories;
  /** Its present: ahead of the queue's while it works. */
  readonly nowMs: number;
  /** Runs `handle` as soon as the process has time for it; never when it has died. */
  receive(handle: () => void): void;
  onLinkUp(connection: Connection): void;
  onLinkDown(connection: Connection): void;
  onFrame(connection: Connection, frame: Uint8Array): void;
  /** The other end's link broke; nothing more comes on it. */
  onSessionEnd(connection: Connection): void;
  /** A ping on this connection was answered. */
  onPong(connection: Connection): void;
}

/** A way of bounded width: frames leave one after the other. */
interface Narrow {
  readonly bytesPerMs: number;
  /** Larger messages of Raft never arrive. */
  readonly frameBytesMax: number;
  freeAtMs: number;
}

export class Connection {
  readonly from: Endpoint;
  readonly to: Endpoint;
  open = true;
  /** Messages that travel in order do not arrive before this. */
  fifoAtMs = 0;
  /** Frames that TCP repeats until the way is free again. */
  readonly held: Uint8Array[] = [];
  /** Nothing arrives later than this. */
  endAtMs = Infinity;

  constructor(from: Endpoint, to: Endpoint) {
    this.from = from;
    this.to = to;
  }
}

/** A connection over which nothing comes back is given up after about this long (ticks of the links). */
const SILENT_MS_MIN = 2000;
const SILENT_MS_MAX = 6000;
const PONG_BYTES = 12;
const RECONNECT_MS_MIN = 50;
const RECONNECT_MS_MAX = 1000;

export interface NetworkOptions {
  readonly delayMs: number;
  /** Loss of Raft's messages; everything else travels like TCP. */
  readonly loss: number;
  readonly duplicate: number;
  readonly reorder: number;
}

export class Network {
  readonly #queue: EventQueue;
  readonly #random: Random;
  #options: NetworkOptions;
  readonly #up = new Map<number, Endpoint>();
  /** By from and to. */
  readonly #connections = new Map<string, Connection>();
  readonly #cuts = new Set<string>();
  readonly #narrow = new Map<string, Narrow>();
  /** Nothing passes, and no end is notified. */
  readonly #held = new Set<string>();
  /** Frames that must not wait, or not long, and since when they do. */
  readonly #urgent = new WeakMap<Uint8Array, number>();
  readonly #requests = new WeakMap<Uint8Array, number>();
  /** Receive how long each of those took. */
  onUrgent: (waitMs: number) => void = () => {};
  onRequest: (waitMs: number) => void = () => {};

  constructor(queue: EventQueue, random: Random, options: NetworkOptions) {
    this.#queue = queue;
    this.#random = random;
    this.#options = options;
  }

  attach(endpoint: Endpoint): void {
    for (const other of this.#up.values()) {
      this.#connectSoon(endpoint, other, 5);
      this.#connectSoon(other, endpoint, 200);
    }
    this.#up.set(endpoint.id, endpoint);
  }

  /** The process died: its kernel closes what it had, or its machine is silent from now on. */
  detach(endpoint: Endpoint): void {
    if (this.#up.get(endpoint.id) === endpoint) this.#up.delete(endpoint.id);
    const noticedMs = this.#random.chance(0.2) ? SILENT_MS_MAX : 20;
    for (const connection of [...this.#connections.values()]) {
      if (connection.from === endpoint || connection.to === endpoint) this.#break(connection, noticedMs);
    }
  }

  /** A reset of both directions between two nodes. */
  reset(a: number, b: number): void {
    for (const key of [keyOf(a, b), keyOf(b, a)]) {
      const connection = this.#connections.get(key);
      if (connection !== undefined) this.#break(connection, 20);
    }
  }

  /** Breaks all connections of a node; nothing that is under way arrives. */
  drop(node: number): void {
    for (const connection of [...this.#connections.values()]) {
      if (connection.from.id !== node && connection.to.id !== node) continue;
      this.#break(connection, 20);
      connection.endAtMs = this.#queue.nowMs;
    }
  }

  cut(from: number, to: number): void {
    const key = keyOf(from, to);
    if (this.#cuts.has(key)) return;
    this.#cuts.add(key);
    // Neither direction is acknowledged any more, so both are given up after a while.
    this.#queue.after(this.#between(SILENT_MS_MIN, SILENT_MS_MAX), () => {
      if (this.#cuts.has(key)) this.reset(from, to);
    });
  }

  narrow(from: number, to: number, bytesPerMs: number, frameBytesMax = Infinity): void {
    this.#narrow.set(keyOf(from, to), { bytesPerMs, frameBytesMax, freeAtMs: 0 });
  }

  hold(from: number, to: number): void {
    this.#held.add(keyOf(from, to));
  }

  heal(): void {
    this.#cuts.clear();
    this.#narrow.clear();
    this.#held.clear();
    for (const connection of this.#connections.values()) {
      for (const frame of connection.held.splice(0)) this.send(connection, frame, false);
    }
  }

  /** No losses from now on. */
  calm(): void {
    this.#options = { ...this.#options, loss: 0, duplicate: 0, reorder: 0 };
    this.heal();
  }

  send(connection: Connection, frame: Uint8Array, lossy: boolean): void {
    const random = this.#random;
    if (this.#sendNarrow(connection, frame)) return;
    const cut = this.#cuts.has(keyOf(connection.from.id, connection.to.id));
    if (!lossy) {
      if (cut) {
        connection.held.push(frame);
        return;
      }
      connection.fifoAtMs = Math.max(connection.fifoAtMs, connection.from.nowMs + this.#delay());
      this.#arrive(connection, frame, connection.fifoAtMs);
      return;
    }
    const { loss, duplicate, reorder } = this.#options;
    if (cut || random.chance(loss)) return;
    let atMs = connection.from.nowMs + this.#delay();
    if (random.chance(reorder)) atMs += this.#delay() * random.int(1, 20);
    else connection.fifoAtMs = atMs = Math.max(connection.fifoAtMs, atMs);
    this.#arrive(connection, frame, atMs);
    if (random.chance(duplicate)) this.#arrive(connection, frame.slice(), atMs + this.#delay() * random.int(1, 30));
  }

  /** Does a message of Raft of this size arrive, if it leaves now? */
  fits({ from, to }: Connection, frame: Uint8Array): boolean {
    return frame.length <= (this.#narrow.get(keyOf(from.id, to.id))?.frameBytesMax ?? Infinity);
  }

  noteUrgent(connection: Connection, frame: Uint8Array): void {
    this.#urgent.set(frame, connection.from.nowMs);
  }

  /** A frame of small requests. */
  noteRequest(connection: Connection, frame: Uint8Array): void {
    this.#requests.set(frame, connection.from.nowMs);
  }

  /** The other end answers a ping. */
  pong(connection: Connection): void {
    const { from, to } = connection;
    const way = this.#narrow.get(keyOf(to.id, from.id));
    let atMs = to.nowMs + this.#options.delayMs;
    if (way !== undefined) {
      way.freeAtMs = Math.max(way.freeAtMs, to.nowMs) + PONG_BYTES / way.bytesPerMs;
      atMs = way.freeAtMs + this.#options.delayMs;
    }
    this.#queue.at(atMs, () => from.receive(() => from.onPong(connection)));
  }

  /** True: it was a matter of a bounded way, without any chance. */
  #sendNarrow(connection: Connection, frame: Uint8Array): boolean {
    const { from, to } = connection;
    const key = keyOf(from.id, to.id);
    if (this.#held.has(key)) {
      connection.held.push(frame);
      return true;
    }
    const way = this.#narrow.get(key);
    if (way === undefined) return false;
    way.freeAtMs = Math.max(way.freeAtMs, from.nowMs) + frame.length / way.bytesPerMs;
    connection.fifoAtMs = Math.max(connection.fifoAtMs, way.freeAtMs + this.#options.delayMs);
    this.#arrive(connection, frame, connection.fifoAtMs);
    return true;
  }

  #arrive(connection: Connection, frame: Uint8Array, atMs: number): void {
    this.#queue.at(atMs, () => {
      if (atMs > connection.endAtMs) return;
      const { to } = connection;
      const sinceMs = this.#urgent.get(frame);
      if (sinceMs !== undefined) this.onUrgent(atMs - sinceMs);
      const askedMs = this.#requests.get(frame);
      if (askedMs !== undefined) this.onRequest(atMs - askedMs);
      to.receive(() => to.onFrame(connection, frame));
    });
  }

  #break(connection: Connection, noticedMs: number): void {
    if (!connection.open) return;
    const { from, to } = connection;
    const key = keyOf(from.id, to.id);
    connection.open = false;
    if (this.#connections.get(key) === connection) this.#connections.delete(key);
    connection.endAtMs = this.#queue.nowMs + this.#between(0, 10);
    this.#queue.at(connection.endAtMs, () => to.receive(() => to.onSessionEnd(connection)));
    this.#queue.after(this.#between(0, noticedMs), () => {
      from.receive(() => from.onLinkDown(connection));
      this.#connectSoon(from, to, RECONNECT_MS_MAX);
    });
  }

  /** Tries until it works, or one of the two is not this process any more. */
  #connectSoon(from: Endpoint, to: Endpoint, mostMs: number): void {
    this.#queue.after(this.#between(Math.min(RECONNECT_MS_MIN, mostMs / 2), mostMs), () => {
      if (this.#up.get(from.id) !== from || this.#up.get(to.id) !== to) return;
      const key = keyOf(from.id, to.id);
      if (this.#connections.has(key)) return;
      if (this.#cuts.has(key) || this.#cuts.has(keyOf(to.id, from.id))) {
        this.#connectSoon(from, to, RECONNECT_MS_MAX);
        return;
      }
      const connection = new Connection(from, to);
      this.#connections.set(key, connection);
      from.receive(() => {
        if (connection.open) from.onLinkUp(connection);
      });
    });
  }

  #delay(): number {
    const { delayMs } = this.#options;
    return delayMs * (0.5 + this.#random.next() + (this.#random.chance(0.02) ? 10 * this.#random.next() : 0));
  }

  #between(low: number, high: number): number {
    return low + (high - low) * this.#random.next();
  }
}

function keyOf(from: number, to: number): string {
  return `${from}>${to}`;
}
