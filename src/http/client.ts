/** Router of the client plane: route and method -> handler. */
import { ALLOW, allowOfSnapshot } from './allow.ts';
import { type AppendPool, handleAppend } from './routes/append.ts';
import { handleGetAttributes, handlePutAttributes } from './routes/attributes.ts';
import { handleBatch } from './routes/batch.ts';
import { handleBootstrap } from './routes/bootstrap.ts';
import { handleCreateBucket, handleDeleteBucket, handleDescribeBucket, handleListStreams } from './routes/bucket.ts';
import type { Operation } from './contract.ts';
import type { ControlPort } from '../subscriptions/ports.ts';
import { handleControl } from './routes/control.ts';
import { handleCreate } from './routes/create.ts';
import { handleDelete, handleHead } from './routes/head.ts';
import { checkEncoding, writeHeaders } from './headers.ts';
import type { MetricsSource } from './routes/admin/metrics-route.ts';
import type { Plane, Router } from './plane.ts';
import { handleRead } from './routes/read.ts';
import { handleRetention } from './routes/retention.ts';
import type { Responder } from './respond.ts';
import { type Route, newRoute, parseRoute } from './routes.ts';
import { type ServiceTable, handleService } from './routes/admin/service.ts';
import { handleDeleteSnapshot, handleLatestSnapshot, handlePublish, handleReadSnapshot } from './routes/snapshot.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

/** What the functions below need of one request. */
interface Call {
  readonly plane: Plane;
  readonly res: UwsResponse;
  readonly req: UwsRequest;
  readonly method: string;
  readonly responder: Responder;
  readonly startedMs: number;
}

export function clientRoutes(
  plane: Plane,
  pool: AppendPool,
  source: MetricsSource,
  service: ServiceTable,
  control: ControlPort | undefined,
): Router {
  const route = newRoute();
  return (res, req, method, responder, startedMs) => {
    const url = req.getUrl();
    parseRoute(url, route);
    // The hot path first, without an object for the call.
    if (route.kind === 'stream' && method === 'post') {
      return handleAppend(plane, pool, res, responder, route.family, route.bucket, route.stream, startedMs);
    }
    const refusal = method === 'put' || method === 'post' ? checkEncoding(writeHeaders().contentEncoding) : undefined;
    if (refusal !== undefined) {
      return plane.refuse(res, responder, route.family, 'other', startedMs, refusal.code, refusal.detail);
    }
    const call: Call = { plane, res, req, method, responder, startedMs };
    switch (route.kind) {
      case 'stream':
        return onStream(call, route);
      case 'attrs':
        return onAttributes(call, route);
      case 'bucket':
        return onBucket(call, route.bucket);
      case 'list':
        return onList(call, route.bucket);
      case 'service':
        return handleService(service, url, method, { plane, source, res, req, responder, startedMs });
      case 'control':
        if (control === undefined) return plane.refuse(res, responder, 'flat', 'other', startedMs, 'ROUTE_NOT_FOUND');
        return handleControl(plane, control, res, req, method, responder, startedMs);
      case 'batch':
        return onBatch(call, route);
      case 'snapshot':
        return onSnapshot(call, route);
      case 'retention':
        return onRetention(call, route);
      case 'bootstrap':
        return onBootstrap(call, route);
      case 'invalid':
        return plane.refuse(res, responder, route.family, 'other', startedMs, 'INVALID_NAME', route.detail);
      default:
        return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'ROUTE_NOT_FOUND');
    }
  };
}

function onStream(call: Call, route: Route): void {
  const { plane, res, req, responder, startedMs } = call;
  const { family, bucket, stream } = route;
  switch (call.method) {
    case 'get':
      return handleRead(plane, res, req, responder, family, bucket, stream, startedMs);
    case 'head':
      return handleHead(plane, res, responder, family, bucket, stream, startedMs);
    case 'put':
      return handleCreate(plane, res, req, responder, family, bucket, stream, startedMs);
    case 'delete':
      return handleDelete(plane, res, responder, family, bucket, stream, startedMs);
    default:
      return notAllowed(call, 'other', ALLOW.stream);
  }
}

function onAttributes(call: Call, route: Route): void {
  const { plane, res, responder, startedMs } = call;
  const { bucket, stream } = route;
  switch (call.method) {
    case 'get':
    case 'head':
      return handleGetAttributes(plane, res, responder, bucket, stream, startedMs);
    case 'put':
      return handlePutAttributes(plane, res, responder, bucket, stream, startedMs);
    default:
      return notAllowed(call, 'attrs', ALLOW.attrs);
  }
}

function onBatch(call: Call, { bucket, stream }: Route): void {
  const { plane, res, req, responder, startedMs } = call;
  if (call.method !== 'post') return notAllowed(call, 'batch', ALLOW.batch);
  return handleBatch(plane, res, req, responder, bucket, stream, startedMs);
}

/** Without an offset: GET where the latest is, PUT at a record. With one: the snapshot there. */
function onSnapshot(call: Call, { bucket, stream, detail }: Route): void {
  const { plane, res, req, responder, startedMs } = call;
  const isLatest = detail === '';
  switch (call.method) {
    case 'put':
      return handlePublish(plane, res, req, responder, bucket, stream, detail, startedMs);
    case 'get':
    case 'head':
      if (isLatest) return handleLatestSnapshot(plane, res, req, responder, bucket, stream, startedMs);
      return handleReadSnapshot(plane, res, responder, bucket, stream, detail, startedMs);
    case 'delete':
      if (!isLatest) return handleDeleteSnapshot(plane, res, responder, bucket, stream, detail, startedMs);
  }
  return notAllowed(call, 'snapshot', allowOfSnapshot(detail));
}

function onRetention(call: Call, { bucket, stream, detail }: Route): void {
  const { plane, res, req, responder, startedMs } = call;
  if (call.method !== 'put') return notAllowed(call, 'retention', ALLOW.retention);
  return handleRetention(plane, res, req, responder, bucket, stream, detail, startedMs);
}

function onBootstrap(call: Call, { bucket, stream }: Route): void {
  const { plane, res, req, responder, startedMs } = call;
  if (call.method !== 'get' && call.method !== 'head') return notAllowed(call, 'bootstrap', ALLOW.bootstrap);
  return handleBootstrap(plane, res, req, responder, bucket, stream, startedMs);
}

function onBucket(call: Call, bucket: string): void {
  const { plane, res, responder, startedMs } = call;
  switch (call.method) {
    case 'put':
      return handleCreateBucket(plane, res, responder, startedMs);
    case 'get':
    case 'head':
      return handleDescribeBucket(plane, res, responder, bucket, startedMs);
    case 'delete':
      return handleDeleteBucket(plane, res, responder, bucket, startedMs);
    default:
      return notAllowed(call, 'bucket', ALLOW.bucket);
  }
}

function onList(call: Call, bucket: string): void {
  const { plane, res, req, responder, startedMs } = call;
  if (call.method !== 'get' && call.method !== 'head') return notAllowed(call, 'list', ALLOW.list);
  return handleListStreams(plane, res, req, responder, bucket, startedMs);
}

function notAllowed(call: Call, operation: Operation, allow: string): void {
  call.plane.count(operation, call.responder.methodNotAllowed(call.res, allow), call.startedMs);
}
