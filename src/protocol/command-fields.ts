/** The fields of a command, by which it is written (command.ts). */

/** A writer of commands fills this in; reused between calls (see resetCommandFields). */
export interface CommandFields {
  kind: number;
  bucket: string;
  /** Empty for bucket-wide commands. */
  stream: string;
  nowMs: number;
  close: boolean;
  /** Empty: none sent. */
  contentType: string;
  /** undefined: none sent. */
  streamSeq: string | undefined;
  /** Empty: no producer. */
  producerId: string;
  producerEpoch: number;
  producerSeq: number;
  /** -1: none. */
  recordMatch: number;
  /** The tail that the stream must have; -1: any. */
  expectedOffset: number;
  /** -1: none. At most one of the two lifetimes is set. */
  ttlSeconds: number;
  expiresAtMs: number;
  /** Identifies a fork, from 1; 0: none. */
  forkToken: number;
  /** As condition.ts writes it; empty: none. */
  condition: string;
  /** Attribute JSON as sent by the client (the shard normalises it); undefined: none sent. */
  attributes: Uint8Array | undefined;
  payload: Uint8Array | undefined;
}

export function newCommandFields(): CommandFields {
  return {
    kind: 0,
    bucket: '',
    stream: '',
    nowMs: 0,
    close: false,
    contentType: '',
    streamSeq: undefined,
    producerId: '',
    producerEpoch: 0,
    producerSeq: 0,
    recordMatch: -1,
    expectedOffset: -1,
    ttlSeconds: -1,
    expiresAtMs: -1,
    forkToken: 0,
    condition: '',
    attributes: undefined,
    payload: undefined,
  };
}

/** All of them back to what newCommandFields() gives. */
export function resetCommandFields(fields: CommandFields): void {
  fields.kind = 0;
  fields.bucket = '';
  fields.stream = '';
  fields.nowMs = 0;
  fields.close = false;
  fields.contentType = '';
  fields.streamSeq = undefined;
  fields.producerId = '';
  fields.producerEpoch = 0;
  fields.producerSeq = 0;
  fields.recordMatch = -1;
  fields.expectedOffset = -1;
  fields.ttlSeconds = -1;
  fields.expiresAtMs = -1;
  fields.forkToken = 0;
  fields.condition = '';
  fields.attributes = undefined;
  fields.payload = undefined;
}
