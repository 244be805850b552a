/** Commands about the wake of one subscription: issued, delivered, claimed, acknowledged, released, expired. */
import type { LogRecord, Outcome } from './record.ts';
import type { LinkPosition, Subscription } from './subscription.ts';

const OK: Outcome = { code: 'OK' };
const IGNORED: Outcome = { code: 'IGNORED' };
const FENCED: Outcome = { code: 'FENCED', message: 'the wake is over; another one may be under way' };

/** Undefined: no such command. */
export function wakeCommand(sub: Subscription, record: LogRecord): Outcome | undefined {
  switch (record.op) {
    case 'wake':
      if (sub.wake !== undefined || record.generation !== sub.generation + 1) return IGNORED;
      issue(sub, record.wake, record.tails);
      if (sub.isWebhook) sub.leaseUntilMs = record.at + sub.config.lease_ttl_ms;
      return OK;
    case 'claim':
      return claim(sub, record);
    case 'ack':
      return ack(sub, record);
    case 'release':
      if (!isCurrent(sub, record)) return FENCED;
      end(sub);
      return OK;
    default:
      return driverCommand(sub, record);
  }
}

/** From the node that drives the wake: about this wake, or about none. */
function driverCommand(sub: Subscription, record: LogRecord): Outcome | undefined {
  if (!('wake' in record)) return undefined;
  if (sub.wake === undefined || sub.wake.id !== record.wake) return IGNORED;
  switch (record.op) {
    case 'delivered':
      delivered(sub);
      return OK;
    case 'failed':
      // A callback of the receiver came first, so it got the wake.
      if (sub.wake.delivered) return IGNORED;
      failed(sub, record.next);
      return OK;
    case 'done':
      delivered(sub);
      for (const [path, incarnation, offset] of sub.wake.tails) {
        const link = sub.links.get(path);
        // A recreated stream has nothing processed.
        if (link?.incarnation === incarnation) link.acked = Math.max(link.acked, offset);
      }
      end(sub);
      return OK;
    case 'expire':
      // A heartbeat came first.
      if (record.until !== sub.leaseUntilMs) return IGNORED;
      if (record.next >= 0) failed(sub, record.next);
      end(sub);
      return OK;
    default:
      return undefined;
  }
}

function issue(sub: Subscription, id: string, tails: readonly LinkPosition[]): void {
  // A stream that was linked before it existed: from now on the cursor is about this one.
  for (const [path, incarnation] of tails) {
    const link = sub.links.get(path);
    if (link?.incarnation === 0) link.incarnation = incarnation;
  }
  sub.generation++;
  sub.wake = { id, tails, delivered: false };
}

function end(sub: Subscription): void {
  sub.wake = undefined;
  sub.holder = undefined;
  sub.leaseUntilMs = -1;
}

function delivered(sub: Subscription): void {
  if (sub.wake !== undefined) sub.wake.delivered = true;
  sub.failures = 0;
  sub.nextAttemptAtMs = -1;
}

function failed(sub: Subscription, nextMs: number): void {
  sub.failures++;
  sub.nextAttemptAtMs = nextMs;
}

function claim(sub: Subscription, record: LogRecord & { readonly op: 'claim' }): Outcome {
  // The wake was one for workers when the claim was made.
  if (sub.isWebhook) return { code: 'IGNORED', message: 'the subscription was recreated as a webhook' };
  if (sub.holder !== undefined) return { code: 'ALREADY_CLAIMED', message: 'another worker holds the lease' };
  if (sub.wake === undefined) {
    const tails = record.tails.filter((tail) => isPending(sub, tail));
    if (tails.length === 0) return { code: 'NO_PENDING_WORK', message: 'the subscription has no pending events' };
    issue(sub, record.wake, tails);
  }
  // A claiming worker needs no event any more.
  delivered(sub);
  sub.holder = record.worker;
  sub.leaseUntilMs = record.at + sub.config.lease_ttl_ms;
  return OK;
}

function isPending(sub: Subscription, [path, incarnation, offset]: LinkPosition): boolean {
  const link = sub.links.get(path);
  if (link === undefined || (link.incarnation !== 0 && link.incarnation !== incarnation)) return false;
  return offset > link.acked;
}

function isCurrent(sub: Subscription, { wake, generation }: { wake: string; generation: number }): boolean {
  return sub.wake?.id === wake && sub.generation === generation;
}

/** All of it or nothing. */
function ack(sub: Subscription, record: LogRecord & { readonly op: 'ack' }): Outcome {
  if (!isCurrent(sub, record)) return FENCED;
  for (const [path, incarnation, offset] of record.acks) {
    const link = sub.links.get(path);
    if (link === undefined) return { code: 'INVALID_OFFSET', message: `${path} is no stream of the subscription` };
    if (link.incarnation !== 0 && link.incarnation !== incarnation) {
      return { code: 'INVALID_OFFSET', message: `${path} was deleted and recreated` };
    }
    if (offset < link.acked) return { code: 'INVALID_OFFSET', message: `${path} is acknowledged further already` };
  }
  for (const [path, incarnation, offset] of record.acks) {
    const link = sub.links.get(path);
    if (link === undefined) continue;
    link.incarnation = incarnation;
    // A path may be named twice.
    link.acked = Math.max(link.acked, offset);
  }
  // A worker that acknowledges got the wake, even when the answer to the delivery was lost.
  delivered(sub);
  if (record.done) end(sub);
  else sub.leaseUntilMs = record.at + sub.config.lease_ttl_ms;
  return OK;
}
