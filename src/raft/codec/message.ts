/** All messages of Raft between two nodes (types.ts), each with its codec. */
import { appendCodec, appendResponseCodec } from './append.ts';
import type { Codec } from './codec.ts';
import type { Reader, Writer } from '../../base/cursor.ts';
import { heartbeatCodec, heartbeatResponseCodec } from './heartbeat.ts';
import { readIndexCodec, readIndexResponseCodec, timeoutNowCodec, voteCodec, voteResponseCodec } from './plain.ts';
import { snapshotCodec } from './snapshot.ts';
import { f64, struct, u8 } from '../../base/struct.ts';
import type { Message } from '../types.ts';

type CodecTable = { readonly [K in Message['type']]: Codec<Extract<Message, { type: K }>> };

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

const BY_NUMBER: readonly (Codec<Message> | undefined)[] = byNumber();

function byNumber(): (Codec<Message> | undefined)[] {
  const table: (Codec<Message> | undefined)[] = [];
  for (const codec of Object.values(CODECS)) table[codec.number] = codec as unknown as Codec<Message>;
  return table;
}

function codecOf(message: Message): Codec<Message> {
  // Sound: the table gives each type its own codec, which the compiler cannot follow through a union.
  return CODECS[message.type] as unknown as Codec<Message>;
}

export const MESSAGE = struct({ number: u8, flags: u8, term: f64 }, 'the body of its kind');
const HEAD = MESSAGE.fields;

/** Size of a message as writeMessage writes it. */
export function messageBytes(message: Message): number {
  return MESSAGE.size + codecOf(message).bodyBytes(message);
}

export function writeMessage(writer: Writer, message: Message): void {
  const codec = codecOf(message);
  writer.open(MESSAGE);
  writer.set(HEAD.number, codec.number);
  writer.set(HEAD.flags, codec.flags(message));
  writer.set(HEAD.term, message.term);
  codec.writeBody(writer, message);
}

/** A message of node `from` to node `to`; undefined for invalid bytes. Copies entry data out of the frame. */
export function readMessage(reader: Reader, from: number, to: number): Message | undefined {
  reader.open(MESSAGE);
  const codec = BY_NUMBER[reader.get(HEAD.number)];
  const flags = reader.get(HEAD.flags);
  const term = reader.get(HEAD.term);
  if (reader.bad || codec === undefined || (flags & ~codec.flagMask) !== 0) {
    reader.fail();
    return undefined;
  }
  const message = codec.readBody(reader, flags, { from, to, term });
  return reader.bad ? undefined : message;
}
