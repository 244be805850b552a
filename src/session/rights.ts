/** A token with scopes opens a session, and each of its frames is held against them, as HTTP's requests are. */
import type { Grant } from '../access/scopes.ts';
import { type ScopeRefusal, countRefusal, streamRefusal } from '../http/scope-gate.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import type { Frame } from './frame.ts';
import { rightOf } from './operations.ts';

/** The refusal of what the token does not allow; undefined: it allows it. */
export function forbids(grant: Grant, frame: Frame, { ctx, holders }: HttpServerContext): ScopeRefusal | undefined {
  const { access } = ctx.metrics;
  // The session is about to end, but the timer that ends it may be late.
  if (holders.isOver(grant)) {
    access.expired++;
    return { code: 'UNAUTHORIZED', detail: 'the token has expired' };
  }
  const refusal = streamRefusal(grant, rightOf(frame), frame.bucket, frame.stream);
  if (refusal !== undefined) countRefusal(access, refusal.code);
  return refusal;
}
