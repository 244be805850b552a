/** Routes snapshot frames: to the receiving end here, or to the sending one that they answer. */
import { FRAME_KIND } from './codec/frame.ts';
import {
  decodeSnapshotAck,
  decodeSnapshotBegin,
  decodeSnapshotChunk,
  decodeSnapshotEnd,
} from './codec/snapshot-transfer.ts';
import type { Session } from './listener.ts';
import type { SnapshotReceiver } from './snapshot-receiver.ts';
import type { SnapshotSender } from './snapshot-sender.ts';

export interface SnapshotEnds {
  /** This node, and this run of it. */
  readonly node: number;
  readonly boot: number;
  readonly sending: SnapshotSender;
  readonly receiving: SnapshotReceiver;
  hasGroup(group: number): boolean;
}

/** False: the frame is of another kind, damaged, or refers to a group that is not here. */
export function onSnapshotFrame(ends: SnapshotEnds, session: Session, kind: number, payload: Uint8Array): boolean {
  const { sending, receiving } = ends;
  const { node } = session.peer;
  if (kind === FRAME_KIND.snapshotBegin) {
    const begin = decodeSnapshotBegin(payload, node, ends.node);
    if (begin === undefined || !ends.hasGroup(begin.group)) return false;
    receiving.onBegin(session, begin);
    return true;
  }
  if (kind === FRAME_KIND.snapshotChunk) {
    const chunk = decodeSnapshotChunk(payload);
    if (chunk !== undefined) receiving.onChunk(session, chunk);
    return chunk !== undefined;
  }
  if (kind === FRAME_KIND.snapshotEnd) {
    const end = decodeSnapshotEnd(payload);
    if (end !== undefined) receiving.onEnd(session, end);
    return end !== undefined;
  }
  if (kind !== FRAME_KIND.snapshotAck) return false;
  const ack = decodeSnapshotAck(payload);
  if (ack?.boot === ends.boot) sending.onAck(node, ack);
  return ack !== undefined;
}
