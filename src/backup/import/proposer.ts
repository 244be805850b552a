/**
 * Commands of an import, one at a time and in order. Each may be applied twice without harm, so one whose outcome is
 * unknown, or that finds no leader, is proposed again for a while.
 */
import { ERRORS } from '../../base/errors.ts';
import type { ShardGateway } from '../../ports.ts';
import { type Request, requestFor } from '../../protocol/request.ts';
import type { RetryClock, RetryPolicy } from '../../gateway/retry.ts';
import { type ShardAnswer, type Callable, callUntilDone } from '../../gateway/shard-client.ts';

/** Longer than an election and the silence after which a dead attempt is replaced (stream/backup/apply-import.ts). */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 100;

const POLICY: RetryPolicy = {
  patienceMs: PATIENCE_MS,
  againMs: AGAIN_MS,
  isPassing: (code) => code !== 'STOPPING' && ERRORS[code].retry,
};

/** The detail of a GROUP_NOT_EMPTY is what the group came from. */
type Done<R> = (answer: ShardAnswer<R>) => void;

export class Proposer {
  readonly #gateway: ShardGateway;
  readonly #group: number;
  readonly #clock: RetryClock;
  /** The current command, or the last one; the next one waits for its answer. */
  #queue: (() => void)[] = [];
  #busy = false;

  constructor(gateway: ShardGateway, group: number, clock: RetryClock) {
    this.#gateway = gateway;
    this.#group = group;
    this.#clock = clock;
  }

  propose<P, R>(operation: Callable<P, R>, asked: P, done: Done<R>): void {
    const request = requestFor(operation, this.#group, asked);
    const begin = (): void => this.#send(operation, request, done);
    if (this.#busy) {
      this.#queue.push(begin);
      return;
    }
    this.#busy = true;
    begin();
  }

  #send<R>(operation: Callable<never, R>, request: Request, done: Done<R>): void {
    callUntilDone({ gateway: this.#gateway, clock: this.#clock, policy: POLICY }, operation, request, (answer) => {
      this.#finish(() => done(answer));
    });
  }

  #finish(told: () => void): void {
    this.#busy = false;
    told();
    if (this.#busy) return;
    const next = this.#queue.shift();
    if (next === undefined) return;
    this.#busy = true;
    next();
  }
}
