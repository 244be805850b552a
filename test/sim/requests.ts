/** Request frames as the HTTP side makes them. */
import { encodePurge } from '../../src/wire/bucket-command.ts';
import { COMMAND_APPEND, COMMAND_CREATE, COMMAND_DELETE, COMMAND_PURGE } from '../../src/wire/command.ts';
import {
  ALL_GROUPS,
  OP_ADMIN,
  OP_READ,
  OP_SHED,
  OP_STATUS,
  OP_UNWATCH,
  READ_NOW,
  READ_RECORD,
  READ_RECORD_NOW,
  type Request,
  newRequest,
} from '../../src/wire/request.ts';
import { SHED_DRAIN } from '../../src/wire/shed.ts';

export interface StreamName {
  readonly group: number;
  readonly name: string;
  readonly json: boolean;
}

export interface Producer {
  readonly id: string;
  epoch: number;
  seq: number;
}

const BUCKET = 'sim';

function about(op: number, { group, name }: StreamName): Request {
  const request = newRequest();
  request.op = op;
  request.group = group;
  request.command.kind = op;
  request.command.bucket = BUCKET;
  request.command.stream = name;
  return request;
}

const typeOf = ({ json }: StreamName): string => (json ? 'application/json' : 'text/plain');

export function createRequest(stream: StreamName, ttlSeconds: number): Request {
  const request = about(COMMAND_CREATE, stream);
  request.command.contentType = typeOf(stream);
  request.command.ttlSeconds = ttlSeconds;
  return request;
}

export function appendRequest(stream: StreamName, payload: Uint8Array | undefined, producer?: Producer): Request {
  const request = about(COMMAND_APPEND, stream);
  request.command.payload = payload;
  if (payload !== undefined) request.command.contentType = typeOf(stream);
  if (producer !== undefined) {
    request.command.producerId = producer.id;
    request.command.producerEpoch = producer.epoch;
    request.command.producerSeq = producer.seq;
  }
  return request;
}

export function deleteRequest(stream: StreamName): Request {
  return about(COMMAND_DELETE, stream);
}

/** All streams of the bucket in one group, from behind `after` on. */
export function purgeRequest(group: number, after: string): Request {
  const request = about(COMMAND_PURGE, { group, name: '', json: false });
  request.command.payload = encodePurge(after);
  return request;
}

export function readRequest(stream: StreamName, from: number): Request {
  const request = about(OP_READ, stream);
  request.value = from;
  if (stream.json) request.mode = READ_RECORD;
  return request;
}

/** Subscribes the topic from the tail on. */
export function watchRequest(stream: StreamName, topic: number): Request {
  const request = about(OP_READ, stream);
  request.mode = stream.json ? READ_RECORD_NOW : READ_NOW;
  request.topic = topic;
  return request;
}

export function unwatchRequest(stream: StreamName, topic: number): Request {
  const request = about(OP_UNWATCH, stream);
  request.topic = topic;
  return request;
}

export function statusRequest(): Request {
  const request = newRequest();
  request.op = OP_STATUS;
  request.group = ALL_GROUPS;
  return request;
}

/** `voters` only for a change of membership. */
export function adminRequest(mode: number, group: number, value: number, voters = ''): Request {
  const request = newRequest();
  request.op = OP_ADMIN;
  request.group = group;
  request.mode = mode;
  request.value = value;
  request.command.bucket = voters;
  return request;
}

export function shedRequest(draining: boolean): Request {
  const request = newRequest();
  request.op = OP_SHED;
  request.group = ALL_GROUPS;
  request.mode = draining ? 1 : 0;
  request.value = draining ? SHED_DRAIN : 0;
  return request;
}
