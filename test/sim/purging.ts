/**
 * Erases a bucket in one group through any node, as the HTTP side does it (src/tenants/bucket-purge.ts): command after
 * command until nothing is left, then the bucket's objects in the cold store without the usual wait.
 */
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import type { Clients } from './clients.ts';
import { bucketGcRequest, gcDoneRequest, purgeRequest } from './requests.ts';
import type { World } from './world.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

const ROUNDS_MAX = 16;

interface Erased {
  readonly node: number;
  readonly group: number;
  readonly bucket: string;
}

export class Purging {
  readonly #world: World;
  readonly #all: Clients;

  constructor(world: World, all: Clients) {
    this.#world = world;
    this.#all = all;
  }

  /** `done` gets how the last command ended. */
  purge(node: number, group: number, bucket: string, done: (code: ErrorCode) => void, after = ''): void {
    this.#all.send(node, purgeRequest(group, bucket, after), false, (reply) => {
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      this.#all.count(`purge ${code}`);
      if (reply === undefined || code !== 'OK') return done(code);
      const { hasMore, continueAfter } = COMMANDS.purge.result.read(reply);
      if (hasMore) return this.purge(node, group, bucket, done, continueAfter);
      return this.#objects({ node, group, bucket }, 0, undefined, () => done(code));
    });
  }

  #objects(erased: Erased, rounds: number, from: number | undefined, done: () => void): void {
    const { node, group, bucket } = erased;
    this.#all.send(node, bucketGcRequest(group, bucket, from), false, (reply) => {
      if (reply?.code !== 0 || rounds === ROUNDS_MAX) return done();
      const { seqs, keys, next } = QUERIES.bucketGarbage.result.read(reply);
      if (seqs.length === 0) return done();
      return this.#world.cold?.remove(keys, (waitMs, outcome) =>
        this.#world.queue.after(waitMs, () => {
          if (!outcome().ok) return done();
          return this.#all.send(node, gcDoneRequest(group, seqs), false, (answer) => {
            if (answer?.code === 0 && next !== undefined) this.#objects(erased, rounds + 1, next, done);
            else done();
          });
        }),
      );
    });
  }
}
