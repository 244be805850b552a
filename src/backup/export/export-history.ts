/** Remembers the exports through a node, also over its restarts: for their clients, and for the console. */
import type { Runtime } from '../../base/runtime.ts';
import type { EndedExport, ExportEnd, FinishedExport, RunningExport, ToldExports } from '../ports.ts';

const REASON_CHARS_MAX = 300;

/** Keeps what is told for the next start. */
export interface ExportMemory {
  read(): Required<ToldExports>;
  write(told: ToldExports): void;
}

/** One entry for each group: its last export. A whole one and one that ended early are kept until the next such. */
export class ExportHistory {
  readonly #running = new Map<number, { readonly sinceMs: number; count: number }>();
  readonly #finished = new Map<number, FinishedExport>();
  readonly #ended = new Map<number, EndedExport>();
  readonly #runtime: Pick<Runtime, 'nowMs'>;
  readonly #memory: ExportMemory;
  #isStopping = false;

  constructor(runtime: Pick<Runtime, 'nowMs'>, memory: ExportMemory) {
    this.#runtime = runtime;
    this.#memory = memory;
    const { exports_running: cut, exports_finished: finished, exports_ended_early: ended } = memory.read();
    for (const one of finished) this.#finished.set(one.raft_group_id, one);
    for (const one of ended) this.#ended.set(one.raft_group_id, one);
    for (const { raft_group_id: group, since_unix_ms: sinceMs } of cut) {
      const when = new Date(sinceMs).toISOString();
      const reason = `the node was restarted while it sent the group, from ${when} on`;
      if (!this.#ended.has(group)) this.endedEarly(group, { code: 'node-restarted', reason });
    }
  }

  /** The exports by group. Empty lists are left out. */
  get told(): ToldExports {
    const running = [...this.#running].map(([group, { sinceMs }]): RunningExport => ({
      raft_group_id: group,
      since_unix_ms: sinceMs,
    }));
    return {
      ...(running.length === 0 ? {} : { exports_running: running.sort(byGroup) }),
      ...(this.#finished.size === 0 ? {} : { exports_finished: [...this.#finished.values()].sort(byGroup) }),
      ...(this.#ended.size === 0 ? {} : { exports_ended_early: [...this.#ended.values()].sort(byGroup) }),
    };
  }

  begun(group: number): void {
    this.#ended.delete(group);
    const running = this.#running.get(group);
    if (running === undefined) this.#running.set(group, { sinceMs: this.#runtime.nowMs(), count: 1 });
    else running.count++;
    this.#memory.write(this.told);
  }

  /** Exports that are cut from now on are cut by the end of the node. */
  stopping(): void {
    this.#isStopping = true;
  }

  /** Once for each that began, after endedEarly. `isWhole`: its last byte was handed over. */
  over(group: number, isWhole: boolean): void {
    if (this.#isStopping && !isWhole) return;
    const running = this.#running.get(group);
    if (running !== undefined && --running.count === 0) this.#running.delete(group);
    if (isWhole) this.#finished.set(group, { raft_group_id: group, finished_unix_ms: this.#runtime.nowMs() });
    this.#memory.write(this.told);
  }

  /** A cut response cannot say why. Lines after the first are for the log. */
  endedEarly(group: number, { code, reason }: ExportEnd): void {
    // The next start says it.
    if (this.#isStopping) return;
    const line = (reason.split('\n')[0] ?? '').slice(0, REASON_CHARS_MAX);
    this.#ended.set(group, { raft_group_id: group, code, reason: line, ended_unix_ms: this.#runtime.nowMs() });
    this.#memory.write(this.told);
  }
}

function byGroup(a: { readonly raft_group_id: number }, b: { readonly raft_group_id: number }): number {
  return a.raft_group_id - b.raft_group_id;
}
