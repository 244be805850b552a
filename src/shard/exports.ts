/**
 * Exports of groups for a backup: a checkpoint, then the rows as one LMDB read transaction shows them, so appends go on
 * meanwhile. Whoever takes them asks for a piece when it is ready for one, which is all the flow control there is.
 *
 * While one runs, pages that commits replace are not used again, so the file grows by about what is written; it does not shrink,
 * but later commits use the pages. The log is not held back.
 */
import { type ErrorCode, errorNumber } from '../base/errors.ts';
import { EXPORTS_MAX } from '../base/limits.ts';
import type { Group } from '../group/group.ts';
import { BACKUP_TAGS } from '../stream/backup/order.ts';
import { isImporting } from '../stream/import.ts';
import { Reply } from '../wire/reply.ts';
import { EXPORT_CLOSE, EXPORT_NEXT, EXPORT_OPEN, type Query } from '../wire/request.ts';
import type { ShardStorage, SnapshotReader } from './ports.ts';

/** Nobody asked for a piece for so long: whoever began it is gone. Above what a store may take for a part of a backup. */
const IDLE_MS = 5 * 60_000;

export interface ExportsHost {
  /** Checkpoints the group now; false when the disk is full. */
  checkpoint(group: Group): boolean;
  deliver(reply: Reply): void;
}

interface Export {
  readonly group: Group;
  readonly reader: SnapshotReader;
  usedAtMs: number;
}

export class Exports {
  readonly #storage: ShardStorage;
  readonly #host: ExportsHost;
  readonly #running = new Map<number, Export>();
  readonly #reply = new Reply();
  #last = 0;

  constructor(storage: ShardStorage, host: ExportsHost) {
    this.#storage = storage;
    this.#host = host;
  }

  handle(slot: number, group: Group, query: Query, clockMs: number): void {
    const reply = this.#reply;
    reply.reset(slot);
    const code = this.#answer(group, query, clockMs, reply);
    reply.code = errorNumber(code);
    this.#host.deliver(reply);
  }

  /** Once a turn. */
  turn(clockMs: number): void {
    for (const [id, { usedAtMs }] of this.#running) if (clockMs - usedAtMs > IDLE_MS) this.#close(id);
  }

  stop(): void {
    for (const id of this.#running.keys()) this.#close(id);
  }

  #answer(group: Group, query: Query, clockMs: number, reply: Reply): ErrorCode {
    switch (query.mode) {
      case EXPORT_OPEN:
        return this.#open(group, clockMs, reply);
      case EXPORT_NEXT:
        return this.#next(query, clockMs, reply);
      case EXPORT_CLOSE:
        this.#close(query.value);
        return 'OK';
      default:
        return 'INTERNAL';
    }
  }

  #open(group: Group, clockMs: number, reply: Reply): ErrorCode {
    if (isImporting(group.state)) return 'GROUP_IMPORTING';
    if (this.#running.size >= EXPORTS_MAX) return 'EXPORTS_FULL';
    if (!this.#host.checkpoint(group)) return 'DISK_FULL';
    const reader = this.#storage.openSnapshot(group.id, BACKUP_TAGS);
    const id = ++this.#last;
    this.#running.set(id, { group, reader, usedAtMs: clockMs });
    group.exports++;
    reply.a = id;
    reply.b = group.state.mutations;
    reply.text = group.state.cold.origin;
    return 'OK';
  }

  #next(query: Query, clockMs: number, reply: Reply): ErrorCode {
    const one = this.#running.get(query.value);
    if (one === undefined) return 'INTERNAL';
    one.usedAtMs = clockMs;
    reply.body = one.reader.next(query.maxBytes);
    if (reply.body === undefined) this.#close(query.value);
    return 'OK';
  }

  #close(id: number): void {
    const one = this.#running.get(id);
    if (one === undefined) return;
    this.#running.delete(id);
    one.group.exports--;
    one.reader.close();
  }
}
