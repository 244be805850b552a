/**
 * Commands of an import, one at a time and in order. Each may be applied twice without harm, so one whose outcome is
 * unknown, or that finds no leader, is proposed again for a while.
 */
import { ERRORS, type ErrorCode, errorCode } from '../../base/errors.ts';
import type { ShardGateway } from '../../ports.ts';
import type { Reply } from '../../protocol/reply.ts';
import { newRequest, setOperation } from '../../protocol/request.ts';
import { type RetryClock, type RetryPolicy, sendUntilDone } from '../../gateway/retry.ts';
import { type Callable } from '../../gateway/shard-client.ts';
import { backupOf } from '../../protocol/import-command.ts';

/**
 * Longer than an election, and than the silence after which a dead attempt is replaced (backup/state/apply-import.ts).
 */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 100;

const POLICY: RetryPolicy = {
  patienceMs: PATIENCE_MS,
  againMs: AGAIN_MS,
  isPassing: (code) => code !== 'STOPPING' && ERRORS[code].retry,
};

/** The reply's memory is no longer valid when this is read. */
export type Proposed<R> =
  | { readonly code: 'OK'; readonly result: R }
  /** `backup`: for GROUP_NOT_EMPTY, the group's source. */
  | { readonly code: Exclude<ErrorCode, 'OK'>; readonly backup: string };

type Done<R> = (outcome: Proposed<R>) => void;

function outcomeOf<R>(operation: Callable<R>, reply: Reply | undefined): Proposed<R> {
  if (reply === undefined) return { code: 'SHARD_BUSY', backup: '' };
  const code = errorCode(reply.code);
  return code === 'OK' ? { code, result: operation.result.read(reply) } : { code, backup: backupOf(reply) };
}

export const REAL_CLOCK: RetryClock = {
  monotonicMs: () => performance.now(),
  after: (delayMs, run) => void setTimeout(run, delayMs).unref(),
};

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

  propose<R>(operation: Callable<R>, payload: Uint8Array, done: Done<R>): void {
    const begin = (): void => this.#send(operation, payload, done);
    if (this.#busy) {
      this.#queue.push(begin);
      return;
    }
    this.#busy = true;
    begin();
  }

  #send<R>(operation: Callable<R>, payload: Uint8Array, done: Done<R>): void {
    const request = newRequest();
    setOperation(request, operation);
    request.group = this.#group;
    request.command.payload = payload;
    sendUntilDone({ gateway: this.#gateway, clock: this.#clock, policy: POLICY }, request, (reply) => {
      const outcome = outcomeOf(operation, reply);
      this.#finish(() => done(outcome));
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
