/** The table of the admin plane, and the service routes that the client plane has too. */
import type { Backups } from '../../../backup/ports.ts';
import type { DrainMark } from '../../../placement/ports.ts';
import type { WebhookKeys } from '../../../subscriptions/ports.ts';
import type { ColdObjects } from '../../../tenants/purge-objects.ts';
import type { Handler, Method, Route } from '../../router.ts';
import { handleBackupInfo, handleExport, handleImport, withGroup } from './backup.ts';
import {
  type Knows,
  type MetricsSource,
  ReadyProbe,
  answerHealth,
  handleClusterProbe,
  handleMetrics,
  handleReadShed,
  handleRotateKeys,
  handleSetShed,
  handleShowKeys,
} from './node.ts';
import { type PeerAddresses, handleFlushCold, raftHandler } from './raft.ts';
import { handleGetQuota, handlePurge, handlePutQuota, handleUsage } from './tenants.ts';

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

export interface OperatorServices extends Operations {
  readonly metrics: MetricsSource;
}

const READ: readonly Method[] = ['GET', 'HEAD'];

function service(methods: readonly Method[], pattern: string, handler: Handler): Route {
  return { methods, pattern, operation: 'other', handler };
}

/** Calls whose Allow names no OPTIONS. */
function operator(methods: readonly Method[], pattern: string, handler: Handler): Route {
  return { methods, pattern, operation: 'other', handler, omitsOptions: true };
}

/** What both planes have. `knows`: who is told why a node is not ready. */
function commonRoutes({ metrics }: OperatorServices, knows: Knows): readonly Route[] {
  const ready = new ReadyProbe(knows);
  return [
    service(READ, '/__svc/metrics', (call) => handleMetrics(call, metrics)),
    service(READ, '/__svc/usage', handleUsage),
    service(READ, '/__svc/health', answerHealth),
    service(READ, '/__svc/ready', (call) => ready.answer(call)),
  ];
}

function shedRoute({ drainMark }: Operations): Route {
  return service(READ, '/__svc/leadership-shed', (call) => handleReadShed(call, drainMark));
}

/** Service routes of the client plane. A node without a cluster plane has that one's here too. */
export function clientServiceRoutes(operations: OperatorServices): readonly Route[] {
  return [
    ...commonRoutes(operations, () => false),
    service(['POST'], '/__svc/cluster-probe', handleClusterProbe),
    ...(operations.hasClusterPlane ? [] : [shedRoute(operations)]),
  ];
}

export function adminRoutes(operations: OperatorServices, knows: Knows): readonly Route[] {
  return [
    ...commonRoutes(operations, knows),
    shedRoute(operations),
    ...maintenanceRoutes(operations),
    ...raftRoutes(operations),
    ...backupRoutes(operations),
    ...tenantRoutes(operations),
  ];
}

function maintenanceRoutes({ drainMark, webhookKeys: keys }: Operations): readonly Route[] {
  const maintenance = '/__svc/leadership-shed/maintenance';
  const rows = [
    service(['POST'], maintenance, (call) => handleSetShed(call, drainMark, 'draining')),
    service(['DELETE'], maintenance, (call) => handleSetShed(call, drainMark, 'serving')),
  ];
  if (keys === undefined) return rows;
  const path = '/__svc/webhook-keys';
  return [
    ...rows,
    service(['GET'], path, (call) => handleShowKeys(call, keys)),
    service(['POST'], path, (call) => handleRotateKeys(call, keys, 'add')),
    service(['DELETE'], path, (call) => handleRotateKeys(call, keys, 'replace-all')),
    service(['HEAD'], path, (call) => handleShowKeys(call, keys)),
  ];
}

function raftRoutes({ peers }: Operations): readonly Route[] {
  const group = '/__svc/raft/{group}';
  return [
    operator(['POST'], `${group}/snapshot`, raftHandler('snapshot', peers)),
    operator(['POST'], `${group}/purge`, raftHandler('purge', peers)),
    operator(['POST'], `${group}/membership`, raftHandler('membership', peers)),
    operator(['POST'], `${group}/learners/{node}`, raftHandler('learner', peers)),
    operator(['DELETE'], `${group}/learners/{node}`, raftHandler('forget-learner', peers)),
    operator(['POST'], `${group}/leader/transfer/{node}`, raftHandler('transfer', peers)),
    operator(['POST'], `${group}/nodes/{node}/allow-next-revert`, raftHandler('allow-revert', peers)),
    operator(['POST'], '/__svc/flush-cold/{bucket}/{stream}', handleFlushCold),
  ];
}

function backupRoutes({ backups }: Operations): readonly Route[] {
  const group = '/__svc/backup/group/{group}';
  return [
    operator(['GET'], '/__svc/backup/info', (call) => handleBackupInfo(call, backups)),
    operator(
      ['GET'],
      group,
      withGroup((call, id) => handleExport(call, backups, id)),
    ),
    operator(
      ['POST'],
      `${group}/import`,
      withGroup((call, id) => handleImport(call, backups, id)),
    ),
  ];
}

function tenantRoutes({ coldObjects }: Operations): readonly Route[] {
  const quota = '/__svc/quota/{bucket}';
  const rows = [
    operator(['DELETE'], '/__svc/purge/{bucket}', (call) => handlePurge(call, coldObjects)),
    operator(['GET', 'HEAD'], quota, handleGetQuota),
    operator(['PUT'], quota, handlePutQuota),
  ];
  return rows.map((row) => ({ ...row, operation: 'bucket' }));
}
