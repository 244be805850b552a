/**
 * Purge of a bucket in one group: its streams, the bucket, its quota; the usage counters stay.
 *
 * One command removes a bounded number of streams and returns where the next one continues. Names are walked in order,
 * so no command examines what an earlier one removed. A stream created behind the walk is found by another walk from
 * the start: the same command removes the bucket only when its gauge shows no stream left.
 */
import { RELEASE_CHUNKS_PER_EXPIRE } from '../../base/limits.ts';
import { type PurgeResult, decodePurge } from '../../protocol/bucket-command.ts';
import type { Command } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';
import { readText } from '../../base/text.ts';
import { refuse } from './append.ts';
import { continueReleases } from '../cold/release.ts';
import type { Tombstone } from '../core/fork-rows.ts';
import { eachHead } from './list.ts';
import { removeStream } from './remove.ts';
import type { State } from '../core/state.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Streams removed by one command: a few milliseconds of apply time. */
export const PURGE_STREAMS_MAX = 256;

/** Forks of the streams that one command removes. Each costs a deleted row; together about 10 ms. */
const PINS_DROPPED_MAX = 4096;
const NOTHING = new Uint8Array(0);

export function applyPurge(state: State, command: Command, reply: Reply): void {
  const { bytes, keyAt, keyBytes } = command;
  const after = decodePurge(command.payload());
  if (after === undefined) return refuse(reply, 'INTERNAL');
  const tally = { bucket: command.keyText(), queued: 0 };
  state.cold.tally = tally;
  const done = purge(state, bytes.slice(keyAt, keyAt + keyBytes), after, command.nowMs);
  state.cold.tally = undefined;
  return COMMANDS.purge.result.write(reply, { ...done, objectsQueued: tally.queued });
}

type Done = Omit<PurgeResult, 'objectsQueued'>;

function purge(state: State, name: Uint8Array, after: Uint8Array, nowMs: number): Done {
  let streamsRemoved = 0;
  if (state.buckets.of(state.tx, name, 0, name.length).streamCount > 0) {
    const removed = removeSome(state, name, after, nowMs);
    streamsRemoved = removed.count;
    if (state.buckets.of(state.tx, name, 0, name.length).streamCount > 0) {
      return { streamsRemoved, hasMore: true, continueAfter: removed.last };
    }
  }
  if (dropTombstones(state, name)) return { streamsRemoved, hasMore: true, continueAfter: '' };
  forget(state, name);
  // Cold chunks of the streams are released in bounded steps too, and a purge waits for that.
  return { streamsRemoved, hasMore: continueReleases(state, nowMs, RELEASE_CHUNKS_PER_EXPIRE), continueAfter: '' };
}

/** Removes the next streams. `last` is the name of the last one, or empty when the walk has reached the end. */
function removeSome(
  state: State,
  name: Uint8Array,
  after: Uint8Array,
  nowMs: number,
): { readonly count: number; readonly last: string } {
  const keys: Uint8Array[] = [];
  eachHead(state, name, NOTHING, after, (key, head) => {
    if (head?.dead !== true) keys.push(key.slice());
    return keys.length < PURGE_STREAMS_MAX;
  });
  let pins = PINS_DROPPED_MAX;
  let done = 0;
  for (const key of keys) {
    const head = state.findAny(key, 0, key.length);
    if (head?.hasPins === true) pins -= state.forks.dropPins(head.incarnation, pins);
    if (pins === 0) break;
    if (head !== undefined) removeStream(state, head, nowMs, true);
    done++;
  }
  const last = keys[done - 1];
  if (last === undefined) return { count: 0, last: done < keys.length ? readText(after, 0, after.length) : '' };
  if (done === keys.length && done < PURGE_STREAMS_MAX) return { count: done, last: '' };
  return { count: done, last: readText(last, name.length + 1, last.length - name.length - 1) };
}

/** Removes tombstones of streams that were removed while they had live forks. Returns true when more are left. */
function dropTombstones(state: State, name: Uint8Array): boolean {
  const front = new Uint8Array(name.length + 1);
  front.set(name);
  const tombstones: { readonly key: Uint8Array; readonly tombstone: Tombstone }[] = [];
  state.forks.eachTombstone(front, front, (key, tombstone) => tombstones.push({ key, tombstone }) < PURGE_STREAMS_MAX);
  let pins = PINS_DROPPED_MAX;
  for (const { key, tombstone } of tombstones) {
    pins -= state.forks.dropPins(tombstone.incarnation, pins);
    if (pins === 0) return true;
    state.forks.deleteTombstone(key, tombstone);
  }
  return tombstones.length === PURGE_STREAMS_MAX;
}

function forget(state: State, name: Uint8Array): void {
  const bucket = state.buckets.of(state.tx, name, 0, name.length);
  if (!bucket.exists && bucket.streamsMax < 0 && bucket.retainedBytesMax < 0) return;
  bucket.exists = false;
  bucket.streamsMax = -1;
  bucket.retainedBytesMax = -1;
  state.buckets.touch(bucket);
}
