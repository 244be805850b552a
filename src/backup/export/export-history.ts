/** Remembers the exports through a node since it started: for their clients, and for the console. */
import type { Runtime } from '../../base/runtime.ts';
import type { EndedExport, ExportEnd, FinishedExport, RunningExport, ToldExports } from '../ports.ts';

const REASON_CHARS_MAX = 300;

/** One entry for each group: its last export. A whole one and one that ended early are kept until the next such. */
export class ExportHistory {
  readonly #running = new Map<number, { readonly sinceMs: number; count: number }>();
  readonly #finished = new Map<number, FinishedExport>();
  readonly #ended = new Map<number, EndedExport>();
  readonly #runtime: Pick<Runtime, 'nowMs'>;

  constructor(runtime: Pick<Runtime, 'nowMs'>) {
    this.#runtime = runtime;
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
  }

  /** Once for each that began, after endedEarly. `isWhole`: its last byte was handed over. */
  over(group: number, isWhole: boolean): void {
    const running = this.#running.get(group);
    if (running !== undefined && --running.count === 0) this.#running.delete(group);
    if (isWhole) this.#finished.set(group, { raft_group_id: group, finished_unix_ms: this.#runtime.nowMs() });
  }

  /** A cut response cannot say why. Lines after the first are for the log. */
  endedEarly(group: number, { code, reason }: ExportEnd): void {
    const line = (reason.split('\n')[0] ?? '').slice(0, REASON_CHARS_MAX);
    this.#ended.set(group, { raft_group_id: group, code, reason: line, ended_unix_ms: this.#runtime.nowMs() });
  }
}

function byGroup(a: { readonly raft_group_id: number }, b: { readonly raft_group_id: number }): number {
  return a.raft_group_id - b.raft_group_id;
}
