/**
 * Clients go on where the source was when it was exported: their streams are there with what was in them then and
 * nothing else, and what producers were told is remembered.
 */
import { errorCode } from '../../../src/base/errors.ts';
import type { Head } from '../../../src/stream/core/head.ts';
import { TAG, bareIncarnationOf } from '../../../src/stream/core/keys.ts';
import { type ProducerState as Known, decodeProducer } from '../../../src/stream/core/producers.ts';
import { REPLY_DUPLICATE } from '../../../src/protocol/reply.ts';
import { type Random, createRandom } from '../../support/random.ts';
import { latin1 } from '../../support/sorted-rows.ts';
import { FOR_A_WHILE } from '../client.ts';
import type { Clients, SimStream } from '../clients.ts';
import type { Reference } from '../reference.ts';
import { appendRequest } from '../requests.ts';
import { jsonPayload, textPayload } from '../tokens.ts';
import type { World } from '../world.ts';
import type { Taken } from './exporting.ts';

const AGAIN_MS = 150;
/** As many old requests are repeated. */
const REPEATED_MAX = 6;

interface Repeat {
  readonly stream: SimStream;
  readonly id: string;
  readonly known: Known;
}

export class Heirs {
  readonly #world: World;
  readonly #clients: Clients;
  readonly #target: number;
  readonly #random: Random;
  #left = 0;

  constructor(world: World, clients: Clients, target: number) {
    this.#world = world;
    this.#clients = clients;
    this.#target = target;
    this.#random = createRandom(world.options.seed * 73 + 37);
  }

  get settled(): boolean {
    return this.#left === 0;
  }

  /** `node` has said that everything is there. */
  enter(taken: Taken, node: number): void {
    const { references } = this.#world.checks;
    const source = references[taken.group] as Reference;
    const target = references[this.#target] as Reference;
    const { appliedIndex, heads } = taken.stateDigest;
    const byKey = new Map(heads.map((head) => [latin1(head.key), head]));
    for (const [token, effect] of source.effects) {
      if (effect.index <= appliedIndex) target.effects.set(token, { ...effect, count: 1, index: 0 });
    }
    const producers = producersOf(taken);
    const heirs: SimStream[] = [];
    const repeats: Repeat[] = [];
    for (const stream of this.#clients.streams) {
      if (stream.group !== taken.group) continue;
      const head = byKey.get(`${stream.bucket}\0${stream.name}`);
      const heir = this.#heir(stream, head, target, node);
      const inherited = head === undefined ? undefined : producers.get(head.incarnation);
      heirs.push({ ...heir, inherited });
      for (const [id, known] of inherited ?? []) repeats.push({ stream: heir, id, known });
    }
    for (const repeat of repeats.slice(0, REPEATED_MAX)) {
      this.#left++;
      this.#repeat(repeat, () => {
        if (--this.#left === 0) this.#clients.adopt(heirs);
      });
    }
    if (this.#left === 0) this.#clients.adopt(heirs);
  }

  #heir(stream: SimStream, head: Head | undefined, target: Reference, node: number): SimStream {
    const { use, json } = stream;
    const from = json ? head?.recordFirst : head?.startOffset;
    const tail = json ? head?.recordNext : head?.tail;
    const isThere = head !== undefined || use === 'churn' || use === 'short';
    const name = `${stream.name} of g${this.#target}`;
    const history = stream.history.copy(name, (token) => (isThere ? target.effects.get(token)?.start : undefined));
    if (head !== undefined && (use === 'plain' || use === 'closable'))
      history.layOut(from ?? 0, tail ?? 0, head.closed, node);
    return { ...stream, group: this.#target, history, created: head !== undefined };
  }

  /** The last request of a producer, as if its answer had been lost. */
  #repeat({ stream, id, known }: Repeat, done: () => void): void {
    const { epoch, seq, receipts } = known;
    const receipt = receipts[receipts.length - 1];
    const node = this.#random.pick(this.#world.nodes).id;
    const payload = stream.json ? jsonPayload('k0.0', 1, 0) : textPayload('k0.0', 0);
    this.#clients.send(node, appendRequest(stream, payload, { id, epoch, seq }), false, (reply) => {
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      this.#clients.count(`repeat ${code}`);
      if (code === 'OUTCOME_UNKNOWN' || FOR_A_WHILE.has(code)) {
        return this.#world.queue.after(AGAIN_MS, () => this.#repeat({ stream, id, known }, done));
      }
      const next = stream.json ? reply?.recordNext : reply?.nextOffset;
      const expected = stream.json ? receipt?.recordNext : receipt?.nextOffset;
      if (code !== 'OK' || reply?.has(REPLY_DUPLICATE) !== true || next !== expected) {
        throw this.#world.failure(
          `import: ${epoch}/${seq} of ${id} in ${stream.name} is repeated and answered with ${code} ${next}, not ${expected}`,
        );
      }
      return done();
    });
  }
}

/** By incarnation and id. */
function producersOf({ stateDigest }: Taken): Map<number, Map<string, Known>> {
  const producers = new Map<number, Map<string, Known>>();
  for (const [key, value] of stateDigest.rows) {
    if (key.charCodeAt(0) !== TAG.producer) continue;
    const incarnation = bareIncarnationOf(Buffer.from(key, 'latin1'));
    let ofStream = producers.get(incarnation);
    if (ofStream === undefined) producers.set(incarnation, (ofStream = new Map()));
    ofStream.set(key.slice(7), decodeProducer(new Uint8Array(Buffer.from(value, 'latin1'))));
  }
  return producers;
}
