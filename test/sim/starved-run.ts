/**
 * Nodes that get the processor rarely, and for a moment, with links of any width between them. What they say comes
 * late, and together: nothing of that is the links' doing, so large bodies must go on getting through.
 */
import { type Random, createRandom } from '../support/random.ts';
import type { Clients, SimStream } from './clients.ts';
import type { SimNode } from './node.ts';
import { appendRequest } from './requests.ts';
import { textPayload } from './tokens.ts';
import type { World } from './world.ts';

/** Leaders are elected and streams created. */
const QUIET_MS = 5000;
const WRITERS = 6;
const BODY_BYTES = 1024 * 1024;
/** Bounds what a run writes, and so what it costs. */
const PAUSE_MS = 100;
/** Turns of the processor, and between two of them: usually short, sometimes near an election timeout. */
const TURN_MS = 15;
const WAIT_MS_MIN = 150;
const WAIT_MS_MAX = 900;
/**
 * Nodes that are starved like that take twice as much and more; a link whose window has closed carries a fifth of it.
 */
const BYTES_PER_SECOND_MIN = 350_000;
/** From when on it is measured: windows have found their width. */
const SETTLE_MS = 5000;

export class StarvedRun {
  readonly counts = { starvedWrites: 0, starvedKiBPerSecond: 0 };
  readonly #world: World;
  readonly #clients: Clients;
  readonly #random: Random;
  #bytes = 0;

  constructor(world: World, clients: Clients) {
    this.#world = world;
    this.#clients = clients;
    this.#random = createRandom(world.options.seed * 31 + 17);
  }

  start(): void {
    this.#world.queue.after(QUIET_MS, () => this.#begin());
  }

  #begin(): void {
    const { nodes, queue, options } = this.#world;
    const [group = 0] = options.groups;
    const leader = nodes.find(({ process }) => process?.shard.group(group)?.leads === true) ?? nodes[0];
    const stream = this.#clients.streams.find((one) => one.group === group && one.use === 'plain' && !one.json);
    if (leader === undefined || stream === undefined) return;
    this.#world.trace(`all nodes are starved; n${leader.id} leads`);
    for (const node of nodes) this.#starve(node);
    // Through the others, so that the bodies pass links.
    const others = nodes.filter((node) => node !== leader);
    for (let i = 0; i < WRITERS; i++) this.#write(stream, others[i % others.length] ?? leader);
    queue.after(SETTLE_MS, () => this.#measure());
  }

  #starve(node: SimNode): void {
    const { queue, faulty } = this.#world;
    if (!faulty) return;
    const share = this.#random.next();
    const waitMs = WAIT_MS_MIN + (WAIT_MS_MAX - WAIT_MS_MIN) * share * share;
    node.process?.pause(waitMs);
    queue.after(waitMs + TURN_MS * (0.5 + this.#random.next()), () => this.#starve(node));
  }

  #write(stream: SimStream, node: SimNode): void {
    if (!this.#world.faulty) return;
    const again = (): void => this.#world.queue.after(PAUSE_MS, () => this.#write(stream, node));
    if (!stream.created) return again();
    const token = this.#clients.newToken('s0');
    const payload = textPayload(token, BODY_BYTES);
    const op = stream.history.begin(token, payload.length, BODY_BYTES);
    this.#clients.send(node.id, appendRequest(stream, payload), false, (reply) => {
      if (reply?.code === 0) {
        stream.history.acknowledged(op, reply.startOffset, reply.nextOffset, node.id);
        this.counts.starvedWrites++;
        this.#bytes += payload.length;
      } else op.outcome = 'unknown';
      again();
    });
  }

  #measure(): void {
    const { queue, options } = this.#world;
    const [before, sinceMs] = [this.#bytes, queue.nowMs];
    queue.at(options.safetyMs - 1, () => {
      const rate = (1000 * (this.#bytes - before)) / (queue.nowMs - sinceMs);
      this.counts.starvedKiBPerSecond = Math.round(rate / 1024);
      if (rate >= BYTES_PER_SECOND_MIN) return;
      throw this.#world.failure(`starved nodes: ${Math.round(rate)} bytes per second where links carry any number`);
    });
  }
}
