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
      return this.#objects(node, group, bucket, 0, () => done(code));
    });
  }

  #objects(node: number, group: number, bucket: string, rounds: number, done: () => void): void {
    this.#all.send(node, bucketGcRequest(group, bucket), false, (reply) => {
      if (reply?.code !== 0 || rounds === ROUNDS_MAX) return done();
      const { entries, seqs, keys } = QUERIES.bucketGarbage.result.read(reply);
      if (entries === 0) return done();
      return this.#world.cold?.remove(keys, (waitMs, outcome) =>
        this.#world.queue.after(waitMs, () => {
          if (!outcome().ok) return done();
          return this.#all.send(node, gcDoneRequest(group, seqs), false, (answer) => {
            if (answer?.code === 0) this.#objects(node, group, bucket, rounds + 1, done);
            else done();
          });
        }),
      );
    });
  }
}
