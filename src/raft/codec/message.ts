/**
 * All messages of Raft between two nodes. The interfaces say again what src/raft/types.ts says, because this folder and
 * consensus do not know each other; src/peer passes one for the other, so the compiler keeps them equal.
 */
import { appendCodec, appendResponseCodec } from './append.ts';
import type { AppendRequest, AppendResponse } from './append.ts';
import type { Codec } from './codec.ts';
import type { Reader, Writer } from '../../base/cursor.ts';
import { heartbeatCodec, heartbeatResponseCodec } from './heartbeat.ts';
import type { Heartbeat, HeartbeatResponse } from './heartbeat.ts';
import { readIndexCodec, readIndexResponseCodec } from './read-index.ts';
import type { ReadIndexRequest, ReadIndexResponse } from './read-index.ts';
import { snapshotCodec } from './snapshot.ts';
import type { SnapshotRequest } from './snapshot.ts';
import { timeoutNowCodec } from './timeout-now.ts';
import type { TimeoutNow } from './timeout-now.ts';
import { voteCodec, voteResponseCodec } from './vote.ts';
import type { VoteRequest, VoteResponse } from './vote.ts';

export type PeerMessage =
  | VoteRequest
  | VoteResponse
  | AppendRequest
  | AppendResponse
  | Heartbeat
  | HeartbeatResponse
  | SnapshotRequest
  | TimeoutNow
  | ReadIndexRequest
  | ReadIndexResponse;

type CodecTable = { readonly [K in PeerMessage['type']]: Codec<Extract<PeerMessage, { type: K }>> };

const CODECS: CodecTable = {
  vote: voteCodec,
  'vote-response': voteResponseCodec,
  append: appendCodec,
  'append-response': appendResponseCodec,
  heartbeat: heartbeatCodec,
  'heartbeat-response': heartbeatResponseCodec,
  snapshot: snapshotCodec,
  'timeout-now': timeoutNowCodec,
  'read-index': readIndexCodec,
  'read-index-response': readIndexResponseCodec,
};

const BY_NUMBER: readonly (Codec<PeerMessage> | undefined)[] = byNumber();

function byNumber(): (Codec<PeerMessage> | undefined)[] {
  const table: (Codec<PeerMessage> | undefined)[] = [];
  for (const codec of Object.values(CODECS)) table[codec.number] = codec as unknown as Codec<PeerMessage>;
  return table;
}

function codecOf(message: PeerMessage): Codec<PeerMessage> {
  // Sound: the table gives each type its own codec, which the compiler cannot follow through a union.
  return CODECS[message.type] as unknown as Codec<PeerMessage>;
}

const HEAD_BYTES = 10;

/** Size of a message as writeMessage writes it. */
export function messageBytes(message: PeerMessage): number {
  return HEAD_BYTES + codecOf(message).bodyBytes(message);
}

/** Layout: number u8 | flags u8 | term f64 | body of its codec. */
export function writeMessage(writer: Writer, message: PeerMessage): void {
  const codec = codecOf(message);
  writer.u8(codec.number);
  writer.u8(codec.flags(message));
  writer.int53(message.term);
  codec.writeBody(writer, message);
}

/** A message of node `from` to node `to`; undefined when the bytes are none. Entry data is copied, nothing points into the frame. */
export function readMessage(reader: Reader, from: number, to: number): PeerMessage | undefined {
  const codec = BY_NUMBER[reader.u8()];
  const flags = reader.u8();
  const term = reader.int53();
  if (reader.bad || codec === undefined || (flags & ~codec.flagMask) !== 0) {
    reader.fail();
    return undefined;
  }
  const message = codec.readBody(reader, flags, { from, to, term });
  return reader.bad ? undefined : message;
}
