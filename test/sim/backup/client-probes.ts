/**
 * Clients at a group that is not there yet: they read and write, and may be shown nothing of what comes in before all
 * of it is there.
 */
import { type ErrorCode, errorCode } from '../../../src/base/errors.ts';
import { ALL_GROUPS, type Request, requestFor } from '../../../src/protocol/request.ts';
import { type Random, createRandom } from '../../support/random.ts';
import type { Clients, SimStream } from '../clients.ts';
import { StreamHistory } from '../history.ts';
import { BUCKET, type StreamName, appendRequest, createRequest, deleteRequest, readRequest } from '../requests.ts';
import { textPayload } from '../tokens.ts';
import type { World } from '../world.ts';
import type { Taken } from './exporting.ts';
import type { RestoreOptions } from './options.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';

const KNOCK_MS = 120;
/** Names outside the source: one that is never created, and one that makes the group non-empty. */
const STRANGER = 'knock';
const SPOILER = 'spoiler';
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'GROUP_IMPORTING',
  'STREAM_NOT_FOUND',
  'NO_LEADER',
  'LEADER_BUSY',
  'DISK_FULL',
  'STOPPING',
  'OUTCOME_UNKNOWN',
  'CATCHING_UP',
  'UNCONFIRMED',
  'NOT_APPLIED',
  'BUCKET_NOT_FOUND',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
]);

export class ClientProbes {
  readonly #world: World;
  readonly #clients: Clients;
  readonly #options: RestoreOptions;
  readonly #random: Random;
  #names: readonly StreamName[] = [];
  #going = false;
  #created: SimStream | undefined;

  constructor(world: World, clients: Clients, options: RestoreOptions) {
    this.#world = world;
    this.#clients = clients;
    this.#options = options;
    this.#random = createRandom(world.options.seed * 71 + 31);
  }

  /** The document is taken: its streams are about to come. */
  start({ group }: Taken): void {
    const { target } = this.#options;
    this.#names = this.#clients.streams
      .filter((stream) => stream.group === group && stream.use !== 'short')
      .map(({ bucket, name, json }) => ({ group: target, bucket, name, json }));
    this.#going = true;
    this.#next();
  }

  stop(): void {
    this.#going = false;
  }

  #next(): void {
    this.#world.queue.after(KNOCK_MS * (0.2 + 1.6 * this.#random.next()), () => {
      if (!this.#going || !this.#clients.working) return;
      this.#knock();
      this.#next();
    });
  }

  #knock(): void {
    const random = this.#random;
    const node = random.pick(this.#world.nodes).id;
    const stranger: StreamName = { group: this.#options.target, bucket: BUCKET, name: STRANGER, json: false };
    if (this.#options.spoiled && random.chance(0.1)) return this.#create(node, { ...stranger, name: SPOILER });
    switch (random.int(0, 3)) {
      case 0:
        return this.#ask(node, appendRequest(stranger, textPayload('k0.0', 3)), () => false);
      case 1:
        return this.#ask(node, deleteRequest(stranger), () => false);
      case 2:
        return this.#ask(node, bucketRequest(), () => true);
      default:
        return this.#ask(node, readRequest(random.pick(this.#names), 0), () => this.#isThere());
    }
  }

  /** The reference is not behind any node. */
  #isThere(): boolean {
    return this.#world.checks.references[this.#options.target]?.state.imported?.phase === 'done';
  }

  #ask(node: number, request: Request, mayWork: () => boolean): void {
    this.#clients.send(node, request, false, (reply) => {
      if (reply === undefined) return;
      const code = errorCode(reply.code);
      this.#clients.count(`knock ${code}`);
      if (REFUSALS.has(code) || mayWork()) return;
      throw this.#world.failure(
        `import: op ${request.op} on n${node} is answered with ${code} although nothing is there`,
      );
    });
  }

  /** From now on the group is not empty, if that works. */
  #create(node: number, spoiler: StreamName): void {
    if (this.#created === undefined) {
      const fail = (what: string): never => {
        throw this.#world.failure(what);
      };
      const history = new StreamHistory(SPOILER, false, fail);
      this.#created = { ...spoiler, use: 'churn', created: true, history };
      this.#clients.adopt([this.#created]);
    }
    this.#clients.send(node, createRequest(spoiler, -1), false, () => undefined);
  }
}

function bucketRequest(): Request {
  return requestFor(QUERIES.bucket, ALL_GROUPS, { bucket: BUCKET });
}
