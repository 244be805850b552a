/**
 * The shard's part in a group's export: a checkpoint, so that the group's state is in the store, and protection of the
 * group's objects from the collector while it runs. Another thread reads the rows (backup/export/exporting.ts) in one
 * LMDB read transaction; appends continue and wait for nothing.
 *
 * While that transaction is open, pages that commits replace are not reused, so the file grows by about what is
 * written. It does not shrink, but later commits use the pages. The log is not held back. When the volume runs short,
 * the export ends rather than the writes.
 */
import { type ErrorCode, errorNumber } from '../../base/errors.ts';
import { EXPORTS_MAX } from '../../base/limits.ts';
import { planted } from '../../base/planted.ts';
import type { Group } from '../../group/group.ts';
import { isImporting } from '../../stream/backup/apply-import.ts';
import { Reply } from '../../protocol/reply.ts';
import type { Query } from '../../protocol/request.ts';
import type { ShardStorage } from '../../shard/ports.ts';
import { QUERIES } from '../../protocol/operations.ts';

/** An export without keep-alive for this long lost its client. Many times the interval of keep-alives (export.ts). */
const IDLE_MS = 60_000;

export interface ExportsHost {
  /** Checkpoints the group now, unless the disk is full, or an earlier checkpoint hangs on it. */
  checkpoint(group: Group): 'OK' | 'DISK_FULL' | 'SHARD_BUSY';
  deliver(reply: Reply): void;
}

interface Export {
  readonly group: Group;
  /** The volume had space when it began. Without space nothing is written that could make the file grow. */
  readonly hadRoom: boolean;
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
    const asked = QUERIES.exportGroup.request.read(query);
    switch (asked.step) {
      case 'open':
        return this.#open(group, clockMs, reply);
      case 'hold':
        return this.#hold(asked.id, clockMs);
      case 'close':
        this.#close(asked.id);
        return 'OK';
    }
  }

  #open(group: Group, clockMs: number, reply: Reply): ErrorCode {
    if (isImporting(group.state) && !planted('export-of-an-import')) return 'GROUP_IMPORTING';
    if (this.#running.size >= EXPORTS_MAX) return 'EXPORTS_FULL';
    const code = planted('export-without-checkpoint') ? 'OK' : this.#host.checkpoint(group);
    if (code !== 'OK') return code;
    const id = ++this.#last;
    this.#running.set(id, { group, hadRoom: this.#storage.roomToGrow, usedAtMs: clockMs });
    group.exports++;
    const { appliedCommands, cold } = group.state;
    QUERIES.exportGroup.result.write(reply, { id, appliedCommands, origin: cold.origin });
    return 'OK';
  }

  #hold(id: number, clockMs: number): ErrorCode {
    const one = this.#running.get(id);
    if (one === undefined) return 'INTERNAL';
    one.usedAtMs = clockMs;
    if (!one.hadRoom || this.#storage.roomToGrow) return 'OK';
    this.#close(id);
    return 'DISK_FULL';
  }

  #close(id: number): void {
    const one = this.#running.get(id);
    if (one === undefined) return;
    this.#running.delete(id);
    one.group.exports--;
  }
}
