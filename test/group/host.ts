// A group as its shard sees it, with two silent peers whose answers a test gives.
import assert from 'node:assert/strict';
import { errorCode } from '../../src/base/errors.ts';
import { Group } from '../../src/group/group.ts';
import type { Entry, LogReader, Message } from '../../src/raft/types.ts';
import { State } from '../../src/stream/core/state.ts';
import type { CommandFields } from '../../src/protocol/command.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import {
  QUOTA_UNMARKED,
  REQUEST_HEAD_BYTES,
  newRequest,
  requestBytesMax,
  writeRequest,
} from '../../src/protocol/request.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

class Log implements LogReader {
  readonly all: Entry[] = [];
  firstIndex = (): number => 1;
  lastIndex = (): number => this.all.length;
  term = (index: number): number => this.all[index - 1]?.term ?? 0;
  entries = (lo: number, hi: number): Entry[] => this.all.slice(lo - 1, hi - 1);
}

export class Host {
  readonly log = new Log();
  readonly tx = new SortedMapTx();
  readonly answers = new Map<number, string>();
  readonly sent: Message[] = [];
  readonly group: Group;
  /** The wall clock of the leader. */
  nowMs = 1000;

  constructor() {
    const sink = {
      send: (reply: Reply): void => {
        assert(!this.answers.has(reply.id), `slot ${reply.id} is answered once`);
        this.answers.set(reply.id, errorCode(reply.code));
      },
    };
    this.group = new Group(
      new State(0, this.tx),
      {
        nodeId: 1,
        electionTicks: 10,
        heartbeatTicks: 2,
        maxMessageBytes: 1e6,
        maxInflightBytes: 1e6,
        maxEntryBytes: 1e8,
        maxUncommittedBytes: 1e6,
        seed: 1,
        lost: 0,
        log: this.log,
        hardState: { term: 0, vote: 0, commit: 0 },
        configuration: { voters: [1, 2, 3], votersOutgoing: [], learners: [] },
        applied: 0,
        snapshotIndex: 0,
        snapshotTerm: 0,
      },
      sink,
    );
  }

  /** Persists and applies until nothing is left to do. */
  work(): void {
    while (this.group.raft.hasReady()) {
      const ready = this.group.raft.take();
      this.sent.push(...ready.send, ...ready.afterPersist);
      if (ready.entries.length > 0) this.log.all.length = (ready.entries[0] as Entry).index - 1;
      this.log.all.push(...ready.entries);
      this.group.applyCommitted(ready.committed);
      if (ready.mustPersist) this.group.raft.persisted(ready.persistIndex);
    }
  }

  /** Creates a stream of its own, unless `fields` say something else. */
  submit(slot: number, fields: Partial<CommandFields> = {}, quotaMark = QUOTA_UNMARKED): void {
    const request = newRequest();
    request.quotaMark = quotaMark;
    const kind = COMMANDS.create.number;
    Object.assign(request.command, { kind, bucket: 'bucket', stream: `s${slot}`, ...fields });
    request.op = request.command.kind;
    const bytes = new Uint8Array(requestBytesMax(request));
    const view = new DataView(bytes.buffer);
    writeRequest(request, slot, 0, bytes, view, 0);
    this.group.submit(slot, bytes, view, REQUEST_HEAD_BYTES, undefined, this.nowMs);
    // The ring and the frames of peers are used again.
    bytes.fill(0xee);
  }

  /** Node 2 says yes to everything that it was asked. */
  answerFrom2(): void {
    for (const message of this.sent.splice(0)) {
      if (message.to !== 2) continue;
      const note = { round: 0, boot: 2, lost: 0, refusesLead: false, wantsState: false } as const;
      const { term } = message;
      if (message.type === 'vote') {
        this.group.raft.step({ type: 'vote-response', from: 2, to: 1, term, pre: message.pre, granted: true });
      } else if (message.type === 'append') {
        const index = message.prevIndex + message.entries.length;
        const { round } = message;
        this.group.raft.step({
          type: 'append-response',
          from: 2,
          to: 1,
          term,
          reject: false,
          index,
          hintIndex: 0,
          hintTerm: 0,
          ...note,
          round,
        });
      }
    }
    this.work();
  }

  elect(): void {
    this.group.raft.campaign();
    this.work();
    for (let i = 0; i < 5; i++) this.answerFrom2();
    assert(this.group.leads);
  }
}
