// The part of a context that the audit log needs, for tests that are not about it.
import { Senders } from '../../src/access/senders.ts';
import { AuditTrail } from '../../src/audit/trail.ts';
import type { HttpContext } from '../../src/http/context.ts';

export function unaudited(): Pick<HttpContext, 'senders' | 'audit'> {
  const runtime = { setTimer: () => () => undefined };
  return { senders: new Senders([]), audit: new AuditTrail({ runtime, write: () => undefined }) };
}
