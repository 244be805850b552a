/** Clients: each does one thing at a time, through any node, and repeats what is safe to repeat. */
import { errorCode } from '../../src/base/errors.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import type { Request } from '../../src/protocol/request.ts';
import { type Random, createRandom } from '../support/random.ts';
import { Client } from './client.ts';
import { StreamHistory } from './history.ts';
import { BUCKET, PURGED_BUCKET, type StreamName } from './requests.ts';
import { Quotas } from './quotas.ts';
import { Watching } from './watching.ts';
import type { World } from './world.ts';

/** The use of a stream. churn: created and deleted; short: expires. */
type Use = 'plain' | 'closable' | 'churn' | 'short';

export interface SimStream extends StreamName {
  readonly use: Use;
  readonly history: StreamHistory;
  created: boolean;
  /** An imported stream's memory of producers, by id. */
  readonly inherited?: ReadonlyMap<string, { readonly epoch: number; readonly seq: number }> | undefined;
}

/** A client without an answer continues after this long. */
const PATIENCE_MS = 12_000;
export class Clients {
  readonly #streams: SimStream[] = [];
  readonly counts = new Map<string, number>();
  readonly watching: Watching;
  readonly quotas: Quotas;
  readonly #world: World;
  readonly #random: Random;
  readonly #scout: Client;
  #tokens = 0;
  #working = true;
  #busy = 0;

  constructor(world: World) {
    this.#world = world;
    this.#random = createRandom(world.options.seed * 7 + 3);
    const fail = (what: string): never => {
      throw world.failure(what);
    };
    const add = (group: number, use: Use, json: boolean): void => {
      const name = `${use}${json ? 'j' : 't'}${group}`;
      const apart = world.options.purges && (use === 'churn' || use === 'short');
      const bucket = apart ? PURGED_BUCKET : BUCKET;
      this.#streams.push({
        group,
        bucket,
        name,
        json,
        use,
        created: false,
        history: new StreamHistory(name, json, fail),
      });
    };
    for (const group of world.options.served) {
      add(group, 'plain', false);
      add(group, 'plain', true);
      add(group, 'closable', this.#random.chance(0.5));
      add(group, 'churn', this.#random.chance(0.5));
      if (this.#random.chance(0.5)) add(group, 'short', false);
    }
    this.watching = new Watching(world);
    this.quotas = new Quotas(world, this);
    this.#scout = new Client(this, world, 'r', this.#random);
  }

  get streams(): readonly SimStream[] {
    return this.#streams;
  }

  /** More streams to use. */
  adopt(streams: readonly SimStream[]): void {
    this.#streams.push(...streams);
  }

  start(): void {
    for (let i = 0; i < this.#world.options.clients; i++) new Client(this, this.#world, `c${i}`, this.#random).next();
  }

  /** A node has started again. */
  started(node: number): void {
    if (this.#working) this.#scout.look(node);
  }

  /** No new requests; those under way come to their end. */
  stop(): void {
    this.#working = false;
  }

  get working(): boolean {
    return this.#working;
  }

  get busy(): number {
    return this.#busy;
  }

  newToken(client: string): string {
    return `${client}.${++this.#tokens}`;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** Sends through a node; `onAnswer` gets the reply, once, or undefined. */
  send(node: number, request: Request, isTransferred: boolean, onAnswer: (reply: Reply | undefined) => void): void {
    const process = this.#world.nodes[node - 1]?.process;
    this.#busy++;
    let open = true;
    const answer = (reply: Reply | undefined): void => {
      if (!open) return;
      open = false;
      this.#busy--;
      const isDamaged = reply !== undefined && errorCode(reply.code) === 'ROW_DAMAGED';
      if (isDamaged && this.#world.options.rowRotMs === undefined && !this.#world.blind)
        throw this.#world.failure(`rows that no disk changed are damaged on n${node}`);
      onAnswer(reply);
    };
    if (process === undefined) {
      this.#world.queue.after(10, () => answer(undefined));
      return;
    }
    process.request(request, isTransferred, answer);
    this.#world.queue.after(PATIENCE_MS, () => answer(undefined));
  }
}
