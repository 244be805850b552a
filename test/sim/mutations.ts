/**
 * Bugs planted on purpose: the simulator must find each of them. Each gets its fingers between the shard and its ports, where
 * a real bug would have had the same effect; the code under test stays as it is.
 */
import { errorNumber } from '../../src/base/errors.ts';
import { Core } from '../../src/raft/core.ts';
import { RaftLog } from '../../src/raft/log.ts';
import type { AppendRequest, Message } from '../../src/raft/types.ts';
import { CatchUp } from '../../src/shard/catch-up.ts';
import { TAG_IMPORT, TAG_META, TAG_PRODUCER } from '../../src/stream/keys.ts';
import { Command } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { THIN_MUTATIONS } from './thin-mutations.ts';
import type { Mutation } from './world.ts';

/** How long a disk that lies keeps a commit in its memory. */
const LAZY_SYNC_MS = 60;
/** The first part of a key of the log (store/turn-log.ts). */
const TURN_BYTES = 8;

/** Acknowledgements go out while the disk has not synced yet. */
const ackBeforeSync = (): Mutation => ({
  sync: (disk, { later }) => later(LAZY_SYNC_MS, () => disk.sync()),
});

/** Term and vote are kept in memory only. */
const voteNotPersisted = (): Mutation => ({
  onStore: (store) => {
    const commit = store.commit.bind(store);
    store.commit = (batches, checkpoint) =>
      commit(
        batches.map((batch) => ({ ...batch, hardState: undefined })),
        checkpoint,
      );
  },
});

/** What may leave only after the commit leaves before it. */
const sentBeforeCommit = (): Mutation => ({
  onProcess: ({ shard }) => {
    for (const { raft } of shard.groups) {
      const take = raft.take.bind(raft);
      raft.take = () => {
        const ready = take();
        return { ...ready, send: [...ready.send, ...ready.afterPersist], afterPersist: [] };
      };
    }
  },
});

/** A snapshot without the rows of producers: the receiver takes a repeated append for a new one. */
const producersNotInSnapshot = (): Mutation => ({ hiddenTag: TAG_PRODUCER });

/** A snapshot without the mark of an import: the receiver serves a group that is not whole. */
const importMarkNotInSnapshots = (): Mutation => ({ hiddenTag: TAG_IMPORT });

/** A follower answers as soon as the leader has answered, before it has applied the write itself. */
const replyBeforeApply = (): Mutation => ({
  onProcess: ({ peers }) => {
    const forward = peers.forward.bind(peers);
    peers.forward = (node, group, bytes, onReply) =>
      forward(node, group, bytes, (answer) => {
        if (answer === undefined) return onReply(undefined);
        const hasty = answer.slice();
        new DataView(hasty.buffer).setFloat64(0, 0, true);
        return onReply(hasty);
      });
  },
});

/** A leader believes that what it sent has arrived. */
const sentCountsAsAcknowledged = (): Mutation => ({
  onProcess: (process) => {
    const sendRaft = process.peers.sendRaft.bind(process.peers);
    process.peers.sendRaft = (node, group, message) => {
      sendRaft(node, group, message);
      if (message.type !== 'append' || message.entries.length === 0) return;
      process.later(0.01, () => process.shard.onRaft(group, acknowledgement(message, node)));
    };
  },
});

function acknowledgement(message: AppendRequest, from: number): Message {
  return {
    type: 'append-response',
    from,
    to: message.from,
    term: message.term,
    reject: false,
    index: message.prevIndex + message.entries.length,
    hintIndex: 0,
    hintTerm: 0,
    round: message.round,
    boot: 1,
    lost: 0,
    refusesLead: false,
  };
}

/** A follower's acknowledgement is counted for its neighbour, too. */
const oneAckCountsForTwo = (): Mutation => ({
  onProcess: ({ shard }) => {
    const onRaft = shard.onRaft.bind(shard);
    shard.onRaft = (group, message) => {
      onRaft(group, message);
      const voters = shard.group(group)?.raft.configuration.voters ?? [];
      const neighbour = voters.find((id) => id !== message.from && id !== message.to);
      if (message.type === 'append-response' && !message.reject && neighbour !== undefined) {
        onRaft(group, { ...message, from: neighbour });
      }
    };
  },
});

/** The last record of the log is gone after a restart. */
const logTailForgotten = (): Mutation => ({
  onStore: (_store, { node }) => {
    const keys = node.disk.log.allKeys();
    // A record is cut into parts, whose keys begin with its turn.
    const turn = keys[keys.length - 1]?.slice(0, TURN_BYTES) ?? '';
    for (const key of keys) if (key.startsWith(turn)) node.disk.log.set(key, undefined);
    node.disk.sync();
  },
});

/** The index of a snapshot is one too high. */
const snapshotWithWrongIndex = (): Mutation => ({
  onProcess: ({ peers }) => {
    const sendSnapshot = peers.sendSnapshot.bind(peers);
    peers.sendSnapshot = (node, group, message, metadata, source) => {
      const { snapshot } = message;
      return sendSnapshot(
        node,
        group,
        { ...message, snapshot: { ...snapshot, index: snapshot.index + 1 } },
        metadata,
        source,
      );
    };
  },
});

/** The applied index on disk is one too low: after a restart the last entry is applied again. */
const appliedTwice = (): Mutation => ({
  onStore: (store) => {
    const put = store.tx.put.bind(store.tx);
    store.tx.put = (key, value) => {
      if (key[2] !== TAG_META || key.length !== 3) return put(key, value);
      const view = new DataView(value.buffer, value.byteOffset);
      view.setFloat64(8, Math.max(0, view.getFloat64(8, true) - 1), true);
      return put(key, value);
    };
  },
});

/** A node with an empty disk under a used id does not know that it lost something. */
const lostMarkerForgotten = (): Mutation => ({
  onStore: (store) => {
    store.lost = () => false;
    store.setLost = () => undefined;
  },
  onProcess: ({ directories }) => {
    directories.onHello = () => undefined;
  },
});

/** Nobody knows that a node had another disk before, so a wiped one that was told nothing else votes. */
const directoriesNotRemembered = (): Mutation => ({
  onProcess: ({ node }) => {
    node.disk.peerRuns.set = () => node.disk.peerRuns;
  },
});

/** A forwarded write is sent twice. */
const forwardedTwice = (): Mutation => ({
  onProcess: ({ peers }) => {
    const forward = peers.forward.bind(peers);
    peers.forward = (node, group, bytes, onReply) => {
      const sent = forward(node, group, bytes, onReply);
      if (sent) forward(node, group, bytes, () => undefined);
      return sent;
    };
  },
});

/** A link that broke is taken for a refusal, so the write is sent again. */
const brokenLinkMeansNotDone = (): Mutation => ({
  onProcess: ({ peers }) => {
    const refusal = new Reply();
    refusal.code = errorNumber('NO_LEADER');
    const bytes = new Uint8Array(8 + refusal.bytesMax());
    refusal.write(bytes, new DataView(bytes.buffer), 8);
    const forward = peers.forward.bind(peers);
    peers.forward = (node, group, frame, onReply) => forward(node, group, frame, (answer) => onReply(answer ?? bytes));
  },
});

/** Clients are told that nothing was done when nobody knows. */
const unknownMeansNotDone = (): Mutation => ({
  onReply: (reply) => {
    if (reply.code === errorNumber('OUTCOME_UNKNOWN')) reply.code = errorNumber('NO_LEADER');
  },
});

/** The state machine reads the node's clock instead of the leader's. */
const clockInApply = (): Mutation => ({
  onProcess: (process) => {
    for (const group of process.shard.groups) {
      const applyCommitted = group.applyCommitted.bind(group);
      const command = new Command();
      group.applyCommitted = (entries) =>
        applyCommitted(
          entries.map((entry) => {
            const data = entry.data.slice();
            if (entry.kind === 0) eachCommand(data, command, () => command.stampNow(process.wallMs));
            return { ...entry, data };
          }),
        );
    }
  },
});

/** A checkpoint is reported and not written; the log behind it is purged. */
const checkpointNotWritten = (): Mutation => ({
  onStore: (store, { node }) => {
    const commit = store.commit.bind(store);
    store.commit = (batches, checkpoint) => commit(batches, node.boots % 2 === 0 ? undefined : checkpoint);
  },
});

/** Entries that replace others are not written. */
const conflictNotWritten = (): Mutation => ({
  onStore: (store) => {
    const commit = store.commit.bind(store);
    const last = new Map<number, number>();
    store.commit = (batches, checkpoint) => {
      const kept = batches.map((batch) => {
        const first = batch.entries[0]?.index ?? Infinity;
        const replaces = first <= (last.get(batch.group) ?? 0);
        last.set(batch.group, batch.persistIndex);
        return replaces ? { ...batch, entries: [] } : batch;
      });
      commit(kept, checkpoint);
    };
  },
});

/**
 * A new leader counts entries of earlier terms (thesis 3.6.2, figure 8). Inside the core nothing can be wrapped, so its
 * prototype is: commit.ts asks isAlone() right before it compares with the start of the term.
 */
const oldTermCommittedByCounting = (): Mutation => ({
  install: () => {
    const { isAlone } = Core.prototype;
    Core.prototype.isAlone = function (this: Core) {
      this.termStart = 0;
      return isAlone.call(this);
    };
    return () => (Core.prototype.isAlone = isAlone);
  },
});

/** Voters do not compare logs: whoever asks first leads. */
const anyLogMayLead = (): Mutation => ({
  install: () => {
    const { isUpToDate } = RaftLog.prototype;
    RaftLog.prototype.isUpToDate = () => true;
    return () => (RaftLog.prototype.isUpToDate = isUpToDate);
  },
});

/** A node that starts again answers reads from its last checkpoint. */
const readsNotHeld = (): Mutation => ({
  install: () => {
    const { isBehind } = CatchUp.prototype;
    CatchUp.prototype.isBehind = () => false;
    return () => (CatchUp.prototype.isBehind = isBehind);
  },
});

/** What a node does not have, it says is not there. */
const missingNotConfirmed = (): Mutation => ({
  onProcess: ({ shard }) => {
    for (const group of shard.groups) group.onMissing = undefined;
  },
});

/** A node that is marked for maintenance acknowledges that, and campaigns as before. */
const markForgotten = (): Mutation => ({
  onProcess: ({ shard }) => {
    for (const { raft } of shard.groups) {
      Object.defineProperty(raft, 'candidacy', { value: 'usual', writable: true });
    }
  },
});

/** By name; each call makes one with its own memory. */
export const MUTATIONS: Readonly<Record<string, () => Mutation>> = {
  'ack-before-sync': ackBeforeSync,
  'vote-not-persisted': voteNotPersisted,
  'sent-before-commit': sentBeforeCommit,
  'producers-not-in-snapshot': producersNotInSnapshot,
  'import-mark-not-in-snapshots': importMarkNotInSnapshots,
  'reply-before-apply': replyBeforeApply,
  'sent-counts-as-acknowledged': sentCountsAsAcknowledged,
  'one-ack-counts-for-two': oneAckCountsForTwo,
  'log-tail-forgotten': logTailForgotten,
  'snapshot-with-wrong-index': snapshotWithWrongIndex,
  'applied-twice': appliedTwice,
  'lost-marker-forgotten': lostMarkerForgotten,
  'directories-not-remembered': directoriesNotRemembered,
  'forwarded-twice': forwardedTwice,
  'broken-link-means-not-done': brokenLinkMeansNotDone,
  'unknown-means-not-done': unknownMeansNotDone,
  'clock-in-apply': clockInApply,
  'checkpoint-not-written': checkpointNotWritten,
  'conflict-not-written': conflictNotWritten,
  'any-log-may-lead': anyLogMayLead,
  'reads-not-held': readsNotHeld,
  'missing-not-confirmed': missingNotConfirmed,
  'mark-forgotten': markForgotten,
  // Found by about one in a hundred of the runs with fallen leaders (options.ts).
  'old-term-committed-by-counting': oldTermCommittedByCounting,
  ...THIN_MUTATIONS,
};
