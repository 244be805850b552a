/** Request frames as the HTTP side makes them. */
import { joinFrames } from '../../src/protocol/append-batch.ts';
import type { AdminRequest } from '../../src/protocol/queries/administration.ts';
import { type Quota, encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import {
  PUBLISH_HEAD_BYTES,
  type Position,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';
import { type ReadRange, READ_NOW, READ_OFFSET, READ_RECORD, READ_RECORD_NOW } from '../../src/protocol/read-fields.ts';
import { READ_FLAG_NO_TOUCH, READ_FLAG_PARTS } from '../../src/protocol/queries/read.ts';
import { ALL_GROUPS, type Request, newRequest, requestFor } from '../../src/protocol/request.ts';
import { SHED_DRAIN } from '../../src/placement/state/shed.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

export interface StreamName {
  readonly group: number;
  readonly name: string;
  readonly json: boolean;
  readonly bucket: string;
}

export interface Producer {
  readonly id: string;
  epoch: number;
  seq: number;
}

/** Usually. */
export const BUCKET = 'sim';
/** Bucket of streams that come and go, in runs in which it is purged. */
export const PURGED_BUCKET = 'Tenant/7';

function about(op: number, { group, name, bucket }: StreamName): Request {
  const request = newRequest();
  request.op = op;
  request.group = group;
  request.command.kind = op;
  request.command.bucket = bucket;
  request.command.stream = name;
  return request;
}

const typeOf = ({ json }: StreamName): string => (json ? 'application/json' : 'text/plain');

export function createRequest(stream: StreamName, ttlSeconds: number): Request {
  const request = about(COMMANDS.create.number, stream);
  request.command.contentType = typeOf(stream);
  request.command.ttlSeconds = ttlSeconds;
  // Some have attributes, the same each time.
  if (stream.name.startsWith('closable') || stream.name.startsWith('short'))
    request.command.attributes = new TextEncoder().encode(`{"of":${JSON.stringify(stream.name)}}`);
  return request;
}

export function appendRequest(stream: StreamName, payload: Uint8Array | undefined, producer?: Producer): Request {
  const request = about(COMMANDS.append.number, stream);
  request.command.payload = payload;
  if (payload !== undefined) request.command.contentType = typeOf(stream);
  if (producer !== undefined) {
    request.command.producerId = producer.id;
    request.command.producerEpoch = producer.epoch;
    request.command.producerSeq = producer.seq;
  }
  return request;
}

export function batchRequest(stream: StreamName, frames: readonly Uint8Array[], producer?: Producer): Request {
  const request = appendRequest(stream, joinFrames(frames), producer);
  request.op = COMMANDS.appendBatch.number;
  request.command.kind = COMMANDS.appendBatch.number;
  return request;
}

export function deleteRequest(stream: StreamName): Request {
  return about(COMMANDS.deleteStream.number, stream);
}

/** All streams of the bucket in one group, from behind `after` on. */
export function purgeRequest(group: number, bucket: string, after: string): Request {
  const request = about(COMMANDS.purge.number, { group, bucket, name: '', json: false });
  request.command.payload = encodePurge(after);
  return request;
}

export function quotaRequest(group: number, bucket: string, quota: Quota): Request {
  const request = about(COMMANDS.quota.number, { group, bucket, name: '', json: false });
  request.command.payload = encodeQuota(quota);
  return request;
}

/** Objects of the bucket that the group has queued for deletion. */
export function bucketGcRequest(group: number, bucket: string, from: number | undefined): Request {
  return requestFor(QUERIES.bucketGarbage, group, { bucket, limit: 4, from });
}

export function gcDoneRequest(group: number, seqs: readonly number[]): Request {
  return requestFor(COMMANDS.gcDone, group, { seqs });
}

/** Asks about a position: whether it is a border, and of which message. */
export function partsRequest(stream: StreamName, value: number): Request {
  return readRequest(stream, value, { maxBytes: 1, maxRecords: 1, readFlags: READ_FLAG_PARTS | READ_FLAG_NO_TOUCH });
}

export function publishRequest(
  stream: StreamName,
  position: Position,
  { bytes, digest }: { readonly bytes: Uint8Array; readonly digest: Uint8Array },
): Request {
  const request = about(COMMANDS.publishSnapshot.number, stream);
  const payload = new Uint8Array(PUBLISH_HEAD_BYTES + bytes.length);
  writePublishHead(payload, { position, digest, match: undefined });
  payload.set(bytes, PUBLISH_HEAD_BYTES);
  request.command.payload = payload;
  return request;
}

export function retentionRequest(stream: StreamName, position: Position): Request {
  const request = about(COMMANDS.retention.number, stream);
  request.command.payload = encodeRetention(position);
  return request;
}

export function readRequest(
  { group, name, bucket, json }: StreamName,
  value: number,
  options: Partial<ReadRange> = {},
): Request {
  const mode = json ? READ_RECORD : READ_OFFSET;
  return requestFor(QUERIES.read, group, { bucket, stream: name, mode, value, ...options });
}

/** Subscribes the topic from the tail on. */
export function watchRequest({ group, name, bucket, json }: StreamName, topic: number): Request {
  const mode = json ? READ_RECORD_NOW : READ_NOW;
  return requestFor(QUERIES.read, group, { bucket, stream: name, mode, topic });
}

export function unwatchRequest({ group }: StreamName, topic: number): Request {
  return requestFor(QUERIES.unwatch, group, { topic });
}

export function statusRequest(): Request {
  return requestFor(QUERIES.status, ALL_GROUPS, undefined);
}

export function adminRequest(group: number, asked: AdminRequest): Request {
  return requestFor(QUERIES.admin, group, asked);
}

export function shedRequest(draining: boolean): Request {
  const priority = draining ? 'none' : 'normal';
  return requestFor(QUERIES.shed, ALL_GROUPS, { priority, reasons: draining ? SHED_DRAIN : 0 });
}
