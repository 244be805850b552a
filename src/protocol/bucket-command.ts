/** Parameters of the commands about a whole bucket, in the payload of PURGE and QUOTA. Little-endian. */
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { f64OrNone, struct } from '../base/struct.ts';
import { NO_RESULT, CHANGE, REMOVAL, type ResultCodec, command } from './operation.ts';
import { commandFields, withPayload } from './command-request.ts';

/** One command of a purge does a bounded part of it. */
export interface PurgeResult {
  readonly streamsRemoved: number;
  /** Another command has to follow. */
  readonly hasMore: boolean;
  /** The stream after which it continues. */
  readonly continueAfter: string;
  /** Objects of the cold store queued for deletion. */
  readonly objectsQueued: number;
}

const PURGE_RESULT: ResultCodec<PurgeResult> = {
  write(reply, { streamsRemoved, hasMore, continueAfter, objectsQueued }) {
    reply.a = streamsRemoved;
    reply.b = hasMore ? 1 : 0;
    reply.c = objectsQueued;
    reply.text = continueAfter;
  },
  read: ({ a, b, c, text }) => ({ streamsRemoved: a, hasMore: b === 1, continueAfter: text, objectsQueued: c }),
};

/** Removes an empty bucket; its usage counters stay. */
export const deleteBucket = command({
  number: 7,
  ...REMOVAL,
  request: commandFields('bucket'),
  result: NO_RESULT,
});

export const purge = command({
  number: 11,
  ...REMOVAL,
  quota: 'changes',
  request: withPayload(commandFields('bucket'), ({ after }: { readonly after: string }) => encodePurge(after)),
  result: PURGE_RESULT,
});

export const quota = command({
  number: 12,
  ...CHANGE,
  quota: 'changes',
  request: withPayload(commandFields('bucket'), encodeQuota),
  result: NO_RESULT,
});

/** @internal -1: no bound. */
export const QUOTA = struct({ streamsMax: f64OrNone, retainedBytesMax: f64OrNone });
export type Quota = Readonly<ReturnType<typeof QUOTA.decode>>;

export function encodeQuota(bounds: Quota): Uint8Array {
  return QUOTA.encode(bounds);
}

/** Undefined: not the parameters of a QUOTA. */
export function decodeQuota(payload: Uint8Array): Quota | undefined {
  const reader = new Reader(payload);
  const bounds = reader.record(QUOTA);
  return reader.finished ? bounds : undefined;
}

/** PURGE continues after the stream `after`; empty: from the first. */
export function encodePurge(after: string): Uint8Array {
  const writer = new Writer(new Uint8Array(textFieldBytes(after)));
  writer.text(after);
  return writer.finish();
}

/** Undefined: not the parameters of a PURGE. The name is encoded as in the key. */
export function decodePurge(payload: Uint8Array): Uint8Array | undefined {
  const reader = new Reader(payload);
  const after = reader.ownBytes(reader.u16());
  return reader.finished ? after : undefined;
}
