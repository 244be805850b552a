/** Routes below /__svc/, which both planes have in part. */
import { BODY_BYTES_MAX } from '../../../base/limits.ts';
import type { Backups } from '../../../backup/ports.ts';
import { BACKUP_PREFIX, handleBackup } from './backup.ts';
import type { Operation } from '../../contract.ts';
import { FLUSH_PREFIX, handleFlushCold } from './flush-cold.ts';
import { Gathering } from '../../gather.ts';
import { guardData, readData } from '../../guard.ts';
import { type MetricsSource, handleMetrics } from './metrics-route.ts';
import type { Plane, Router } from '../../plane.ts';
import { type Knows, ReadyProbe, answerHealth } from './probes.ts';
import { type PeerAddresses, RAFT_PREFIX, handleRaftAdmin } from './raft-admin.ts';
import type { DrainMark } from '../../../placement/ports.ts';
import { handleReadShed, handleSetShed } from './shed.ts';
import type { ServiceCall } from './service-call.ts';
import type { WebhookKeys } from '../../../subscriptions/ports.ts';
import { webhookKeyHandlers } from './webhook-keys.ts';
import type { ColdObjects } from './purge.ts';
import { handleTenant } from '../../tenant.ts';
import { handleUsage } from './usage.ts';

type Handler = (call: ServiceCall) => void;

/** Path -> method -> handler, as maps: both names come from outside. HEAD goes where GET does, without a body. */
export type ServiceTable = ReadonlyMap<string, ReadonlyMap<string, Handler>>;

/** The handlers of one path. */
function on(...methods: readonly (readonly ['get' | 'post' | 'delete', Handler])[]): ReadonlyMap<string, Handler> {
  return new Map(methods);
}

const OPERATION: Operation = 'other';

const metrics: Handler = ({ plane, source, res, responder, startedMs }) => {
  handleMetrics(plane, source, res, responder, startedMs);
};
const usage: Handler = ({ plane, res, responder, startedMs }) => handleUsage(plane, res, responder, startedMs);

const readShed =
  (drainMark: DrainMark): Handler =>
  ({ plane, res, responder, startedMs }) =>
    handleReadShed(plane, drainMark, res, responder, startedMs);

function readyWithDetail(knows: Knows): Handler {
  const probe = new ReadyProbe(knows);
  return (call) => probe.answer(call);
}

/** Routes of the client plane. A node without a cluster plane has that one's here too. */
export function clientService({ drainMark, hasClusterPlane }: Operations): ServiceTable {
  return new Map([
    ['/__svc/metrics', on(['get', metrics])],
    ['/__svc/usage', on(['get', usage])],
    ['/__svc/health', on(['get', answerHealth])],
    ['/__svc/ready', on(['get', readyWithDetail(() => false)])],
    ['/__svc/cluster-probe', on(['post', probe])],
    ...(hasClusterPlane ? [] : [['/__svc/leadership-shed', on(['get', readShed(drainMark)])] as const]),
  ]);
}

/** What operators' calls need beyond the shards. */
export interface Operations {
  readonly drainMark: DrainMark;
  /** Whether other nodes reach this one on a port of its own. */
  readonly hasClusterPlane: boolean;
  readonly peers: PeerAddresses;
  /** Undefined: this node has no cold store. */
  readonly coldObjects: ColdObjects | undefined;
  readonly backups: Backups;
  readonly webhookKeys?: WebhookKeys;
}

/** Router of the admin plane. */
export function adminRoutes(
  plane: Plane,
  source: MetricsSource,
  { drainMark, peers, coldObjects, backups, webhookKeys }: Operations,
  knows: Knows,
): Router {
  const setShed =
    (draining: boolean): Handler =>
    ({ res, responder, startedMs }) =>
      handleSetShed(plane, drainMark, draining, res, responder, startedMs);
  const table: ServiceTable = new Map([
    ['/__svc/metrics', on(['get', metrics])],
    ['/__svc/usage', on(['get', usage])],
    ['/__svc/health', on(['get', answerHealth])],
    ['/__svc/ready', on(['get', readyWithDetail(knows)])],
    ['/__svc/leadership-shed', on(['get', readShed(drainMark)])],
    ['/__svc/leadership-shed/maintenance', on(['post', setShed(true)], ['delete', setShed(false)])],
    ...(webhookKeys === undefined ? [] : [['/__svc/webhook-keys', webhookKeyHandlers(webhookKeys)] as const]),
  ]);
  return (res, req, method, responder, startedMs) => {
    const path = req.getUrl();
    if (path.startsWith(RAFT_PREFIX)) return handleRaftAdmin(plane, peers, res, req, method, responder, startedMs);
    if (path.startsWith(FLUSH_PREFIX)) return handleFlushCold(plane, res, req, method, responder, startedMs);
    const call: ServiceCall = { plane, source, res, req, responder, startedMs };
    if (path.startsWith(BACKUP_PREFIX)) return handleBackup(call, backups, path, method);
    if (!handleTenant(call, coldObjects, path, method)) handleService(table, path, method, call);
  };
}

/** Calls the handler, or answers 404 or 405. */
export function handleService(table: ServiceTable, path: string, method: string, call: ServiceCall): void {
  const { plane, res, responder, startedMs } = call;
  const methods = table.get(path);
  if (methods === undefined) return plane.refuse(res, responder, 'bucketed', OPERATION, startedMs, 'ROUTE_NOT_FOUND');
  const handler = methods.get(method === 'head' ? 'get' : method);
  if (handler !== undefined) return handler(call);
  return plane.count(OPERATION, responder.methodNotAllowed(res, allowOfService(table, path)), startedMs);
}

/** What `Allow` names for a path; '' when nothing is there. */
export function allowOfService(table: ServiceTable, path: string): string {
  const methods = table.get(path);
  if (methods === undefined) return '';
  const allowed = [...methods.keys()].map((name) => name.toUpperCase());
  if (methods.has('get')) allowed.push('HEAD');
  return [...allowed, 'OPTIONS'].join(', ');
}

/** Peers post large bodies here to see that they get through. A body is discarded as it comes, so no budget is needed. */
function probe({ plane, res, req, responder, startedMs }: ServiceCall): void {
  const tooLarge = (): void => plane.refuse(res, responder, 'bucketed', OPERATION, startedMs, 'BODY_TOO_LARGE');
  if (Number(req.getHeader('content-length')) > BODY_BYTES_MAX) return tooLarge();
  const gathering = new Gathering(plane, res, responder, OPERATION, startedMs);
  let bytes = 0;
  const take = guardData(plane.logError, gathering, (chunk, last) => {
    bytes += chunk.byteLength;
    if (bytes > BODY_BYTES_MAX) gathering.refuse('BODY_TOO_LARGE');
    else if (last) gathering.empty(200);
  });
  readData(res, take);
}
