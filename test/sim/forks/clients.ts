/**
 * Clients that fork: streams of all other clients, and their own, which are created, forked, written to, deleted and
 * expire. Each name has one client, so that it knows the valid states of the name.
 */
import { Buffer } from 'node:buffer';
import { type ErrorCode, errorCode } from '../../../src/base/errors.ts';
import type { ForkRequest } from '../../../src/ports.ts';
import { REPLY_CREATED, REPLY_UP_TO_DATE, type Reply } from '../../../src/protocol/reply.ts';
import { type Random, createRandom } from '../../support/random.ts';
import type { Clients, SimStream } from '../clients.ts';
import type { StreamHistory } from '../history.ts';
import { type StreamName, appendRequest, createRequest, deleteRequest } from '../requests.ts';
import { requestFor } from '../../../src/protocol/request.ts';
import { jsonPayload, textPayload } from '../tokens.ts';
import type { World } from '../world.ts';
import type { ForkServices } from './services.ts';
import { COMMANDS, QUERIES } from '../../../src/protocol/operations.ts';

export const FORK_BUCKET = 'forks';
const NAMES_PER_GROUP = 4;
const CLIENTS = 3;
/** A fork may wait for an election in each of its steps. */
const PATIENCE_MS = 60_000;

/** A name of a forking client. */
export interface Twig extends StreamName {
  /** A write of unknown outcome may still take effect. */
  uncertain: boolean;
  /** Reads must begin with it: the client created the fork, and it was not removed. */
  inherits: { readonly history: StreamHistory; readonly floor: number; readonly bytes: number } | undefined;
}

/** Any request may be refused with these. */
const MAY_BE: ReadonlySet<ErrorCode> = new Set([
  'OUTCOME_UNKNOWN',
  'NO_LEADER',
  'LEADER_BUSY',
  'DISK_FULL',
  'STOPPING',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
  'CATCHING_UP',
  'UNCONFIRMED',
  'NOT_APPLIED',
  'COLD_UNAVAILABLE',
  'COLD_OBJECT_BAD',
  'STREAM_NOT_FOUND',
  'STREAM_DELETED',
  'STREAM_CLOSED',
  'NAME_HELD',
  'CREATE_CONFLICT',
  'CONTENT_TYPE_MISMATCH',
  'INVALID_JSON',
  'STREAM_GONE',
  'FORK_FORMING',
  'FORK_LOST',
  'FORK_SOURCE_MOVED',
  'FORK_SOURCE_NOT_FOUND',
  'FORK_SOURCE_DELETED',
  'FORK_BEYOND_TAIL',
  'FORK_SUB_OFFSET_BEYOND',
  'OFFSET_INSIDE_RECORD',
  'OFFSET_OUT_OF_RANGE',
]);

export class ForkClients {
  readonly twigs: readonly Twig[];
  readonly #world: World;
  readonly #all: Clients;
  readonly #services: ForkServices;
  readonly #random: Random;

  constructor(world: World, all: Clients, services: ForkServices) {
    this.#world = world;
    this.#all = all;
    this.#services = services;
    this.#random = createRandom(world.options.seed * 101 + 9);
    this.twigs = world.options.groups.flatMap((group) =>
      Array.from({ length: NAMES_PER_GROUP }, (_, i) => {
        const json = i % 2 === 1;
        return {
          group,
          bucket: FORK_BUCKET,
          name: `twig${i}${json ? 'j' : 't'}${group}`,
          json,
          uncertain: false,
          inherits: undefined,
        };
      }),
    );
  }

  start(): void {
    for (let i = 0; i < CLIENTS; i++) this.#next(i);
  }

  #next(client: number): void {
    const waitMs = this.#world.options.thinkMs * (0.5 + 1.5 * this.#random.next());
    this.#world.queue.after(waitMs, () => {
      if (this.#all.working) this.#act(client, () => this.#next(client));
    });
  }

  #act(client: number, then: () => void): void {
    const random = this.#random;
    const twig = random.pick(this.twigs.filter((_, i) => i % CLIENTS === client));
    const what = random.next();
    if (what < 0.4) this.#fork(twig, then);
    else if (what < 0.48) this.#send('twig', createRequest(twig, random.chance(0.1) ? 1 : -1), then);
    else if (what < 0.58) this.#append(twig, then);
    else if (what < 0.75) this.#read(twig, then);
    else this.delete(twig, then);
  }

  #payload({ json }: StreamName): Uint8Array {
    const token = this.#all.newToken('f');
    const filler = this.#random.chance(0.1) ? 3000 : this.#random.int(0, 60);
    return json ? jsonPayload(token, this.#random.pick([1, 2, 3]), filler) : textPayload(token, filler);
  }

  #append(twig: Twig, then: () => void): void {
    this.#all.send(this.#node(), appendRequest(twig, this.#payload(twig)), false, (reply) => {
      if (this.#judge('twig append', reply) === 'OUTCOME_UNKNOWN') twig.uncertain = true;
      then();
    });
  }

  delete(twig: Twig, then: (code: ErrorCode) => void): void {
    const node = this.#node();
    const process = this.#world.nodes[node - 1]?.process;
    twig.inherits = undefined;
    this.#all.send(node, deleteRequest(twig), false, (reply) => {
      const code = this.#judge('twig delete', reply);
      // Now and then the node dies here, or the client's connection.
      const tells = reply !== undefined && process !== undefined && !process.dead && this.#random.chance(0.8);
      if (tells) this.#services.tell(process, twig.group, reply);
      then(code);
    });
  }

  #send(what: string, request: ReturnType<typeof createRequest>, then: () => void): void {
    this.#all.send(this.#node(), request, false, (reply) => {
      this.#judge(what, reply);
      then();
    });
  }

  #fork(twig: Twig, then: () => void): void {
    const random = this.#random;
    const others: readonly StreamName[] = this.twigs;
    const known = this.#all.streams.filter(({ use, created }) => created && (use === 'plain' || use === 'closable'));
    const source = known.length > 0 && random.chance(0.5) ? random.pick(known) : random.pick(others);
    const history = (source as Partial<SimStream>).history;
    const request = createRequest(twig, random.chance(0.1) ? 1 : -1);
    request.op = COMMANDS.create.number;
    request.command.contentType = '';
    if (random.chance(0.3)) request.command.payload = this.#payload(source);
    const offset = this.#offset(source, history);
    const subOffset = offset >= 0 && random.chance(0.5) ? random.int(0, 3) : 0;
    const forkRequest: ForkRequest = { bucket: source.bucket, stream: source.name, offset, subOffset };
    const process = this.#world.nodes[this.#node() - 1]?.process;
    let open = true;
    const answer = (reply: Reply | undefined): void => {
      if (!open) return;
      open = false;
      this.#forked(twig, source, history, forkRequest, request.command.payload?.length ?? 0, reply);
      then();
    };
    if (process === undefined) {
      this.#world.queue.after(10, () => answer(undefined));
      return;
    }
    this.#world.queue.after(PATIENCE_MS, () => answer(undefined));
    this.#services.create(process, request, forkRequest, answer);
  }

  /** Clients know the ordinals of a JSON stream. */
  #offset(source: StreamName, history: StreamHistory | undefined): number {
    const random = this.#random;
    if (random.chance(0.4)) return -1;
    if (history === undefined) return random.chance(0.5) ? 0 : random.int(0, 400);
    if (source.json) return 0;
    return random.int(history.from, Math.max(history.from, history.tail));
  }

  #forked(
    twig: Twig,
    source: StreamName,
    history: StreamHistory | undefined,
    { offset, subOffset }: ForkRequest,
    body: number,
    reply: Reply | undefined,
  ): void {
    const code = this.#judge('fork', reply);
    if (code !== 'OK' || reply === undefined) {
      if (reply === undefined || code === 'OUTCOME_UNKNOWN' || code === 'FORK_LOST') twig.inherits = undefined;
      return;
    }
    if (!reply.has(REPLY_CREATED)) return;
    twig.inherits = undefined;
    // The source's incarnation is unknown: a fork of JSON is JSON.
    if (reply.contentType !== 'text/plain') return;
    const end = reply.nextOffset - body;
    const isWrong = twig.uncertain ? end < offset + subOffset : end !== offset + subOffset;
    if (offset >= 0 && isWrong) {
      throw this.#world.failure(`fork: ${twig.name} at ${offset}+${subOffset} of ${source.name} ends at ${end}`);
    }
    const lives = this.#isTemporary(reply);
    if (history !== undefined && !lives) twig.inherits = { history, floor: history.from, bytes: end };
  }

  /** The reply says the lifetime. */
  #isTemporary(reply: Reply): boolean {
    const { ttlSeconds, expiresAtMs } = COMMANDS.forkEnd.result.read(reply);
    return ttlSeconds >= 0 || expiresAtMs >= 0;
  }

  #read(twig: Twig, then: () => void): void {
    const { inherits } = twig;
    const from = inherits?.history.floorAsked ?? 0;
    const { bucket, name: stream } = twig;
    const request = requestFor(QUERIES.read, twig.group, { bucket, stream, value: from });
    this.#all.send(this.#node(), request, false, (reply) => {
      const code = this.#judge('twig read', reply);
      if (inherits !== undefined && twig.inherits === inherits && reply !== undefined) {
        if (code === 'OK') this.#compare(twig, inherits, from, reply);
        else if (code === 'STREAM_NOT_FOUND' || code === 'STREAM_DELETED') {
          // Unless the leader could not be asked, which takes a while: then the node said what it knew.
          this.#all.count('twig missing');
        }
      }
      then();
    });
  }

  #compare(twig: Twig, inherits: NonNullable<Twig['inherits']>, from: number, reply: Reply): void {
    const { history, bytes } = inherits;
    const body = Buffer.from(reply.body ?? []).toString('latin1');
    const end = Math.min(bytes, from + body.length, history.text.length);
    if (end <= from) return;
    const found = body.slice(0, end - from);
    if (found !== history.text.slice(from, end)) {
      throw this.#world.failure(`fork: ${twig.name} shows other bytes than ${history.name} from ${from} on`);
    }
    if (reply.has(REPLY_UP_TO_DATE) && from + body.length < bytes) {
      throw this.#world.failure(`fork: ${twig.name} ends at ${from + body.length}, it inherited ${bytes}`);
    }
    this.#all.count('twig compared');
  }

  #judge(what: string, reply: Reply | undefined): ErrorCode {
    const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
    this.#all.count(`${what} ${code}`);
    if (code !== 'OK' && !MAY_BE.has(code)) throw this.#world.failure(`${what} is answered with ${code}`);
    return code;
  }

  #node(): number {
    const up = this.#world.nodes.filter(({ process }) => process !== undefined);
    return up.length > 0 && this.#random.chance(0.95)
      ? this.#random.pick(up).id
      : this.#random.pick(this.#world.nodes).id;
  }
}
