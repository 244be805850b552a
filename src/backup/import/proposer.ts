/**
 * Commands of an import, one at a time and in order. Each may be applied twice without harm, so one whose outcome is not known,
 * or that finds no leader, is proposed again for a while.
 */
import { ERRORS, type ErrorCode, errorCode } from '../../base/errors.ts';
import type { ShardGateway } from '../../ports.ts';
import type { Reply } from '../../protocol/reply.ts';
import { newRequest } from '../../protocol/request.ts';

/** Longer than an election, and than the silence after which an attempt that died is replaced (backup/state/apply-import.ts). */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 100;

type Done = (code: ErrorCode, reply: Pick<Reply, 'b' | 'text'>) => void;

/** A port: the simulator has time of its own. */
export interface Clock {
  clockMs(): number;
  after(delayMs: number, run: () => void): void;
}

export const REAL_CLOCK: Clock = {
  clockMs: () => performance.now(),
  after: (delayMs, run) => void setTimeout(run, delayMs).unref(),
};

export class Proposer {
  readonly #gateway: ShardGateway;
  readonly #group: number;
  readonly #clock: Clock;
  /** The command under way, or the last one; the next one waits for its answer. */
  #queue: (() => void)[] = [];
  #busy = false;

  constructor(gateway: ShardGateway, group: number, clock: Clock) {
    this.#gateway = gateway;
    this.#group = group;
    this.#clock = clock;
  }

  propose(kind: number, payload: Uint8Array, done: Done): void {
    const begin = (): void => this.#attempt(kind, payload, this.#clock.clockMs() + PATIENCE_MS, done);
    if (this.#busy) {
      this.#queue.push(begin);
      return;
    }
    this.#busy = true;
    begin();
  }

  #attempt(kind: number, payload: Uint8Array, untilMs: number, done: Done): void {
    const request = newRequest();
    request.op = kind;
    request.group = this.#group;
    request.command.kind = kind;
    request.command.payload = payload;
    const again = (): void => {
      this.#clock.after(AGAIN_MS, () => this.#attempt(kind, payload, untilMs, done));
    };
    const sent = this.#gateway.send(request, {
      onReply: (reply) => {
        const code = errorCode(reply.code);
        if (code !== 'STOPPING' && ERRORS[code].retry && this.#clock.clockMs() < untilMs) return again();
        const { b, text } = reply;
        return this.#finish(() => done(code, { b, text }));
      },
    });
    if (sent) return;
    if (this.#clock.clockMs() < untilMs) again();
    else this.#finish(() => done('SHARD_BUSY', { b: 0, text: '' }));
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
