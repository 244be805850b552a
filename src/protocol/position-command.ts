/**
 * Parameters of the commands about a position in a stream: PUBLISH_SNAPSHOT and RETENTION. Only the cold store knows
 * record boundaries in the cold region, so the main thread looks them up (a READ of parts) and sends the result along;
 * the state machine trusts it for that incarnation.
 */
import { DIGEST_BYTES } from './cold.ts';
import { Reader, Writer } from '../base/cursor.ts';
import { f64, struct, u8 } from '../base/struct.ts';
import type { StreamName } from './flat-path.ts';
import { CHANGE, REMOVAL, NO_RESULT, command } from './operation.ts';
import { type CommandCodec, commandFields, withPayload } from './command-request.ts';

const PUBLISH_FIELDS = commandFields('bucket', 'stream', 'contentType', 'payload');

/** `payload` is a client's body behind PUBLISH_HEAD_BYTES of room (payloadOfSnapshot), so it is not copied again. */
interface PublishRequest extends Omit<Publish, 'bytes'>, StreamName {
  readonly contentType?: string;
  readonly payload: Uint8Array;
}

const PUBLISH: CommandCodec<PublishRequest> = {
  write(request, asked) {
    writePublishHead(asked.payload, asked);
    PUBLISH_FIELDS.write(request, asked);
  },
};

export const publishSnapshot = command({
  number: 9,
  ...CHANGE,
  quota: 'counted',
  request: PUBLISH,
  result: NO_RESULT,
});

export const retention = command({
  number: 10,
  ...REMOVAL,
  request: withPayload(commandFields('bucket', 'stream'), ({ position }: { readonly position: Position }) =>
    encodeRetention(position),
  ),
  result: NO_RESULT,
});

export interface Position {
  /** `value` is a record ordinal, otherwise an offset. */
  readonly byRecord: boolean;
  readonly value: number;
  /** Incarnation in which the boundary was looked up; 0: it was not. */
  readonly checkedIncarnation: number;
  readonly checkedOffset: number;
  readonly checkedRecord: number;
}

/** @internal */
export const POSITION = struct({
  ...{ byRecord: u8, hasMatch: u8, value: f64 },
  ...{ checkedIncarnation: f64, checkedOffset: f64, checkedRecord: f64 },
});
/** Precedes a snapshot's bytes: position | digest | required digest of the current snapshot. */
export const PUBLISH_HEAD_BYTES = POSITION.size + 2 * DIGEST_BYTES;

function writePosition(writer: Writer, position: Position, hasMatch: boolean): void {
  writer.record(POSITION, { ...position, byRecord: position.byRecord ? 1 : 0, hasMatch: hasMatch ? 1 : 0 });
}

function readPosition(reader: Reader): Position & { readonly hasMatch: boolean } {
  const { byRecord, hasMatch, ...place } = reader.record(POSITION);
  return { ...place, byRecord: byRecord === 1, hasMatch: hasMatch === 1 };
}

export function encodeRetention(position: Position): Uint8Array {
  const writer = new Writer(new Uint8Array(POSITION.size));
  writePosition(writer, position, false);
  return writer.finish();
}

/** Undefined: not the parameters of a RETENTION. */
export function decodeRetention(payload: Uint8Array): Position | undefined {
  const reader = new Reader(payload);
  const position = readPosition(reader);
  return reader.finished ? position : undefined;
}

export interface Publish {
  readonly position: Position;
  readonly digest: Uint8Array;
  /** Undefined: any published snapshot. */
  readonly match: Uint8Array | undefined;
  /** The snapshot itself. */
  readonly bytes: Uint8Array;
}

/** With room in front of it for what the command says of it. */
export function payloadOfSnapshot(bytes: Uint8Array): Uint8Array {
  const payload = new Uint8Array(PUBLISH_HEAD_BYTES + bytes.length);
  payload.set(bytes, PUBLISH_HEAD_BYTES);
  return payload;
}

/** Writes everything except the bytes to the front of `payload`; the bytes are its rest. */
export function writePublishHead(payload: Uint8Array, publish: Omit<Publish, 'bytes'>): void {
  const writer = new Writer(payload.subarray(0, PUBLISH_HEAD_BYTES));
  writePosition(writer, publish.position, publish.match !== undefined);
  writer.raw(publish.digest);
  writer.raw(publish.match ?? new Uint8Array(DIGEST_BYTES));
  writer.finish();
}

/** Undefined: not the parameters of a PUBLISH_SNAPSHOT. `bytes` is a view, the digests are copies. */
export function decodePublish(payload: Uint8Array): Publish | undefined {
  const reader = new Reader(payload);
  const { hasMatch, ...position } = readPosition(reader);
  const digest = reader.ownBytes(DIGEST_BYTES);
  const match = reader.ownBytes(DIGEST_BYTES);
  const bytes = reader.rest();
  return reader.bad ? undefined : { position, digest, match: hasMatch ? match : undefined, bytes };
}
