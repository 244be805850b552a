/** The calls from links to other nodes into a shard. Links exist before their shard, and call it once both exist. */
import type { Runtime } from '../base/runtime.ts';
import type { Message } from '../raft/types.ts';
import type { ForwardOrigin, SnapshotHandler } from './ports.ts';
import type { Shard } from './shard.ts';

export interface InboxOptions {
  readonly shard: () => Shard;
  /** Asks for a turn soon. */
  readonly wake: () => void;
  readonly runtime: Pick<Runtime, 'nowMs'>;
}

export interface Inbox extends SnapshotHandler {
  onRaft(group: number, message: Message): void;
  onForward(origin: ForwardOrigin, group: number, bytes: Uint8Array): void;
  onLinkUp(): void;
  onLinkDown(): void;
}

export function openInbox({ shard, wake, runtime }: InboxOptions): Inbox {
  return {
    onRaft: (group, message) => {
      if (shard().onRaft(group, message)) wake();
    },
    onForward: (origin, group, bytes) => {
      shard().onForward(origin, group, bytes, runtime.nowMs());
      wake();
    },
    onLinkUp: wake,
    onLinkDown: wake,
    onSnapshotBegin: (snapshot, message, metadata) =>
      shard().replication.snapshots.onSnapshotBegin(snapshot, message, metadata),
    onSnapshotChunk: (snapshot, rows) => shard().replication.snapshots.onSnapshotChunk(snapshot, rows),
    onSnapshotComplete: (snapshot) => {
      shard().replication.snapshots.onSnapshotComplete(snapshot);
      wake();
    },
    onSnapshotAborted: (snapshot) => shard().replication.snapshots.onSnapshotAborted(snapshot),
  };
}
