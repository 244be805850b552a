/**
 * The main thread's work on a plan instead of an answer (src/cold/service/reader.ts), on simulated time: it
 * fetches the chunks, verifies them, puts the answer together, and asks the shard once more when an object is missing.
 */
import { errorNumber, type ErrorCode } from '../../../src/base/errors.ts';
import { digestOf, sameDigest } from '../../../src/digest/blake3.ts';
import { assembleRead } from '../../../src/stream/cold/assemble.ts';
import { storedObject } from '../../../src/stream/cold/objects.ts';
import { type ChunkRef, type ColdPlan, decodeColdPlan } from '../../../src/protocol/cold.ts';
import { parseObjectKey } from '../../../src/protocol/object-key.ts';
import { REPLY_COLD, Reply, explain } from '../../../src/protocol/reply.ts';
import { READ_FLAG_NO_TOUCH, type ReadQuestion } from '../../../src/protocol/queries/read.ts';
import { type Request, requestFor } from '../../../src/protocol/request.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import type { Got, SimColdStore } from './store.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';

const decoder = new TextDecoder();

export class ColdReads {
  readonly #store: SimColdStore;
  readonly #process: SimProcess;

  constructor(store: SimColdStore, process: SimProcess) {
    this.#store = store;
    this.#process = process;
  }

  /** `reply` carries a plan; `onReply` gets the answer later, if the process lives. */
  take(reply: Reply, onReply: (reply: Reply | undefined) => void, missing?: ChunkRef): void {
    const plan = decodeColdPlan(reply.body ?? new Uint8Array(0));
    const refs = plan.refs.slice(0, plan.needed);
    const chunks: Uint8Array[] = [];
    let left = refs.length;
    let over = false;
    const end = (answer: Reply | undefined): void => {
      if (over) return;
      over = true;
      onReply(this.#process.dead ? undefined : answer);
    };
    const got = (ref: ChunkRef, i: number, what: Got): void => {
      if (over) return;
      if (this.#process.dead) return end(undefined);
      if (what === 'unreachable') return end(failed(reply, 'COLD_UNAVAILABLE'));
      if (what === 'missing') {
        if (missing !== undefined && missing.key === ref.key) return end(failed(reply, 'COLD_OBJECT_BAD', ref));
        over = true;
        return this.#again(plan, ref, onReply);
      }
      if (what.length !== ref.length || !sameDigest(digestOf(what), ref.digest))
        return end(failed(reply, 'COLD_OBJECT_BAD', ref));
      chunks[i] = what;
      if (--left > 0) return undefined;
      const bad = assembleRead(plan, chunks, reply, this.#store.collector);
      // The collector's memory is for the next read.
      if (bad === undefined) reply.body = reply.body?.slice();
      if (bad === undefined) this.#process.readsOf(plan.group).keep(questionOf(plan), reply);
      return end(bad === undefined ? reply : failed(reply, 'COLD_OBJECT_BAD', bad));
    };
    refs.forEach((ref, i) => this.#store.get(ref.key, ref.at, ref.length, (what) => got(ref, i, what)));
  }

  #again(plan: ColdPlan, missing: ChunkRef, onReply: (reply: Reply | undefined) => void): void {
    this.#process.request(readOf(plan), false, (reply) => {
      if (reply?.has(REPLY_COLD) === true) this.take(reply, onReply, missing);
      else onReply(reply);
    });
  }
}

/** Only a follower that is behind may refer to deleted objects. `text`: of a COLD_OBJECT_BAD. */
export function isDeleted(world: World, group: number, text: string): boolean {
  const object = parseObjectKey(text.slice(0, text.lastIndexOf('@')));
  const state = world.checks.references[group]?.state;
  return object !== undefined && state !== undefined && (storedObject(state, object)?.refs ?? 0) === 0;
}

function questionOf({ stream: key, mode, value, maxBytes, maxRecords, flags: readFlags }: ColdPlan): ReadQuestion {
  const [bucket = '', stream = ''] = decoder.decode(key).split('\0');
  return { bucket, stream, mode, value, maxBytes, maxRecords, readFlags };
}

function readOf(plan: ColdPlan): Request {
  const question = questionOf(plan);
  return requestFor(QUERIES.read, plan.group, { ...question, readFlags: question.readFlags | READ_FLAG_NO_TOUCH });
}

function failed(reply: Reply, code: ErrorCode, ref?: ChunkRef): Reply {
  const answer = new Reply();
  answer.reset(reply.id);
  answer.code = errorNumber(code);
  if (ref !== undefined) explain(answer, `${ref.key}@${ref.at}`);
  return answer;
}
