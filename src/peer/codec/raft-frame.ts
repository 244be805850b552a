/** Payload of a RAFT frame: items until its end, each group u16 and a message (message.ts). */
import type { Slab } from '../../base/slab.ts';
import { Reader, Writer } from '../../base/cursor.ts';
import { struct, u16 } from '../../base/struct.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, sealFrame } from './frame.ts';
import { messageBytes, readMessage, writeMessage } from '../../raft/codec/message.ts';
import type { Message } from '../../raft/types.ts';

export const RAFT_ITEM = struct({ group: u16 }, 'message; the next item');

export interface RaftItem {
  readonly group: number;
  readonly message: Message;
}

/** Payload bytes of one item. */
export function raftItemBytes(message: Message): number {
  return RAFT_ITEM.size + messageBytes(message);
}

/** The frame with these items; the caller has added up their payload bytes. */
export function encodeRaftFrame(items: readonly RaftItem[], payloadBytes: number): Uint8Array {
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + payloadBytes), FRAME_HEAD_BYTES);
  for (const { group, message } of items) {
    writer.open(RAFT_ITEM);
    writer.set(RAFT_ITEM.fields.group, group);
    writeMessage(writer, message);
  }
  return sealFrame(writer.finish(), FRAME_KIND.raft);
}

/**
 * Calls `visit` for each item, in order. False: the payload is damaged or holds a message that is not allowed in such a
 * frame; what was visited before was good. `memory`: allocates the entries of a group.
 */
export function decodeRaftFrame(
  payload: Uint8Array,
  from: number,
  to: number,
  visit: (group: number, message: Message) => void,
  memory?: (group: number) => Slab | undefined,
): boolean {
  const reader = new Reader(payload);
  while (reader.leftBytes > 0) {
    reader.open(RAFT_ITEM);
    const group = reader.get(RAFT_ITEM.fields.group);
    reader.memory = memory?.(group);
    const message = readMessage(reader, from, to);
    // A snapshot's metadata without its payload would install an empty state.
    if (message === undefined || message.type === 'snapshot') return false;
    visit(group, message);
  }
  return !reader.bad;
}
