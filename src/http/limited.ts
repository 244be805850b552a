/** Refusals by limits are told late, or a client that repeats at once keeps the main thread as busy as without one. */
import type { LimitRefusal } from '../access/meter.ts';
import type { RequestContext } from './request.ts';

/** A thousand connections, which bound what waits, cost a few percent of a core then. */
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
