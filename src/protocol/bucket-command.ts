/** Parameters of the commands about a whole bucket, in the payload of PURGE and QUOTA. Little-endian. */
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { NO_RESULT, command, type ResultCodec } from './operation.ts';
import { A, B, C, TEXT } from './generic-fields.ts';
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
    reply[A] = streamsRemoved;
    reply[B] = hasMore ? 1 : 0;
    reply[C] = objectsQueued;
    reply[TEXT] = continueAfter;
  },
  read: (reply) => ({
    streamsRemoved: reply[A],
    hasMore: reply[B] === 1,
    continueAfter: reply[TEXT],
    objectsQueued: reply[C],
  }),
};

/** Removes an empty bucket; its usage counters stay. */
export const deleteBucket = command({
  number: 7,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: true,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  request: commandFields('bucket'),
  result: NO_RESULT,
});

export const purge = command({
  number: 11,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: true,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'changes',
  createsStream: false,
  isImport: false,
  request: withPayload(commandFields('bucket'), ({ after }: { readonly after: string }) => encodePurge(after)),
  result: PURGE_RESULT,
});

export const quota = command({
  number: 12,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'changes',
  createsStream: false,
  isImport: false,
  request: withPayload(commandFields('bucket'), encodeQuota),
  result: NO_RESULT,
});

/** -1: no bound. */
export interface Quota {
  readonly streamsMax: number;
  readonly retainedBytesMax: number;
}

/** streamsMax f64 | retainedBytesMax f64. */
export function encodeQuota({ streamsMax, retainedBytesMax }: Quota): Uint8Array {
  const writer = new Writer(new Uint8Array(16));
  writer.int53(streamsMax);
  writer.int53(retainedBytesMax);
  return writer.finish();
}

/** Undefined: not the parameters of a QUOTA. */
export function decodeQuota(payload: Uint8Array): Quota | undefined {
  const reader = new Reader(payload);
  const quota = { streamsMax: reader.int53(-1), retainedBytesMax: reader.int53(-1) };
  return reader.finished ? quota : undefined;
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
