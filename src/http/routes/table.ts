/**
 * Every route of both planes, one row each: methods, pattern, handler and traits. Dispatch, Allow, OPTIONS, 405, the
 * exemption from the token and from the check of the host, the bound of the body, what a request is counted as, the
 * methods of CORS, and the table in the README derive from these rows.
 */
import type { Backups } from '../../backup/ports.ts';
import type { ConsolePage } from '../../console/built-page.ts';
import { BODY_BYTES_MAX, NARROWING_BODY_BYTES_MAX, SUBSCRIPTION_BODY_BYTES_MAX } from '../../base/limits.ts';
import type { OperatorRole, ScopedOperation } from '../../base/scopes.ts';
import type { DrainMark } from '../../placement/ports.ts';
import type { AdminCall } from '../../protocol/queries/administration.ts';
import type { ControlPort, Inspection, WebhookKeys } from '../../subscriptions/ports.ts';
import type { ColdObjects } from '../../tenants/bucket-purge.ts';
import { type DocumentedPlane, serveApiDocument } from '../api-document.ts';
import type { PlaneKind } from '../../audit/requests.ts';
import type { Right } from '../context.ts';
import type { WriteHeaders } from '../headers.ts';
import type { PathPattern } from '../paths.ts';
import type { RequestContext } from '../request.ts';
import type { Handler, Method, Route } from '../router.ts';
import { handleBackupInfo, handleExport, handleImport, withGroup } from './admin/backup.ts';
import { handleConsole } from './admin/console.ts';
import {
  type KeptMetrics,
  type MetricsSource,
  ReadyProbe,
  answerHealth,
  handleClusterProbe,
  handleHistory,
  handleWhoami,
  handleMetrics,
  handleReadShed,
  rotateKeys,
  setShed,
  handleShowKeys,
} from './admin/node.ts';
import { type PeerAddresses, handleFlushCold, raftHandler } from './admin/raft.ts';
import { handleDeliverAgain, handleListSubscriptions } from './admin/subscriptions.ts';
import { QUOTA_BODY_BYTES_MAX, handleGetQuota, handlePurge, handlePutQuota, handleUsage } from './admin/tenants.ts';
import { handleAppend, handleBatch } from './append.ts';
import {
  SENT_BYTES_MAX,
  handleCreate,
  handleDelete,
  handleGetAttributes,
  handleHead,
  handlePutAttributes,
} from './streams.ts';
import { handleBootstrap } from './bootstrap.ts';
import { handleCreateBucket, handleDeleteBucket, handleDescribeBucket, handleListStreams } from './bucket.ts';
import { handleRetention } from './position.ts';
import type { SessionPort } from '../sockets.ts';
import { handleRead } from './read.ts';
import { handleDeleteSnapshot, handleLatestSnapshot, handlePublish, handleReadSnapshot } from './snapshot.ts';
import { allowOfControl, handleControl } from './subscriptions.ts';
import { type NarrowingPort, handleNarrow } from './tokens.ts';

/** The parts of the node that service routes need, beyond the shards. */
export interface Operations {
  readonly drainMark: DrainMark;
  /** Whether other nodes reach this one on a port of its own. */
  readonly hasClusterPlane: boolean;
  readonly peers: PeerAddresses;
  /** Undefined: this node has no cold store. */
  readonly coldObjects: ColdObjects | undefined;
  readonly backups: Backups;
  readonly metrics: MetricsSource;
  readonly history: KeptMetrics;
  /** Undefined: this installation has no page. */
  readonly console?: ConsolePage;
  readonly webhookKeys?: WebhookKeys;
  /** Undefined: the reserved routes are not served. */
  readonly control?: ControlPort;
  readonly inspection?: Inspection;
  readonly sessions?: SessionPort;
  /** Undefined: this node has no key to sign tokens with. */
  readonly narrowing?: NarrowingPort;
}

/** The parts of the node that the handlers of one plane need. */
export interface PlaneServices extends Operations {
  /** Does the sender have the plane's token, if it asks for one? Only then is it told why a node is not ready. */
  readonly knows: (headers: WriteHeaders) => boolean;
}

/** The handler on a node with these services; undefined: the node does not serve the route. */
type Bind = (services: PlaneServices) => Handler | undefined;

/** A route before it knows the services of its node. */
export type RouteRow = Omit<Route, 'handler' | 'allow' | 'pattern'> & {
  readonly pattern: PathPattern | '/' | `/__svc/${string}` | `/v1/stream/__ds/${string}`;
  readonly bind: Bind;
  /** The methods that Allow names, where the handler tells them apart. */
  readonly allow?: (services: PlaneServices, url: string) => string;
};

/** A row of the admin plane names the least role of its users, and whether it is audited, unless all may use it. */
export type AdminRow = RouteRow &
  ({ readonly role: OperatorRole; readonly isAudited: boolean } | { readonly access: 'open' | 'probe' });

const always =
  (handler: Handler): Bind =>
  () =>
    handler;
/** The handler of a part of the node; a node without that part does not serve the route. */
function using<Name extends keyof PlaneServices>(
  name: Name,
  handle: (call: RequestContext, part: NonNullable<PlaneServices[Name]>) => void,
): Bind {
  return ({ [name]: part }) => (part === undefined || part === null ? undefined : (call) => handle(call, part));
}

const READ: readonly Method[] = ['GET', 'HEAD'];
const STREAM = '/{bucket}/{stream}';
const ATTRIBUTES = `${STREAM}/attrs` as const;
const SNAPSHOT = `${STREAM}/snapshot` as const;
const SNAPSHOT_AT = `${SNAPSHOT}/{offset}` as const;
const RETENTION = `${STREAM}/retention` as const;

/** Traits of a route that takes as many bytes as the server does. */
const WHOLE = { bodyBytesMax: BODY_BYTES_MAX } as const;
const APPEND = { ...WHOLE, takesExpectedOffset: true } as const;

function row(
  methods: readonly Method[],
  pattern: RouteRow['pattern'],
  operation: Route['operation'],
  bind: Bind,
): RouteRow {
  return { methods, pattern, operation, bind };
}

const stream = (operation: ScopedOperation): { readonly right: Right } => ({ right: { on: 'stream', operation } });
const bucket = (operation: ScopedOperation): { readonly right: Right } => ({ right: { on: 'bucket', operation } });
const READS = stream('read');
const LINKED = { ...READS, takesUrlToken: true } as const;
const SNAPSHOTS = stream('snapshot');
/** It deletes, gives tokens, or is an operator's call. */
const AUDITED = { isAudited: true } as const;
const DELETES = { ...stream('delete'), ...AUDITED };
const DISCARDS = { ...SNAPSHOTS, ...AUDITED, ...WHOLE };
/** Nothing of it is about streams, or the handler asks for each of them. */
const ANY = { right: 'any' } as const;

/** The order of the rows is that of Allow. Patterns and names are read by paths.ts. */
const STREAM_ROWS: readonly RouteRow[] = [
  { ...row(['GET'], STREAM, 'read', always(handleRead)), ...LINKED },
  { ...row(['HEAD'], STREAM, 'head', always(handleHead)), ...LINKED },
  {
    ...row(['POST'], STREAM, 'append', always(handleAppend)),
    ...{ ...stream('append'), ...APPEND, checksEncoding: true, takesConditions: true },
  },
  { ...row(['PUT'], STREAM, 'create', always(handleCreate)), ...stream('create'), ...WHOLE, takesConditions: true },
  { ...row(['DELETE'], STREAM, 'delete', always(handleDelete)), ...DELETES, takesConditions: true },
  { ...row(READ, ATTRIBUTES, 'attrs', always(handleGetAttributes)), ...READS },
  {
    ...row(['PUT'], ATTRIBUTES, 'attrs', always(handlePutAttributes)),
    ...{ ...stream('attributes'), bodyBytesMax: SENT_BYTES_MAX },
  },
  { ...row(['POST'], `${STREAM}/append-batch`, 'batch', always(handleBatch)), ...stream('append'), ...APPEND },
  { ...row(READ, SNAPSHOT, 'snapshot', always(handleLatestSnapshot)), ...LINKED },
  { ...row(['PUT'], SNAPSHOT, 'snapshot', always(handlePublish)), ...SNAPSHOTS, ...WHOLE },
  { ...row(READ, SNAPSHOT_AT, 'snapshot', always(handleReadSnapshot)), ...LINKED },
  { ...row(['PUT'], SNAPSHOT_AT, 'snapshot', always(handlePublish)), ...SNAPSHOTS, ...WHOLE },
  { ...row(['DELETE'], SNAPSHOT_AT, 'snapshot', always(handleDeleteSnapshot)), ...SNAPSHOTS, ...AUDITED },
  { ...row(['PUT'], RETENTION, 'retention', always(handleRetention)), ...DISCARDS },
  { ...row(['PUT'], `${RETENTION}/{offset}`, 'retention', always(handleRetention)), ...DISCARDS },
  { ...row(READ, `${STREAM}/bootstrap`, 'bootstrap', always(handleBootstrap)), ...LINKED },
  { ...row(READ, '/{bucket}', 'bucket', always(handleDescribeBucket)), ...bucket('list') },
  { ...row(['PUT'], '/{bucket}', 'bucket', always(handleCreateBucket)), ...bucket('create'), writesNothing: true },
  { ...row(['DELETE'], '/{bucket}', 'bucket', always(handleDeleteBucket)), ...bucket('delete'), ...AUDITED },
  {
    ...row(READ, '/{bucket}/streams', 'list', always(handleListStreams)),
    right: { on: 'listing', operation: 'list' },
  },
];

/** The service behind them tells methods apart, so that a refusal can name what the path takes. */
function control(path: string): RouteRow {
  return {
    ...row(['*'], `/v1/stream/__ds/${path}`, 'other', using('control', handleControl)),
    ...{ ...AUDITED, bodyBytesMax: SUBSCRIPTION_BODY_BYTES_MAX },
    allow: ({ control: port }, url) => (port === undefined ? '' : allowOfControl(port, url)),
  };
}

/** The calls of receivers have tokens of their own, and public keys are public. */
const CONTROL_ROWS: readonly RouteRow[] = [
  { ...control('jwks.json'), access: 'open' },
  { ...control('subscriptions/{id}/callback'), access: 'open' },
  { ...control('subscriptions/{id}/ack'), access: 'open' },
  { ...control('subscriptions/{id}/release'), access: 'open' },
  // The service asks for the streams of each subscription.
  { ...control('*'), ...ANY },
];

function service(methods: readonly Method[], path: string, bind: Bind): RouteRow {
  return row(methods, `/__svc/${path}`, 'other', bind);
}

const METRICS = service(READ, 'metrics', using('metrics', handleMetrics));
const USAGE = service(READ, 'usage', always(handleUsage));

const PROBE_ROWS: readonly (RouteRow & { readonly access: 'probe' })[] = [
  { ...service(READ, 'health', always(answerHealth)), access: 'probe' },
  {
    ...service(READ, 'ready', ({ knows }) => {
      const ready = new ReadyProbe(knows);
      return (call) => ready.answer(call);
    }),
    access: 'probe',
  },
];

const SHED = service(READ, 'leadership-shed', using('drainMark', handleReadShed));

function openApi(plane: DocumentedPlane): RouteRow {
  return service(READ, 'openapi.json', () => serveApiDocument(plane));
}

const SESSION = 'session';
export const SESSION_PATH = `/__svc/${SESSION}`;

export const CLIENT_ROWS: readonly RouteRow[] = [
  ...STREAM_ROWS,
  {
    ...service(
      ['GET'],
      SESSION,
      using('sessions', (call, sessions) => sessions.handle(call)),
    ),
    ...ANY,
  },
  {
    ...service(['POST'], 'tokens', using('narrowing', handleNarrow)),
    ...{ ...ANY, ...AUDITED, bodyBytesMax: NARROWING_BODY_BYTES_MAX },
  },
  { ...openApi('client'), ...ANY },
  { ...METRICS, ...ANY },
  { ...USAGE, ...ANY },
  ...PROBE_ROWS,
  { ...service(['POST'], 'cluster-probe', always(handleClusterProbe)), ...WHOLE },
  // A node without a cluster plane has that one's here too.
  { ...SHED, bind: (services) => (services.hasClusterPlane ? undefined : SHED.bind(services)) },
  ...CONTROL_ROWS,
];

/** Shows how the node and the cluster are, and changes nothing. */
const OBSERVE = { role: 'observe', ...AUDITED } as const;
/** Monitors and the console's page ask it all the time, and it says nothing about a tenant. */
const ROUTINE = { role: 'observe', isAudited: false } as const;
/** Shows what tenants wrote, or changes what another call can set back. */
const OPERATE = { role: 'operate', ...AUDITED } as const;
/** Nothing sets it back, or it takes away what protects data. */
const DESTROY = { role: 'destroy', ...AUDITED } as const;

const MAINTENANCE = 'leadership-shed/maintenance';
const KEYS = 'webhook-keys';

/** A call of operators, whose Allow names no OPTIONS. */
function operator(methods: readonly Method[], path: string, bind: Bind): RouteRow {
  return { ...service(methods, path, bind), omitsOptions: true };
}

function raft(method: Method, path: string, kind: AdminCall): RouteRow {
  return operator([method], `raft/{group}/${path}`, ({ peers }) => raftHandler(kind, peers));
}

/** A call about one bucket. */
function tenant(methods: readonly Method[], path: string, bind: Bind): RouteRow {
  return { ...operator(methods, `${path}/{bucket}`, bind), operation: 'bucket' };
}

/** Below it the admin plane has the streams: for the console, whose token is that of this plane. */
const SHOWN = '/__svc/streams/{bucket}';
const SHOWN_STREAM = `${SHOWN}/{stream}` as const;

/** The console's routes to streams, with the handlers of the client plane. */
const SHOWN_ROWS = forConsole([
  { ...row(['GET'], SHOWN_STREAM, 'read', always(handleRead)), ...OPERATE },
  { ...row(['HEAD'], SHOWN_STREAM, 'head', always(handleHead)), ...OBSERVE },
  { ...row(['POST'], SHOWN_STREAM, 'append', always(handleAppend)), ...DESTROY, ...APPEND, takesConditions: true },
  { ...row(['PUT'], SHOWN_STREAM, 'create', always(handleCreate)), ...OPERATE, ...WHOLE, takesConditions: true },
  { ...row(['DELETE'], SHOWN_STREAM, 'delete', always(handleDelete)), ...DESTROY, takesConditions: true },
  { ...row(READ, `${SHOWN_STREAM}/attrs`, 'attrs', always(handleGetAttributes)), ...OPERATE },
  { ...row(READ, SHOWN, 'bucket', always(handleDescribeBucket)), ...OBSERVE },
  { ...row(READ, `${SHOWN}/streams`, 'list', always(handleListStreams)), ...OBSERVE },
]);

function forConsole(rows: readonly AdminRow[]): readonly AdminRow[] {
  return rows.map((one) => ({ ...one, isForConsole: true }));
}

export const ADMIN_ROWS: readonly AdminRow[] = [
  ...forConsole([{ ...row(READ, '/', 'other', using('console', handleConsole)), access: 'open' }]),
  { ...openApi('admin'), ...ROUTINE },
  { ...METRICS, ...ROUTINE },
  { ...USAGE, ...OBSERVE },
  ...PROBE_ROWS,
  ...SHOWN_ROWS,
  { ...SHED, ...ROUTINE },
  { ...service(['POST'], MAINTENANCE, using('drainMark', setShed('draining'))), ...OPERATE },
  { ...service(['DELETE'], MAINTENANCE, using('drainMark', setShed('serving'))), ...OPERATE },
  ...forConsole([
    { ...service(READ, 'whoami', always(handleWhoami)), ...ROUTINE },
    { ...service(READ, 'metrics/history', using('history', handleHistory)), ...ROUTINE },
    { ...service(READ, 'subscriptions', using('inspection', handleListSubscriptions)), ...OBSERVE },
    { ...service(['POST'], 'subscriptions/{id}/deliver', using('inspection', handleDeliverAgain)), ...OPERATE },
  ]),
  { ...service(['GET'], KEYS, using('webhookKeys', handleShowKeys)), ...OBSERVE },
  { ...service(['POST'], KEYS, using('webhookKeys', rotateKeys('add'))), ...OPERATE },
  { ...service(['DELETE'], KEYS, using('webhookKeys', rotateKeys('replace-all'))), ...DESTROY },
  { ...service(['HEAD'], KEYS, using('webhookKeys', handleShowKeys)), ...OBSERVE },
  { ...raft('POST', 'snapshot', 'snapshot'), ...OPERATE },
  { ...raft('POST', 'purge', 'purge'), ...OPERATE },
  { ...raft('POST', 'membership', 'membership'), ...OPERATE },
  { ...raft('POST', 'learners/{node}', 'learner'), ...OPERATE },
  { ...raft('DELETE', 'learners/{node}', 'forget-learner'), ...OPERATE },
  { ...raft('POST', 'leader/transfer/{node}', 'transfer'), ...OPERATE },
  { ...raft('POST', 'nodes/{node}/allow-next-revert', 'allow-revert'), ...DESTROY },
  { ...operator(['POST'], 'flush-cold/{bucket}/{stream}', always(handleFlushCold)), ...OPERATE },
  { ...operator(['GET'], 'backup/info', using('backups', handleBackupInfo)), ...OBSERVE },
  { ...operator(['GET'], 'backup/group/{group}', using('backups', withGroup(handleExport))), ...OPERATE },
  { ...operator(['POST'], 'backup/group/{group}/import', using('backups', withGroup(handleImport))), ...DESTROY },
  {
    ...tenant(['DELETE'], 'purge', (services) => (call) => handlePurge(call, services.coldObjects)),
    ...DESTROY,
  },
  { ...tenant(READ, 'quota', always(handleGetQuota)), ...OBSERVE },
  { ...tenant(['PUT'], 'quota', always(handlePutQuota)), ...OPERATE, bodyBytesMax: QUOTA_BODY_BYTES_MAX },
];

/** The routes of a plane that a node with these services has. */
export function bindRows(plane: PlaneKind, services: PlaneServices): readonly Route[] {
  return (plane === 'client' ? CLIENT_ROWS : ADMIN_ROWS).flatMap(({ bind, allow, ...row }) => {
    const handler = bind(services);
    if (handler === undefined) return [];
    if (allow === undefined) return [{ ...row, handler }];
    return [{ ...row, handler, allow: (url: string) => allow(services, url) }];
  });
}

/** Every method of the rows, in the order in which they come. */
export function methodsOf(rows: readonly RouteRow[]): string {
  const methods = new Set(rows.flatMap((one) => one.methods));
  methods.delete('*');
  return [...methods, 'OPTIONS'].join(', ');
}
