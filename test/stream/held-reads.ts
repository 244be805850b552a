// A read that is answered from what the main thread holds must be what the shard would have answered. Reads of the
// comparison are asked again through the cache, again and again while the state changes.
import assert from 'node:assert/strict';
import { ReadCache } from '../../src/gateway/read-cache.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { type ReadQuestion, copyQuestion, holdRead } from '../../src/protocol/queries/read.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { type Request, requestFor } from '../../src/protocol/request.ts';

/** Small enough to evict, large enough to hold what is repeated. */
const CACHE = { bytesMax: 256 * 1024, answerBytesMin: 1, answerBytesMax: 128 * 1024 };
/** Each is asked about as often before another one takes its place. */
const REMEMBERED = 8;
const SLOT = 7;

/** Answers a request; `complete` sees the reply before it is taken down, with whether its bytes came from chunks. */
export type AskReplica = (
  request: Request,
  complete: (reply: Reply, cold: boolean) => void,
) => { readonly short: boolean };

export class HeldReads {
  readonly cache = new ReadCache(CACHE);
  readonly #questions: ReadQuestion[] = [];
  /** Answers that ended with the last chunk that they may have: later, merged ones reach further. */
  readonly #short = new Set<string>();
  #reads = 0;

  /** `request` was just asked. */
  check(request: Request, nowMs: number, ask: AskReplica): void {
    if (request.op !== QUERIES.read.number) return;
    const reads = this.#reads++;
    if (reads % REMEMBERED === 0) {
      const question = { bucket: '', stream: '', mode: 0, value: 0, maxBytes: 0, maxRecords: 0, readFlags: 0 };
      copyQuestion(request, question);
      this.#questions[(reads / REMEMBERED) % REMEMBERED] = question;
    }
    const question = this.#questions[reads % REMEMBERED];
    if (question !== undefined) this.#compare(question, request.group, nowMs, ask);
  }

  #compare(question: ReadQuestion, group: number, nowMs: number, ask: AskReplica): void {
    const request = requestFor(QUERIES.read, group, question);
    holdRead(request, undefined);
    const plain = ask(request, () => undefined);
    this.cache.ask(request, SLOT);
    const cached = ask(request, (reply, cold) => {
      if (cold) this.cache.keep(question, reply);
      else this.cache.answered(SLOT, reply);
    });
    this.cache.forget(SLOT);
    const name = JSON.stringify(question);
    if (plain.short || cached.short) this.#short.add(name);
    if (this.#short.has(name)) return;
    assert.deepEqual(cached, plain, `${name} at ${nowMs}`);
  }
}
