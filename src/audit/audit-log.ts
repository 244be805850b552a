/** The audit log of a node: in a file of its own, or among the lines of the process log. */
import process from 'node:process';
import type { Runtime } from '../base/runtime.ts';
import { AuditFile } from './audit-file.ts';
import { AUDIT_COMPONENT, type AuditEntry } from './entry.ts';
import { AuditTrail } from './trail.ts';

export interface AuditLogOptions {
  readonly node: number;
  readonly runtime: Runtime;
  /** Undefined: the process log. */
  readonly file: string | undefined;
  /** Writes a whole line to the process log. */
  readonly toLog: (line: string) => void;
  readonly troubled: (error: unknown) => void;
}

export class AuditLog {
  readonly trail: AuditTrail;
  readonly #file: AuditFile | undefined;
  readonly #flush = (): void => this.#file?.flush();

  /** Throws when the file cannot be opened. */
  constructor({ node, runtime, file: path, toLog, troubled }: AuditLogOptions) {
    const lineOf = (entry: AuditEntry): string => {
      const time = new Date(runtime.nowMs()).toISOString();
      return `${JSON.stringify({ level: 'info', time, component: AUDIT_COMPONENT, node, ...entry })}\n`;
    };
    if (path !== undefined) {
      const lostLine = (lines: number): string =>
        lineOf({ event: 'lost', who: 'node', what: 'lines that the file did not take in time', repeated: lines });
      this.#file = new AuditFile({ path, runtime, troubled, lostLine });
      process.on('exit', this.#flush);
    }
    const file = this.#file;
    const add = file === undefined ? toLog : (line: string) => file.add(line);
    this.trail = new AuditTrail({ runtime, write: (entry) => add(lineOf(entry)) });
  }

  /** After a rotation. */
  reopen(): void {
    this.#file?.reopen();
  }

  metrics(): Readonly<Record<string, number>> {
    const { lost = 0, errors = 0 } = this.#file?.counters ?? {};
    return { audit_lines: this.trail.lines, audit_lines_lost: lost, audit_write_errors: errors };
  }

  async close(): Promise<void> {
    this.trail.tell();
    process.off('exit', this.#flush);
    await this.#file?.close();
  }
}
