/** Reads a stream from end to end through one node, in one of the ways that there are, and checks every byte. */
import { Buffer } from 'node:buffer';
import { errorCode } from '../../src/base/errors.ts';
import { REPLY_UP_TO_DATE, type Reply, explanation } from '../../src/protocol/reply.ts';
import { READ_FLAG_ENVELOPE, READ_FLAG_PARTS } from '../../src/protocol/queries/read.ts';
import { type Random, createRandom } from '../support/random.ts';
import type { Clients, SimStream } from './clients.ts';
import type { SimNode } from './node.ts';
import { isDeleted } from './cold/reads.ts';
import { readRequest } from './requests.ts';
import { parseArray } from './tokens.ts';
import type { World } from './world.ts';

/** Pause for a store that was in trouble when it was asked, and is not any more. */
const AGAIN_MS = 100;

/** How a stream is read: the maximum bytes or records per piece, and in what form. */
interface Way {
  readonly maxBytes: number;
  readonly maxRecords: number;
  readonly flags: number;
}

const PLAIN: Way = { maxBytes: 0, maxRecords: 0, flags: 0 };

export class WholeReads {
  readonly #world: World;
  readonly #clients: Clients;
  readonly #random: Random;

  constructor(world: World, clients: Clients) {
    this.#world = world;
    this.#clients = clients;
    this.#random = createRandom(world.options.seed * 53 + 1);
  }

  read(stream: SimStream, node: SimNode, done: () => void): void {
    const way = this.#world.cold === undefined ? PLAIN : this.#way(stream);
    this.#from(stream, node, way, stream.history.from, stream.history.floorOf(node.id), done);
  }

  #way({ json }: SimStream): Way {
    const random = this.#random;
    return {
      maxBytes: random.pick([0, 0, 500, 2000, 6000]),
      maxRecords: random.pick([0, 0, 20, 50]),
      flags: random.pick([0, 0, READ_FLAG_PARTS, json ? READ_FLAG_ENVELOPE : 0]),
    };
  }

  #from(stream: SimStream, node: SimNode, way: Way, from: number, floor: number, done: () => void): void {
    const { history, json } = stream;
    const { maxBytes, maxRecords, flags: readFlags } = way;
    const request = readRequest(stream, from, { maxBytes, maxRecords, readFlags });
    this.#clients.send(node.id, request, false, (reply) => {
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      // Merged chunks go at once in some runs, and a follower learns of it a little later.
      const isGone =
        code === 'COLD_OBJECT_BAD' &&
        isDeleted(this.#world, stream.group, reply === undefined ? '' : explanation(reply));
      if (code === 'COLD_UNAVAILABLE' || isGone) {
        this.#world.queue.after(AGAIN_MS, () => this.#from(stream, node, way, from, floor, done));
        return;
      }
      if (code === 'STREAM_GONE' && from < stream.history.floorAsked) {
        // A floor was raised, and the requesting client was not told.
        this.#from(stream, node, way, stream.history.floorAsked, floor, done);
        return;
      }
      if (reply === undefined || code !== 'OK')
        throw this.#world.failure(
          `liveness: a read of ${stream.name} from ${from} on n${node.id} is answered with ${code}`,
        );
      const next = json ? reply.recordNext : reply.nextOffset;
      const body = unwrapped(reply, way.flags, json, from, (what) => {
        throw this.#world.failure(`${what} in ${stream.name} on n${node.id}`);
      });
      if (json) history.readRecords(from, body, next);
      else history.readText(from, body, next);
      if (reply.has(REPLY_UP_TO_DATE)) {
        history.tailSeen(next, node.id, floor);
        done();
      } else if (next <= from) {
        throw this.#world.failure(`liveness: a read of ${stream.name} from ${from} on n${node.id} gets nowhere`);
      } else this.#from(stream, node, way, next, floor, done);
    });
  }
}

/** The bytes of an answer as a usual read has them. */
export function unwrapped(
  reply: Reply,
  flags: number,
  json: boolean,
  from: number,
  fail: (what: string) => never,
): Uint8Array {
  const body = reply.body ?? new Uint8Array(0);
  if (body.length === 0) return body;
  if ((flags & READ_FLAG_PARTS) !== 0) return ofParts(body, json, fail);
  if ((flags & READ_FLAG_ENVELOPE) === 0) return body;
  const records = parseArray<{ record: number; value: unknown }>(Buffer.from(body).toString('latin1'), fail);
  records.forEach(({ record }, i) => {
    if (record !== from + i) fail(`record ${from + i} says it is ${record}`);
  });
  return Buffer.from(JSON.stringify(records.map(({ value }) => value)), 'latin1');
}

/** Count, ends, bytes: each part a whole message or record. */
function ofParts(body: Uint8Array, json: boolean, fail: (what: string) => never): Uint8Array {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = view.getUint32(0, true);
  const bytes = Buffer.from(body.subarray(4 + 4 * count));
  const parts: string[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    const end = view.getUint32(4 + 4 * i, true);
    parts.push(bytes.toString('latin1', at, end));
    at = end;
  }
  if (at !== bytes.length) fail(`parts end at ${at} of ${bytes.length}`);
  for (const part of parts) {
    const whole = json ? part.endsWith('\n') : part.startsWith('(') && part.endsWith(')') && part.indexOf('(', 1) < 0;
    if (!whole) fail(`a part is no message: ${part.slice(0, 60)}`);
  }
  if (!json) return bytes;
  return Buffer.from(`[${parts.map((part) => part.slice(0, -1)).join(',')}]`, 'latin1');
}
