/**
 * A client of one session that asks for anything, in any order, and holds the node to what it promises: each request
 * has one answer, those about a stream come in their order, events have no gap and stay within the credit, and nothing
 * is refused for a bound that the client keeps.
 */
import { Packr } from 'msgpackr';
import {
  SESSION_IN_FLIGHT_BYTES_MAX,
  SESSION_READ_BYTES_MAX,
  SESSION_READ_BYTES_MIN,
  SESSION_REQUESTS_MAX,
} from '../../../src/base/limits.ts';
import { ClientSession, type SessionHome } from '../../../src/session/session.ts';
import type { Random } from '../../support/random.ts';
import { type Told, Wire, bodyOf } from './wire.ts';

const [CREATE, APPEND, HEAD, READ, SUBSCRIBE, CREDIT, UNSUBSCRIBE, DELETE] = [1, 2, 3, 4, 5, 6, 7, 8] as const;
const [HELLO, DONE, REFUSED, EVENT, GO_AWAY] = [64, 65, 66, 67, 68] as const;
const GOING_AWAY = 1001;
const PROTOCOL_ERROR = 1002;
/** Said before a request gets its turn. */
const AT_ONCE: readonly string[] = ['SESSION_FULL', 'INFLIGHT_FULL', 'INVALID_NAME', 'STOPPING', 'ANSWERS_FULL'];
const BUCKET = 'b';
export const CONTENT_TYPE = 'text/plain';
const TEXT = { 'content-type': CONTENT_TYPE };
const MUCH = 64 * 1024 * 1024;

const packr = new Packr({ useRecords: false, variableMapSize: true });

interface Asked {
  readonly kind: number;
  readonly stream: string;
  readonly bytes: number;
  readonly readBytes: number;
  readonly body: Buffer;
}

interface Followed {
  readonly stream: string;
  /** Streams that had the name and can be the one that it follows. */
  candidates: readonly Shown[];
  /** Undefined before the first event of one that began at the tail. */
  at: number | undefined;
  /** Bytes that the client allows beyond those that came. */
  credit: number;
  /** UNSUBSCRIBE was sent. */
  isLeaving: boolean;
}

/**
 * `restless`: clients begin and end subscriptions again and again; `slow`: they take little of long streams; `busy`:
 * they ask for more than the bounds allow; `lasting`: no stream is closed or removed.
 */
export type RunKind = 'usual' | 'restless' | 'slow' | 'busy' | 'lasting';

/** One stream that had a name. */
export interface Shown {
  /** Whether it holds these bytes, and they end at `end`. */
  has(bytes: Uint8Array, end: number): boolean;
}

/** Streams as they are, by bucket and name. */
export interface Streams {
  /** All that had the name, the newest last. */
  contentsOf(key: string): readonly Shown[];
  /** The length of the newest; undefined: it is gone. */
  tailOf(key: string): number | undefined;
}

export interface ClientWorld {
  readonly shown: Streams;
  readonly random: Random;
  readonly streams: readonly string[];
  readonly kind: RunKind;
  readonly counts: Record<string, number>;
  fail(what: string): Error;
}

export class SessionClient {
  readonly session: ClientSession;
  readonly wire: Wire;
  readonly #world: ClientWorld;
  readonly #name: number;
  readonly #asked = new Map<number, Asked>();
  /** Ids of requests about a stream in their order, but for those that begin or end a subscription. */
  readonly #order = new Map<string, number[]>();
  readonly #followed = new Map<number, Followed>();
  /** How far its own appends went, by stream. */
  readonly #ends = new Map<string, number>();
  #bytes = 0;
  #readBytes = 0;
  #ids = 0;
  /** It broke the protocol, so the node cuts it. */
  #isAtFault = false;
  #isToldToGo = false;
  isOver = false;

  constructor(world: ClientWorld, home: Pick<SessionHome, 'server' | 'frame' | 'tailEvent'>, name: number) {
    this.#world = world;
    this.#name = name;
    const owner = {
      hear: (frame: Told) => this.#hear(frame),
      ended: (code: number) => this.#ended(code),
      fail: (what: string) => this.#fail(what),
    };
    this.wire = new Wire(owner, world.random.pick([0, 4096, 64 * 1024]));
    const ended = (): void => undefined;
    this.session = new ClientSession(
      { ...home, leaders: () => undefined, ended },
      { requestId: `${name}`, credentials: 'open', sender: { from: '' } },
    );
    this.session.opened(this.wire);
  }

  /** One message of several frames. */
  send(): void {
    const { random, kind } = this.#world;
    if (this.#isToldToGo && random.chance(0.9)) return;
    const most = random.chance(kind === 'busy' ? 0.2 : 0.01) ? 300 : 6;
    const frames = Array.from({ length: random.int(1, most) }, () => this.#frame());
    if (random.chance(0.002)) frames.push(this.#malformed());
    this.#deliver(Buffer.concat(frames));
  }

  take(bytes: number): void {
    if (this.wire.take(bytes)) this.session.drained();
  }

  /** The connection breaks. */
  leave(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.wire.isOpen = false;
    this.session.closed();
  }

  /** Undefined: there is an answer to everything, and each stream is followed to its tail. */
  get unrest(): string | undefined {
    if (this.isOver) return undefined;
    const [open] = this.#asked;
    if (open !== undefined) return `client ${this.#name}: request ${open[0]} of kind ${open[1].kind} has no answer`;
    for (const [id, { stream, at, candidates }] of this.#followed) {
      const tail = this.#world.shown.tailOf(this.#key(stream));
      const newest = this.#world.shown.contentsOf(this.#key(stream)).at(-1);
      const isThere = tail === undefined || (at === tail && newest !== undefined && candidates.includes(newest));
      if (!isThere) return `client ${this.#name}: subscription ${id} of ${stream} is at ${at} of ${tail}`;
    }
    return undefined;
  }

  /** So much credit that none is missing. */
  allowAll(): void {
    const frames = [...this.#followed].map(([id, followed]) => {
      followed.credit += MUCH;
      return packr.pack([CREDIT, id, MUCH]);
    });
    if (frames.length > 0) this.#deliver(Buffer.concat(frames));
  }

  #deliver(message: Buffer): void {
    if (this.isOver || message.length === 0) return;
    this.session.received(message, true);
    // The library uses the memory again.
    message.fill(0xc1);
  }

  #frame(): Buffer {
    const { random } = this.#world;
    const stream = random.pick(this.#world.streams);
    const chance = this.#world.kind === 'restless' && random.chance(0.8) ? random.pick([0.75, 0.99]) : random.next();
    if (chance < 0.4) return this.#append(stream);
    if (chance < 0.52) return this.#ask(HEAD, stream);
    if (chance < 0.6) return this.#ask(CREATE, stream, null, TEXT);
    if (chance < 0.68) return this.#ask(READ, stream, { offset: 0, max_bytes: random.pick([10, 1000, 300_000]) });
    const isLasting = this.#world.kind === 'lasting';
    if (chance < 0.69 && !isLasting) return this.#ask(DELETE, stream, {});
    if (chance < 0.7 && !isLasting) return this.#ask(APPEND, stream, null, { 'stream-closed': true });
    if (chance < 0.71) return this.#ask(HEAD, '');
    if (chance < 0.8) return this.#subscribe(stream);
    if (chance < 0.93) return this.#allow();
    return this.#unsubscribe();
  }

  #append(stream: string): Buffer {
    const { random } = this.#world;
    const text = `${this.#name}.${this.#ids};`;
    const large = this.#world.kind === 'lasting' ? 300 : 4000;
    const body = Buffer.from(text.repeat(random.chance(0.03) ? large : random.int(1, 20)));
    if (random.chance(0.2)) return this.#ask(APPEND, stream, [body, body], TEXT);
    // Without a type it is refused by this node.
    return this.#ask(APPEND, stream, body, random.chance(0.05) ? {} : TEXT);
  }

  #ask(kind: number, stream: string, ...rest: readonly unknown[]): Buffer {
    const id = this.#ids++;
    const frame = packr.pack([kind, id, BUCKET, stream, ...rest]);
    const [options] = rest as [{ readonly max_bytes?: number } | undefined];
    const readBytes = kind === READ ? Math.max(options?.max_bytes ?? 0, SESSION_READ_BYTES_MIN) : 0;
    const body = Buffer.isBuffer(rest[0]) ? rest[0] : Buffer.alloc(0);
    this.#asked.set(id, { kind, stream, bytes: frame.length, readBytes, body });
    this.#order.set(stream, [...(this.#order.get(stream) ?? []), id]);
    this.#bytes += frame.length;
    this.#readBytes += readBytes;
    this.#count('requests');
    return frame;
  }

  #subscribe(stream: string): Buffer {
    const { random } = this.#world;
    const id = this.#ids++;
    const credit =
      this.#world.kind === 'restless' || this.#world.kind === 'slow' ? MUCH : random.pick([0, 50, 5000, MUCH]);
    const isAtTail = random.chance(0.3);
    const followed = { stream, candidates: [], at: isAtTail ? undefined : 0, credit, isLeaving: false };
    this.#followed.set(id, followed);
    this.#count('subscriptions');
    const wait = random.chance(0.5) ? { wait: 'create' } : {};
    return packr.pack([SUBSCRIBE, id, BUCKET, stream, credit, { offset: isAtTail ? 'now' : 0, ...wait }]);
  }

  #allow(): Buffer {
    const { random } = this.#world;
    const found = random.pick([...this.#followed, undefined]);
    if (found === undefined) return packr.pack([CREDIT, this.#ids + 1000, 1]);
    const [id, followed] = found;
    const bytes = random.pick([1, 100, 10_000]);
    followed.credit += bytes;
    return packr.pack([CREDIT, id, bytes]);
  }

  #unsubscribe(): Buffer {
    const found = this.#world.random.pick([...this.#followed, undefined]);
    if (found === undefined) return packr.pack([UNSUBSCRIBE, this.#ids + 1000]);
    const [id, followed] = found;
    followed.isLeaving = true;
    return packr.pack([UNSUBSCRIBE, id]);
  }

  /** The node must cut it: an id twice, a frame that is no frame. */
  #malformed(): Buffer {
    this.#isAtFault = true;
    const { random } = this.#world;
    if (random.chance(0.5)) return Buffer.from([0x93, APPEND, 0xc1]);
    const id = this.#ids++;
    const frame = packr.pack([SUBSCRIBE, id, BUCKET, 'twice', 0, { offset: 0, wait: 'create' }]);
    return Buffer.concat([frame, frame]);
  }

  #hear(frame: Told): void {
    const [kind, id] = frame as readonly [number, number];
    if (kind === HELLO) return;
    if (kind === GO_AWAY) this.#isToldToGo = true;
    else if (kind === EVENT) this.#event(id, frame);
    else if (kind === DONE || kind === REFUSED) this.#answer(id, frame);
    else throw this.#fail(`a message of kind ${kind}`);
  }

  #answer(id: number, frame: Told): void {
    const followed = this.#followed.get(id);
    if (followed !== undefined) {
      if (frame[0] === DONE && !followed.isLeaving) throw this.#fail(`subscription ${id} ended without a reason`);
      this.#followed.delete(id);
      this.#count(frame[0] === DONE ? 'unsubscribed' : `subscription ${String(frame[3])}`);
      return;
    }
    const asked = this.#asked.get(id);
    if (asked === undefined) {
      if (this.#isAtFault) return;
      throw this.#fail(`an answer to ${id}, which is not open`);
    }
    const code = frame[0] === REFUSED ? (frame[3] as string) : undefined;
    if (code === 'SESSION_FULL' && this.#hasRoom) throw this.#fail(`${id} is refused: ${String(frame[4])}`);
    this.#count(code ?? 'answers');
    const order = this.#order.get(asked.stream) ?? [];
    const isNext = order[0] === id;
    if (!isNext && !AT_ONCE.includes(code ?? '')) throw this.#fail(`the answer to ${id} overtakes that to ${order[0]}`);
    this.#order.set(
      asked.stream,
      order.filter((one) => one !== id),
    );
    this.#asked.delete(id);
    this.#bytes -= asked.bytes;
    this.#readBytes -= asked.readBytes;
    if (frame[0] === DONE) this.#checkContent(id, asked, frame);
  }

  /** Even when all that the client has not heard of is still open. */
  get #hasRoom(): boolean {
    return (
      this.#asked.size + this.#followed.size < SESSION_REQUESTS_MAX &&
      this.#bytes + 100 * this.#followed.size < SESSION_IN_FLIGHT_BYTES_MAX &&
      this.#readBytes < SESSION_READ_BYTES_MAX
    );
  }

  #checkContent(id: number, { kind, stream, body }: Asked, frame: Told): void {
    const bytes = kind === READ ? bodyOf(frame) : body;
    const next = frame[2];
    if (typeof next !== 'number' || bytes.length === 0) return;
    const contents = this.#world.shown.contentsOf(this.#key(stream));
    if (!contents.some((content) => content.has(bytes, next)))
      throw this.#fail(`no stream ${stream} has what ${id} says of the bytes before ${next}`);
    if (kind !== APPEND || this.#world.kind !== 'lasting') return;
    const end = this.#ends.get(stream) ?? 0;
    this.#ends.set(stream, next);
    if (next <= end) throw this.#fail(`append ${id} to ${stream} ends at ${next}, and one before it at ${end}`);
  }

  #event(id: number, frame: Told): void {
    const followed = this.#followed.get(id);
    if (followed === undefined) throw this.#fail(`an event of ${id}, which is not open`);
    this.#count('events');
    const [, , next, fields] = frame as readonly [number, number, number, Record<string, string>];
    const body = bodyOf(frame);
    const start = next - body.length;
    followed.at ??= start;
    if (start !== followed.at) throw this.#fail(`subscription ${id} goes from ${followed.at} to ${start}`);
    followed.at = next;
    followed.credit -= body.length;
    if (followed.credit < 0) throw this.#fail(`subscription ${id} got ${-followed.credit} bytes beyond its credit`);
    const known =
      followed.candidates.length > 0 ? followed.candidates : this.#world.shown.contentsOf(this.#key(followed.stream));
    followed.candidates = known.filter((content) => content.has(body, next));
    if (followed.candidates.length === 0)
      throw this.#fail(`no stream ${followed.stream} has what ${id} shows before ${next}`);
    if (fields['stream-closed'] !== undefined) this.#followed.delete(id);
  }

  #ended(code: number): void {
    this.isOver = true;
    this.session.closed();
    this.#count(`ended ${code}`);
    if (code === PROTOCOL_ERROR && !this.#isAtFault) throw this.#fail('a client that keeps to the protocol is cut');
    if (code !== GOING_AWAY) return;
    if (!this.#isToldToGo) throw this.#fail('the node ends a session that was not told to go');
    const [open] = this.#asked;
    if (open !== undefined) throw this.#fail(`request ${open[0]} has no answer, and the session ended`);
  }

  #key(stream: string): string {
    return `${BUCKET}/${stream}`;
  }

  #count(what: string): void {
    this.#world.counts[what] = (this.#world.counts[what] ?? 0) + 1;
  }

  #fail(what: string): Error {
    return this.#world.fail(`client ${this.#name}: ${what}`);
  }
}
