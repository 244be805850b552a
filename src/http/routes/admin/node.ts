/**
 * Calls about this node as a whole: whether it leads groups (read it, mark the node draining, lift the mark; both changes are
 * idempotent, so a call that failed half way is mended by a repeat), the keys that webhooks are signed with, and the probe of peers.
 */
import { MillraceError } from '../../../base/errors.ts';
import { BODY_BYTES_MAX } from '../../../base/limits.ts';
import type { DrainMark } from '../../../placement/ports.ts';
import { SHED_DRAIN, describeShed } from '../../../placement/state/shed.ts';
import type { WebhookKeys } from '../../../subscriptions/ports.ts';
import { guardData, readData } from '../../guard.ts';
import type { RequestContext } from '../../request.ts';

/** GET /__svc/leadership-shed */
export function handleReadShed(call: RequestContext, mark: DrainMark): void {
  call.json(200, describeShed(mark.bits));
}

/** POST (draining) and DELETE (not) /__svc/leadership-shed/maintenance */
export function handleSetShed(call: RequestContext, mark: DrainMark, wanted: 'draining' | 'serving'): void {
  const draining = wanted === 'draining';
  const act = async (): Promise<unknown> => {
    await mark.set(draining);
    // What this call brought about, also when another call changes it in the same moment.
    return describeShed(draining ? mark.bits | SHED_DRAIN : mark.bits & ~SHED_DRAIN);
  };
  answerLater(call, act, 'leadership-shed');
}

/** GET /__svc/webhook-keys: the keys that webhooks are signed with. */
export function handleShowKeys(call: RequestContext, keys: WebhookKeys): void {
  answerLater(call, () => keys.show(), 'webhook-keys');
}

/**
 * POST adds a key that signs once receivers know it; DELETE replaces all of them at once, because one is in wrong hands.
 */
export function handleRotateKeys(call: RequestContext, keys: WebhookKeys, which: 'add' | 'replace-all'): void {
  answerLater(call, () => keys.rotate(which === 'replace-all'), 'webhook-keys');
}

/** JSON of what comes; a string says why not. */
function answerLater(call: RequestContext, act: () => Promise<unknown>, what: string): void {
  const aggregate = call.aggregate();
  act().then(
    (result) => (typeof result === 'string' ? aggregate.text(409, result) : aggregate.json(200, result)),
    (error: unknown) => {
      if (!(error instanceof MillraceError)) call.server.logError(error, what);
      aggregate.refuse(error instanceof MillraceError ? error.code : 'INTERNAL');
    },
  );
}

/**
 * POST /__svc/cluster-probe: peers post large bodies here to see that they get through. A body is discarded as it comes, so no
 * budget is needed.
 */
export function handleClusterProbe(call: RequestContext): void {
  const { req, res, server } = call;
  if (Number(req.getHeader('content-length')) > BODY_BYTES_MAX) return call.refuse('BODY_TOO_LARGE');
  const aggregate = call.aggregate();
  let bytes = 0;
  const take = guardData(server.logError, call, (chunk, last) => {
    bytes += chunk.byteLength;
    if (bytes > BODY_BYTES_MAX) aggregate.refuse('BODY_TOO_LARGE');
    else if (last) aggregate.empty(200);
  });
  return res === undefined ? undefined : readData(res, take);
}
