/**
 * The answer to a request that is beyond a limit. It comes late: a client that repeats at once in place of waiting would
 * keep the main thread as busy as one without a limit. What waits is bounded by the connections.
 */
import type { LimitRefusal } from '../access/meter.ts';
import type { RequestContext } from './request.ts';

/** A connection gets so few refusals a second that a thousand of them cost a few percent of a core. */
const DELAY_MS = 250;

/** Only inside the route handler. */
export function refuseLimited(call: RequestContext, { code, detail, retrySeconds }: LimitRefusal): void {
  call.keep();
  const tell = (): void => {
    // The wait says nothing about how fast the node is.
    call.startedMs += DELAY_MS;
    call.refuse(code, detail, retrySeconds);
  };
  setTimeout(() => call.guard(tell), DELAY_MS);
}
