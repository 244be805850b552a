/**
 * Why the last export of a group ended early, for its client: an answer that is cut has no way to say so. One per group; the
 * next export of the group begins anew.
 */
import type { EndedExport, ExportEnd } from '../ports.ts';

const REASON_CHARS_MAX = 300;

export class EndedExports {
  readonly #ended = new Map<number, EndedExport>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get list(): readonly EndedExport[] {
    return [...this.#ended.values()].sort((a, b) => a.raft_group_id - b.raft_group_id);
  }

  begun(group: number): void {
    this.#ended.delete(group);
  }

  /** What stands behind the first line is for the log. */
  ended(group: number, { code, reason }: ExportEnd): void {
    const line = (reason.split('\n')[0] ?? '').slice(0, REASON_CHARS_MAX);
    this.#ended.set(group, { raft_group_id: group, code, reason: line, ended_unix_ms: this.#nowMs() });
  }
}
