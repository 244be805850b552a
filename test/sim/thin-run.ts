/**
 * One node behind thin links while writers want more than those carry. Every group must keep accepting writes; urgent
 * frames must not wait long, few bytes may be in flight, and a leader that cannot send must not stay leader.
 */
import type { Clients, SimStream } from './clients.ts';
import { type Random, createRandom } from '../support/random.ts';
import type { SimNode } from './node.ts';
import type { ThinLinks } from './options.ts';
import { appendRequest } from './requests.ts';
import { textPayload } from './tokens.ts';
import type { World } from './world.ts';

/** Leaders are elected and streams created. */
const QUIET_MS = 5000;
const LOOK_MS = 100;
const WRITERS_PER_GROUP = 4;
const BODY_BYTES = 1000;
const PAUSE_MS = 10;
/** Each takes the links of a node with large requests for seconds. */
const LARGE_BODY_BYTES = 4 * 1024 * 1024;
const REQUESTS_BYTES_PER_MS = 1000;

/** Rate of thin links; the writers want about ten times as much. */
const THIN_BYTES_PER_MS = 100;
/** Small messages pass, and an entry does not. */
const SMALL_BYTES = 400;
/** Less than the answers of the followers need. */
const TRICKLE_BYTES_PER_MS = 0.1;
const TRICKLE_MS = 3000;

/** From when on it must have come to rest: what was under way before may take a moment. */
const SETTLE_MS = 5000;
/** Three election timeouts of patience, and two elections. */
const SILENT_MS_MAX = 9000;
/** Bytes under way take half a second, and at most as much again when the window has just grown. */
const URGENT_WAIT_MS_MAX = 1000;
/** Bytes under way already take half a second; a large request would take four. */
const REQUEST_WAIT_MS_MAX = 1000;
/** Bytes of all groups under way to the node: 2.5 s worth. */
const UNDER_WAY_BYTES_MAX = 250_000;
/** Two periods of the quorum check, and a little: by then a leader that cannot send must have noticed. */
const UNHEARD_MS_MAX = 2500;

export class ThinRun {
  readonly counts = { thinWrites: 0, urgentMs: 0, requestMs: 0, underWayBytes: 0, givenUp: 0, silentMs: 0, unheard: 0 };
  readonly #world: World;
  readonly #clients: Clients;
  readonly #kind: ThinLinks;
  readonly #random: Random;
  /** By group: the last acknowledged write. */
  readonly #lastMs = new Map<number, number>();
  #thinSinceMs = Infinity;
  #thinNode = 0;

  constructor(world: World, clients: Clients, kind: ThinLinks) {
    this.#world = world;
    this.#clients = clients;
    this.#kind = kind;
    this.#random = createRandom(world.options.seed * 29 + 13);
  }

  start(): void {
    const { queue, network } = this.#world;
    network.onUrgent = (waitMs) => this.#onUrgent(waitMs);
    network.onRequest = (waitMs) => this.#onRequest(waitMs);
    queue.after(QUIET_MS, () => {
      // Answers must trickle in, and not queue behind what was in flight before.
      if (this.#kind === 'stale') return;
      for (const stream of this.#clients.streams) {
        if (stream.use !== 'plain' || stream.json) continue;
        for (let i = 0; i < WRITERS_PER_GROUP; i++) this.#write(stream, BODY_BYTES);
        if (this.#kind === 'requests') this.#write(stream, LARGE_BODY_BYTES);
      }
    });
    queue.after(2 * QUIET_MS, () => this.#begin());
  }

  #begin(): void {
    const { nodes, queue, network, options } = this.#world;
    const leading = nodes.filter((node) => options.groups.some((group) => leads(node, group)));
    const node = this.#random.pick(leading.length > 0 ? leading : nodes);
    this.#thinSinceMs = queue.nowMs;
    this.#thinNode = node.id;
    this.#world.trace(`n${node.id} is behind thin links: ${this.#kind}`);
    for (const { id } of nodes) {
      if (id === node.id) continue;
      if (this.#kind === 'large') network.narrow(node.id, id, 1000, SMALL_BYTES);
      else if (this.#kind === 'requests') network.narrow(node.id, id, REQUESTS_BYTES_PER_MS);
      else network.narrow(id, node.id, this.#kind === 'stale' ? TRICKLE_BYTES_PER_MS : THIN_BYTES_PER_MS);
      if (this.#kind === 'thin both') network.narrow(node.id, id, THIN_BYTES_PER_MS);
    }
    if (this.#kind === 'stale') queue.after(TRICKLE_MS, () => this.#silence(node));
    if (this.#kind !== 'stale') for (const group of options.groups) this.#lastMs.set(group, queue.nowMs);
    this.#look(node);
  }

  /** For as long as there are faults: through the nodes with good links, or requests through the other one. */
  #write(stream: SimStream, bytes: number): void {
    if (!this.#world.faulty) return;
    const again = (): void =>
      this.#world.queue.after(PAUSE_MS * (0.5 + this.#random.next()), () => this.#write(stream, bytes));
    if (!stream.created || (this.#kind === 'requests' && this.#thinNode === 0)) return again();
    const token = this.#clients.newToken('t0');
    const payload = textPayload(token, bytes);
    const op = stream.history.begin(token, payload.length, bytes);
    const isThere = ({ id }: SimNode): boolean => (this.#kind === 'requests') === (id === this.#thinNode);
    const node = this.#random.pick(this.#world.nodes.filter(isThere));
    this.#clients.send(node.id, appendRequest(stream, payload), false, (reply) => {
      if (reply?.code === 0) {
        stream.history.acknowledged(op, reply.startOffset, reply.nextOffset, node.id);
        this.counts.thinWrites++;
        this.#heard(stream.group);
      } else op.outcome = 'unknown';
      again();
    });
  }

  #heard(group: number): void {
    const { nowMs } = this.#world.queue;
    const lastMs = this.#lastMs.get(group);
    if (lastMs === undefined) return;
    this.counts.silentMs = Math.max(this.counts.silentMs, Math.round(nowMs - lastMs));
    this.#lastMs.set(group, nowMs);
  }

  get #settled(): boolean {
    return this.#world.faulty && this.#world.queue.nowMs > this.#thinSinceMs + SETTLE_MS;
  }

  #onUrgent(waitMs: number): void {
    // In a trickle everything waits.
    if (!this.#settled || this.#kind === 'stale') return;
    this.counts.urgentMs = Math.max(this.counts.urgentMs, Math.round(waitMs));
    if (waitMs > URGENT_WAIT_MS_MAX) throw this.#world.failure(`thin links: an urgent frame waited ${waitMs} ms`);
  }

  #onRequest(waitMs: number): void {
    if (!this.#settled || this.#kind !== 'requests') return;
    this.counts.requestMs = Math.max(this.counts.requestMs, Math.round(waitMs));
    if (waitMs > REQUEST_WAIT_MS_MAX) throw this.#world.failure(`thin links: a small request waited ${waitMs} ms`);
  }

  #look(node: SimNode): void {
    const { queue } = this.#world;
    if (!this.#world.faulty) return;
    for (const [group, lastMs] of this.#lastMs) {
      const silentMs = queue.nowMs - lastMs;
      if (silentMs > SILENT_MS_MAX)
        throw this.#world.failure(`thin links: group ${group} took nothing for ${silentMs} ms`);
    }
    if (this.#settled && this.#kind !== 'stale' && this.#kind !== 'requests') this.#lookUnderWay(node);
    const groups = node.process?.shard.groups ?? [];
    this.counts.givenUp = groups.reduce((sum, { raft }) => sum + raft.abdications, 0);
    queue.after(LOOK_MS, () => this.#look(node));
  }

  #silence(node: SimNode): void {
    const { nodes, queue, network, options } = this.#world;
    for (const { id } of nodes) if (id !== node.id) network.hold(node.id, id);
    queue.after(UNHEARD_MS_MAX, () => {
      if (!this.#world.faulty) return;
      this.counts.unheard++;
      const led = options.groups.filter((group) => leads(node, group));
      if (led.length > 0)
        throw this.#world.failure(`thin links: nothing arrives from node ${node.id}, and it leads ${led.join(' ')}`);
    });
  }

  #lookUnderWay(node: SimNode): void {
    let bytes = 0;
    for (const { process } of this.#world.nodes) {
      for (const { raft } of process?.shard.groups ?? []) {
        for (const peer of raft.peers()) if (peer.node === node.id) bytes += peer.inflightBytes;
      }
    }
    this.counts.underWayBytes = Math.max(this.counts.underWayBytes, bytes);
    if (bytes > UNDER_WAY_BYTES_MAX) throw this.#world.failure(`thin links: ${bytes} bytes of entries are under way`);
  }
}

function leads(node: SimNode, group: number): boolean {
  return node.process?.shard.group(group)?.leads === true;
}
