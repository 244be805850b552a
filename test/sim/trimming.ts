/**
 * An application that publishes snapshots of its streams and trims what is before them, as the HTTP side does it
 * (src/http/routes/position.ts): a boundary that only the cold store knows is looked up and sent along.
 */
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import { digestOf } from '../../src/digest/blake3.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import type { Position } from '../../src/protocol/position-command.ts';
import { type Random, createRandom } from '../support/random.ts';
import type { Clients, SimStream } from './clients.ts';
import { partsRequest, publishRequest, retentionRequest } from './requests.ts';
import type { World } from './world.ts';
import { readIncarnation } from '../../src/protocol/queries/read.ts';

/** The command was carried out, or another one before it went further. */
const FINE: ReadonlySet<ErrorCode> = new Set([
  'OK',
  'STREAM_GONE',
  'SNAPSHOT_STALE',
  'RETENTION_BACKWARDS',
  'RETENTION_BEYOND_SNAPSHOT',
]);
/** Passing refusals of the node, the store, or the moment. */
const PERHAPS_LATER: ReadonlySet<ErrorCode> = new Set([
  'OUTCOME_UNKNOWN',
  'NO_LEADER',
  'LEADER_BUSY',
  'DISK_FULL',
  'SHARD_BUSY',
  'ROW_DAMAGED',
  'STOPPING',
  'CATCHING_UP',
  'UNCONFIRMED',
  'NOT_APPLIED',
  'COLD_UNAVAILABLE',
  'COLD_OBJECT_BAD',
  'BORDER_UNCHECKED',
  'OFFSET_OUT_OF_RANGE',
  'RECORD_OUT_OF_RANGE',
  'STREAM_NOT_FOUND',
]);
const LOOK_UPS_MAX = 3;
/**
 * Most borders are cold already. In some runs half of the choices fall on the last one: other seeds keep what they
 * find.
 */
const LATE_EVERY = 22;

type Make = (position: Position) => ReturnType<typeof retentionRequest>;

export class Trimming {
  readonly #all: Clients;
  readonly #world: World;
  readonly #random: Random;
  readonly #late: Random;

  constructor(all: Clients, world: World, random: Random) {
    this.#all = all;
    this.#world = world;
    this.#random = random;
    this.#late = createRandom(world.options.seed * 67 + 5);
  }

  /** Publishes a snapshot at some border that clients have seen, then raises the floor up to it, or less far. */
  trim(stream: SimStream, node: number, done: () => void): void {
    const { history } = stream;
    const isLate = this.#world.options.seed % LATE_EVERY === 0 && this.#late.chance(0.5);
    const at = history.someBorder((most) => {
      const some = this.#random.int(0, most);
      return isLate ? most : some;
    });
    const to = this.#random.chance(0.7) ? at : history.from;
    this.#command(
      stream,
      node,
      at,
      'publish',
      (position) => publishRequest(stream, position, snapshotOf(stream, at)),
      (code) => {
        if (code !== 'OK') return done();
        history.floorAsked = Math.max(history.floorAsked, to);
        return this.#command(
          stream,
          node,
          to,
          'retention',
          (position) => retentionRequest(stream, position),
          (code2) => {
            if (code2 === 'OK') history.from = Math.max(history.from, to);
            done();
          },
        );
      },
    );
  }

  #command(
    stream: SimStream,
    node: number,
    at: number,
    what: string,
    make: Make,
    done: (code: ErrorCode) => void,
  ): void {
    const position: Position = {
      byRecord: stream.json,
      value: at,
      checkedIncarnation: 0,
      checkedOffset: 0,
      checkedRecord: 0,
    };
    this.#send(stream, node, position, what, make, 0, done);
  }

  #send(
    stream: SimStream,
    node: number,
    position: Position,
    what: string,
    make: Make,
    lookUps: number,
    done: (code: ErrorCode) => void,
  ): void {
    this.#all.send(node, make(position), false, (reply) => {
      const code = this.#judged(stream, position, what, reply);
      if (code !== 'BORDER_UNCHECKED' || lookUps === LOOK_UPS_MAX) return done(code);
      return this.#all.send(node, partsRequest(stream, position.value), false, (found) => {
        const lookedUp = this.#judged(stream, position, 'look-up', found);
        if (lookedUp !== 'OK' || found === undefined) return done(lookedUp === 'OK' ? 'OUTCOME_UNKNOWN' : lookedUp);
        const checked = {
          ...position,
          checkedIncarnation: readIncarnation(found),
          checkedOffset: found.startOffset,
          checkedRecord: found.recordStart,
        };
        return this.#send(stream, node, checked, what, make, lookUps + 1, done);
      });
    });
  }

  #judged({ name }: SimStream, { value }: Position, what: string, reply: Reply | undefined): ErrorCode {
    const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
    this.#all.count(`${what} ${code}`);
    if (!FINE.has(code) && !PERHAPS_LATER.has(code))
      throw this.#world.failure(`${what} at ${value} in ${name} is answered with ${code}`);
    return code;
  }
}

/** The same for every client that makes one at this position. */
function snapshotOf({ name }: SimStream, at: number): { bytes: Uint8Array; digest: Uint8Array } {
  const bytes = new TextEncoder().encode(`${name} up to ${at} `.repeat(1 + (at % 40)));
  // Digest of the usual content type and the bytes (http/routes/snapshot.ts).
  const type = new TextEncoder().encode('application/octet-stream');
  const digest = digestOf(new Uint8Array([type.length, 0, 0, 0, 0, 0, 0, 0, ...type, ...bytes]));
  return { bytes, digest };
}
