/** Request frames as the HTTP side makes them. */
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { encodeGcList } from '../../src/protocol/cold.ts';
import { type Quota, encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import {
  PUBLISH_HEAD_BYTES,
  type Position,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';
import {
  ALL_GROUPS,
  READ_FLAG_NO_TOUCH,
  READ_FLAG_PARTS,
  READ_NOW,
  READ_RECORD,
  READ_RECORD_NOW,
  type Request,
  newRequest,
} from '../../src/protocol/request.ts';
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
/** Of streams that come and go, in runs in which it is purged. */
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
export function bucketGcRequest(group: number, bucket: string): Request {
  const request = newRequest();
  request.op = QUERIES.bucketGarbage.number;
  request.group = group;
  request.command.bucket = bucket;
  request.maxRecords = 4;
  return request;
}

export function gcDoneRequest(group: number, seqs: readonly number[]): Request {
  const request = newRequest();
  request.op = COMMANDS.gcDone.number;
  request.group = group;
  request.command.kind = COMMANDS.gcDone.number;
  request.command.payload = encodeGcList(seqs);
  return request;
}

/** What begins at a position: whether it is a border, and of which message. */
export function partsRequest(stream: StreamName, value: number): Request {
  const request = readRequest(stream, value);
  request.maxBytes = 1;
  request.maxRecords = 1;
  request.readFlags = READ_FLAG_PARTS | READ_FLAG_NO_TOUCH;
  return request;
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

export function readRequest(stream: StreamName, from: number): Request {
  const request = about(QUERIES.read.number, stream);
  request.value = from;
  if (stream.json) request.mode = READ_RECORD;
  return request;
}

/** Subscribes the topic from the tail on. */
export function watchRequest(stream: StreamName, topic: number): Request {
  const request = about(QUERIES.read.number, stream);
  request.mode = stream.json ? READ_RECORD_NOW : READ_NOW;
  request.topic = topic;
  return request;
}

export function unwatchRequest(stream: StreamName, topic: number): Request {
  const request = about(QUERIES.unwatch.number, stream);
  request.topic = topic;
  return request;
}

export function statusRequest(): Request {
  const request = newRequest();
  request.op = QUERIES.status.number;
  request.group = ALL_GROUPS;
  return request;
}

/** `voters` only for a change of membership. */
export function adminRequest(mode: number, group: number, value: number, voters = ''): Request {
  const request = newRequest();
  request.op = QUERIES.admin.number;
  request.group = group;
  request.mode = mode;
  request.value = value;
  request.command.bucket = voters;
  return request;
}

export function shedRequest(draining: boolean): Request {
  const request = newRequest();
  request.op = QUERIES.shed.number;
  request.group = ALL_GROUPS;
  request.mode = draining ? 1 : 0;
  request.value = draining ? SHED_DRAIN : 0;
  return request;
}
