/**
 * Why the last export of a group ended early, for its client, because a cut response cannot say so. One per group; the
 * group's next export clears it.
 */
import type { Runtime } from '../../base/runtime.ts';
import type { EndedExport, ExportEnd } from '../ports.ts';

const REASON_CHARS_MAX = 300;

export class EndedExports {
  readonly #ended = new Map<number, EndedExport>();
  readonly #runtime: Pick<Runtime, 'nowMs'>;

  constructor(runtime: Pick<Runtime, 'nowMs'>) {
    this.#runtime = runtime;
  }

  get list(): readonly EndedExport[] {
    return [...this.#ended.values()].sort((a, b) => a.raft_group_id - b.raft_group_id);
  }

  begun(group: number): void {
    this.#ended.delete(group);
  }

  /** Lines after the first are for the log. */
  ended(group: number, { code, reason }: ExportEnd): void {
    const line = (reason.split('\n')[0] ?? '').slice(0, REASON_CHARS_MAX);
    this.#ended.set(group, { raft_group_id: group, code, reason: line, ended_unix_ms: this.#runtime.nowMs() });
  }
}
