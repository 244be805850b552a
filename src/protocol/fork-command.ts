/**
 * Payloads of the commands that make a fork (stream/forks/). Names are keys: bucket, NUL, stream. Little-endian.
 *
 *   BEGIN  source, u16 and bytes | offset f64 (-1: the tail) | sub-offset f64
 *   PIN    fork, u16 and bytes | offset f64 (-1: the tail)
 *   DATA   FORK_DATA
 */
import { Reader, Writer } from '../base/cursor.ts';
import { f64, struct, u32 } from '../base/struct.ts';
import { textBytes } from '../base/text.ts';
import { NO_RESULT, CHANGE, REMOVAL, type ResultCodec, command, numbersIn } from './operation.ts';
import { FORK_GONE } from './fork-gone.ts';
import type { StreamName } from './flat-path.ts';
import { CREATE_FIELDS } from './create.ts';
import { type CommandCodec, commandFields, withPayload } from './command-request.ts';

/** The lifetime that a fork inherited from its source, or its own; -1: none. */
export interface Lifetime {
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
}

/** Two whole numbers with a blank between. The text may come from another node: what is no such number is none. */
const LIFETIME: ResultCodec<Lifetime> = {
  write(reply, { ttlSeconds, expiresAtMs }) {
    reply.text = `${ttlSeconds} ${expiresAtMs}`;
  },
  read(reply) {
    const [ttlSeconds = '', expiresAtMs = ''] = reply.text.split(' ');
    return { ttlSeconds: wholeNumber(ttlSeconds), expiresAtMs: wholeNumber(expiresAtMs) };
  },
};

function wholeNumber(text: string): number {
  const value = /^\d+$/.test(text) ? Number(text) : -1;
  return Number.isSafeInteger(value) ? value : -1;
}

/** The source of a fork; its type, tail and records are in the reply as for any stream. */
const PIN_RESULT = numbersIn({ startOffset: 'startOffset', ttlSeconds: 'a', expiresAtMs: 'b', incarnation: 'c' });

const CHECK_RESULT: ResultCodec<{ readonly isThere: boolean }> = {
  write(reply, { isThere }) {
    reply.a = isThere ? 1 : 0;
  },
  read: ({ a }) => ({ isThere: a === 1 }),
};

/** A stream, and the fork that it is or has. */
export interface ForkName extends StreamName {
  readonly forkToken: number;
}

const NAMED_FORK = commandFields('bucket', 'stream', 'contentType', 'forkToken');

/** Everything that its CREATE says but the body, which comes with the END. */
const BEGIN: CommandCodec<Parameters<typeof CREATE_FIELDS.write>[1] & ForkName & ForkSource> = {
  write(request, asked) {
    CREATE_FIELDS.write(request, asked);
    request.command.forkToken = asked.forkToken;
    request.command.payload = encodeForkBegin(asked.source, asked.offset, asked.subOffset);
  },
};

/** Reserves the name of the fork. */
export const forkBegin = command({
  number: 21,
  ...CHANGE,
  quota: 'counted',
  createsStream: true,
  request: BEGIN,
  result: LIFETIME,
});

/** In the group of the source: records the fork. */
export const forkPin = command({
  number: 22,
  ...CHANGE,
  request: withPayload(NAMED_FORK, ({ fork, offset }: { readonly fork: string; readonly offset: number }) =>
    encodeForkPin(fork, offset),
  ),
  result: PIN_RESULT,
});

/** A piece of what the fork inherits. */
export const forkData = command({
  number: 23,
  ...CHANGE,
  wouldAddBytes: true,
  request: withPayload(NAMED_FORK, encodeForkData),
  result: NO_RESULT,
});

/** The payload is the fork's first own body, as in a create. */
export const forkEnd = command({
  number: 24,
  forwardable: true,
  wouldAddBytes: true,
  freesSpace: false,
  body: 'message',
  mayBringNoRecords: true,
  quota: 'none',
  createsStream: false,
  isImport: false,
  request: commandFields(
    'bucket',
    'stream',
    'contentType',
    'payload',
    'close',
    'producerId',
    'producerEpoch',
    'producerSeq',
    'ttlSeconds',
    'expiresAtMs',
    'forkToken',
  ),
  result: LIFETIME,
});

export const forkAbort = command({
  number: 25,
  ...REMOVAL,
  request: NAMED_FORK,
  result: FORK_GONE,
});

/** A fork is gone: notifies the group of the source, and then that of the fork, which removes the notification. */
export const forkUnpin = command({
  number: 26,
  ...REMOVAL,
  request: NAMED_FORK,
  result: FORK_GONE,
});

export const forkUnpinned = command({
  number: 27,
  ...REMOVAL,
  request: NAMED_FORK,
  result: NO_RESULT,
});

/** Whether the fork with this token still exists. Changes nothing; a command, so that the answer is final. */
export const forkCheck = command({
  number: 28,
  ...CHANGE,
  request: NAMED_FORK,
  result: CHECK_RESULT,
});

/** Stream-Fork-Offset was omitted. */
export const FORK_AT_TAIL = -1;
/** @internal */
export const FORK_DATA = struct(
  { anchor: f64, at: f64, record: f64, count: u32 },
  'ends (u32 each, relative to the bytes), bytes',
);

export interface ForkBegin {
  readonly source: Uint8Array;
  readonly offset: number;
  readonly subOffset: number;
}

/** `source` is a key: bucket, NUL, stream. */
export interface ForkSource extends Omit<ForkBegin, 'source'> {
  readonly source: string;
}

export function encodeForkBegin(source: string, offset: number, subOffset: number): Uint8Array {
  const writer = new Writer(new Uint8Array(2 + textBytes(source) + 16));
  writer.text(source);
  writer.int53(offset);
  writer.int53(subOffset);
  return writer.finish();
}

/** Undefined: not the parameters of a BEGIN. */
export function decodeForkBegin(payload: Uint8Array): ForkBegin | undefined {
  const reader = new Reader(payload);
  const begin = {
    source: reader.ownBytes(reader.u16()),
    offset: reader.int53(FORK_AT_TAIL),
    subOffset: reader.int53(),
  };
  return reader.finished && isKey(begin.source) ? begin : undefined;
}

export interface ForkPin {
  readonly fork: Uint8Array;
  readonly offset: number;
}

export function encodeForkPin(fork: string, offset: number): Uint8Array {
  const writer = new Writer(new Uint8Array(2 + textBytes(fork) + 8));
  writer.text(fork);
  writer.int53(offset);
  return writer.finish();
}

export function decodeForkPin(payload: Uint8Array): ForkPin | undefined {
  const reader = new Reader(payload);
  const pin = { fork: reader.ownBytes(reader.u16()), offset: reader.int53(FORK_AT_TAIL) };
  return reader.finished && isKey(pin.fork) ? pin : undefined;
}

/** Consecutive complete messages or records; the last one may be cut at the end of what is inherited. */
export interface ForkPiece {
  /** Stream-Fork-Offset, or the tail if it was omitted. */
  readonly anchor: number;
  /** Offset and ordinal of the first one. */
  readonly at: number;
  readonly record: number;
  readonly ends: readonly number[];
  readonly bytes: Uint8Array;
}

export function encodeForkData({ ends, bytes, ...piece }: ForkPiece): Uint8Array {
  const writer = new Writer(new Uint8Array(FORK_DATA.size + 4 * ends.length + bytes.length));
  writer.record(FORK_DATA, { ...piece, count: ends.length });
  for (const end of ends) writer.u32(end);
  writer.raw(bytes);
  return writer.finish();
}

/** A piece in place: where its ends and bytes begin in the payload. */
export interface ForkData {
  readonly anchor: number;
  readonly at: number;
  readonly record: number;
  readonly count: number;
  readonly endsAt: number;
  readonly bytesAt: number;
  readonly size: number;
}

/** Undefined: not a piece that could be stored. */
export function decodeForkData(payload: Uint8Array): ForkData | undefined {
  const reader = new Reader(payload);
  const piece = reader.record(FORK_DATA);
  const { count } = piece;
  if (reader.bad || reader.leftBytes < 4 * count) return undefined;
  let last = 0;
  for (let i = 0; i < count; i++) {
    const end = reader.u32();
    if (end <= last) return undefined;
    last = end;
  }
  if (reader.leftBytes !== last) return undefined;
  return { ...piece, endsAt: FORK_DATA.size, bytesAt: FORK_DATA.size + 4 * count, size: last };
}

/** bucket, NUL, stream. */
function isKey(name: Uint8Array): boolean {
  const border = name.indexOf(0);
  return border > 0 && border < name.length - 1;
}
