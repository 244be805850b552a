/** Admin routes about one bucket: /__svc/purge/{bucket} and /__svc/quota/{bucket}. */
import type { ServiceCall } from './routes/admin/service-call.ts';
import { type ColdObjects, handlePurge } from './routes/admin/purge.ts';
import { handleGetQuota, handlePutQuota } from './routes/admin/quota.ts';
import { newRoute, parseRoute } from './routes.ts';

export const PURGE_PREFIX = '/__svc/purge/';
export const QUOTA_PREFIX = '/__svc/quota/';

type TenantHandler = (call: ServiceCall, bucket: string, coldObjects: ColdObjects | undefined) => void;

const PURGE_HANDLERS: ReadonlyMap<string, TenantHandler> = new Map([['delete', handlePurge]]);
const QUOTA_HANDLERS: ReadonlyMap<string, TenantHandler> = new Map<string, TenantHandler>([
  ['get', handleGetQuota],
  ['head', handleGetQuota],
  ['put', handlePutQuota],
]);

const route = newRoute();

/** False: the path is none of these. */
export function handleTenant(
  call: ServiceCall,
  coldObjects: ColdObjects | undefined,
  path: string,
  method: string,
): boolean {
  const prefix = path.startsWith(PURGE_PREFIX) ? PURGE_PREFIX : path.startsWith(QUOTA_PREFIX) ? QUOTA_PREFIX : '';
  if (prefix === '') return false;
  const { plane, res, responder, startedMs } = call;
  // The rules for names are those of the client plane: what cannot be created needs no purge.
  parseRoute(`/${path.slice(prefix.length)}`, route);
  const handlers = prefix === PURGE_PREFIX ? PURGE_HANDLERS : QUOTA_HANDLERS;
  const handler = handlers.get(method);
  if (route.kind === 'invalid') {
    plane.refuse(res, responder, 'bucketed', 'bucket', startedMs, 'INVALID_NAME', route.detail);
  } else if (route.kind !== 'bucket') {
    plane.refuse(res, responder, 'bucketed', 'bucket', startedMs, 'ROUTE_NOT_FOUND');
  } else if (handler === undefined) {
    const allow = [...handlers.keys()].map((name) => name.toUpperCase());
    plane.count('bucket', responder.methodNotAllowed(res, allow.join(', ')), startedMs);
  } else {
    handler(call, route.bucket, coldObjects);
  }
  return true;
}
