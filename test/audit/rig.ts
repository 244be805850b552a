// An audit log for tests of the planes: its lines are kept, and its clock is moved by hand.
import { Senders } from '../../src/access/senders.ts';
import type { AuditEntry } from '../../src/audit/entry.ts';
import { AuditTrail } from '../../src/audit/trail.ts';

export class AuditRig {
  readonly lines: AuditEntry[] = [];
  readonly senders: Senders;
  readonly audit: AuditTrail;

  constructor(proxies: readonly string[] = []) {
    this.senders = new Senders(proxies);
    const runtime = { setTimer: () => () => undefined };
    this.audit = new AuditTrail({ runtime, write: (entry) => this.lines.push(entry) });
  }

  /** The lines since the last call; `tell`: with those that were counted. */
  take(): AuditEntry[] {
    return this.lines.splice(0);
  }
}
