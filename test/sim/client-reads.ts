/** Reads of clients while things go wrong: what may be shown, and what must be. */
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, type Reply, explanation } from '../../src/protocol/reply.ts';
import { READ_FLAG_ENVELOPE, READ_FLAG_PARTS } from '../../src/protocol/queries/read.ts';
import type { Random } from '../support/random.ts';
import type { Clients, SimStream } from './clients.ts';
import { isDeleted } from './cold/reads.ts';
import { checkPieces } from './pieces.ts';
import { readRequest } from './requests.ts';
import { unwrapped } from './whole-reads.ts';
import type { World } from './world.ts';

const WHOLE = { maxBytes: 0, maxRecords: 0, readFlags: 0 };

/** Refusals of a node that cannot say yet. */
const NOT_NOW: ReadonlySet<ErrorCode> = new Set([
  ...(['CATCHING_UP', 'UNCONFIRMED', 'NOT_APPLIED', 'STOPPING', 'ROW_DAMAGED'] as const),
]);

/** A read, and what clients knew of the stream when it began. */
interface Asked {
  readonly node: number;
  readonly from: number;
  /** The least that the node must show. */
  readonly floor: number;
  /** Greatest tail that any client had been told. */
  readonly told: number;
  readonly created: boolean;
}

const NO_BYTES = new Uint8Array(0);

export class ClientReads {
  readonly #all: Clients;
  readonly #world: World;
  readonly #random: Random;

  constructor(all: Clients, world: World, random: Random) {
    this.#all = all;
    this.#world = world;
    this.#random = random;
  }

  through(node: number, stream: SimStream, then: () => void): void {
    const { history, json, use } = stream;
    const known = json ? history.records.length : history.text.length;
    const from = this.#random.chance(0.5)
      ? history.from
      : this.#random.int(history.from, Math.max(history.from, known));
    const asked: Asked = {
      node,
      from,
      floor: history.floorOf(node),
      told: history.tail,
      created: stream.created,
    };
    const value = use === 'plain' || use === 'closable' ? from : 0;
    const range = this.#world.cold === undefined ? WHOLE : this.#varied(value, stream);
    const request = readRequest(stream, value, range);
    this.#all.send(node, request, false, (reply) => {
      this.#all.count(`read ${reply === undefined ? 'no answer' : errorCode(reply.code)}`);
      if (reply !== undefined) {
        if (reply.code === 0) reply.body = this.#plainBody(stream, range.readFlags, value, reply);
        if (use === 'plain' || use === 'closable') this.#wasRead(stream, asked, reply);
        else if (reply.code === 0) checkPieces(stream, reply.body ?? NO_BYTES, (what) => this.#fail(what));
        else if (errorCode(reply.code) === 'COLD_OBJECT_BAD') this.#checkGone(stream, reply);
      }
      then();
    });
  }

  /** In pieces, in an envelope, in parts where a message begins. */
  #varied(value: number, { json, history }: SimStream): typeof WHOLE {
    const random = this.#random;
    const maxBytes = random.pick([0, 0, 50, 700]);
    const maxRecords = random.pick([0, 0, 0, 3]);
    const flags = random.pick([0, 0, READ_FLAG_PARTS, READ_FLAG_ENVELOPE]);
    const fits = flags === READ_FLAG_PARTS ? json || value === history.from : json;
    return { maxBytes, maxRecords, readFlags: fits ? flags : 0 };
  }

  #plainBody({ json, name }: SimStream, readFlags: number, value: number, reply: Reply): Uint8Array {
    return unwrapped(reply, readFlags, json, value, (what) => this.#fail(`${what} in ${name}`));
  }

  #fail(what: string): never {
    throw this.#world.failure(what);
  }

  #checkGone({ group, name }: SimStream, reply: Reply): void {
    const text = explanation(reply);
    const { cold, blind } = this.#world;
    if (blind || cold === undefined || cold.options.altered > 0 || isDeleted(this.#world, group, text)) return;
    this.#fail(`a read of ${name} does not find ${text}, to which there are references`);
  }

  #wasRead({ history, json, name, group }: SimStream, asked: Asked, reply: Reply): void {
    const { node, from, floor } = asked;
    const code = errorCode(reply.code);
    const tail = json ? reply.recordNext : reply.nextOffset;
    // A follower that does not know yet that everything is there.
    if (code === 'GROUP_IMPORTING' && floor === 0 && group === this.#world.options.backup.restore?.target) return;
    if (NOT_NOW.has(code) || this.#isColdTrouble(code)) return;
    if (code === 'STREAM_NOT_FOUND' || code === 'OFFSET_OUT_OF_RANGE' || code === 'RECORD_OUT_OF_RANGE') {
      // A follower may be behind, but not behind itself.
      if (floor > from || (code === 'STREAM_NOT_FOUND' && floor > 0)) {
        throw this.#world.failure(`stale read: n${node} answers ${code} for ${from} in ${name} after ${floor}`);
      }
      // Everything that any client was told before this one asked, through any node.
      if (code === 'STREAM_NOT_FOUND' ? asked.created : asked.told >= from) {
        throw this.#world.failure(
          `missing: n${node} answers ${code} for ${from} in ${name} when ${asked.told} was known`,
        );
      }
      return;
    }
    if (code === 'STREAM_GONE' && from < history.floorAsked) return;
    if (code === 'COLD_OBJECT_BAD' && isDeleted(this.#world, group, explanation(reply))) return;
    if (code !== 'OK') throw this.#world.failure(`a read of ${name} from ${from} is answered with ${code}`);
    const body = reply.body ?? new Uint8Array(0);
    if (json) history.readRecords(from, body, tail);
    else history.readText(from, body, tail);
    if (!reply.has(REPLY_UP_TO_DATE)) return;
    history.tailSeen(tail, node, floor);
    if (reply.has(REPLY_CLOSED)) history.closed(tail);
  }

  /** A store that fails, or one that is meant to alter what it holds. */
  #isColdTrouble(code: ErrorCode): boolean {
    const { cold } = this.#world;
    if (cold === undefined) return false;
    return code === 'COLD_UNAVAILABLE' || (code === 'COLD_OBJECT_BAD' && cold.options.altered > 0);
  }
}
