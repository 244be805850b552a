/**
 * /__svc/webhook-keys on the admin plane: GET shows the keys that webhooks are signed with, POST adds one that signs once receivers
 * know it, DELETE replaces all of them at once, because one is in wrong hands.
 */
import { MillraceError } from '../../../base/errors.ts';
import type { WebhookKeys } from '../../../subscriptions/ports.ts';
import { Gathering } from '../../gather.ts';
import type { ServiceCall } from './service-call.ts';

type Handler = (call: ServiceCall) => void;

export function webhookKeyHandlers(keys: WebhookKeys): ReadonlyMap<string, Handler> {
  return new Map<string, Handler>([
    ['get', (call) => answer(call, () => keys.show())],
    ['post', (call) => answer(call, () => keys.rotate(false))],
    ['delete', (call) => answer(call, () => keys.rotate(true))],
  ]);
}

function answer({ plane, res, responder, startedMs }: ServiceCall, act: () => Promise<unknown>): void {
  const gathering = new Gathering(plane, res, responder, 'other', startedMs);
  act().then(
    (result) => (typeof result === 'string' ? gathering.text(409, result) : gathering.json(200, result)),
    (error: unknown) => {
      if (!(error instanceof MillraceError)) plane.logError(error, 'webhook-keys');
      gathering.refuse(error instanceof MillraceError ? error.code : 'INTERNAL');
    },
  );
}
