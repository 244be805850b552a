/**
 * A replicated command: what the log holds, one after the other inside an entry, and what the state machine applies.
 * The main thread writes it straight into the mailbox; the shard adds the clock and, for JSON, the normalised payload.
 *
 *   0 kind u8 | 1 zero u8 | 2 flags u16 | 4 keyBytes u16 | 6 contentTypeBytes u16 | 8 nowMs f64
 *  16 payloadBytes u32 | 20 recordCount u32 | optional parts in this order, present by flag:
 *     PRODUCER  epoch f64, seq f64, idBytes u16
 *     MATCH     record tail f64
 *     LIFETIME  ttlSeconds f64 (-1 none), expiresAtMs f64 (-1 none)
 *     SEQ       seqBytes u16
 *     FORK      token f64
 *     (kind + KIND_CONDITIONAL)  conditionBytes u16
 *     ATTRS     attributeBytes u32
 *   then key, content type, producer id, seq, condition, attributes, payload, record ends (u32 each, relative to the payload).
 *
 * Little-endian. The key is bucket, NUL, stream (names hold no NUL). Bucket-wide commands carry the bucket alone.
 */
import { byteAt } from '../base/bytes.ts';
import {
  FLAG_ATTRS,
  FLAG_CLOSE,
  FLAG_FORK,
  FLAG_LIFETIME,
  FLAG_MATCH,
  FLAG_PRODUCER,
  FLAG_SEQ,
  KIND_CONDITIONAL,
} from './command-kinds.ts';
import { readText, writeText } from '../base/text.ts';

export * from './command-kinds.ts';

const FIXED_BYTES = 24;

/** What a writer of commands fills in; reused between calls (see resetCommandFields). */
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
  fields.ttlSeconds = -1;
  fields.expiresAtMs = -1;
  fields.forkToken = 0;
  fields.condition = '';
  fields.attributes = undefined;
  fields.payload = undefined;
}

/** Upper bound in bytes of the encoding, cheap enough for the hot path. */
export function commandBytesMax(fields: CommandFields): number {
  const text =
    fields.bucket.length +
    fields.stream.length +
    fields.contentType.length +
    fields.condition.length +
    (fields.streamSeq?.length ?? 0) +
    fields.producerId.length;
  return FIXED_BYTES + 64 + 3 * text + (fields.attributes?.length ?? 0) + (fields.payload?.length ?? 0);
}

/**
 * Writes a command at `offset`; returns its size. `isTransferred` omits the payload but states its size, for payloads
 * that are transferred separately.
 */
export function writeCommand(
  fields: CommandFields,
  bytes: Uint8Array,
  view: DataView,
  offset: number,
  isTransferred = false,
): number {
  let flags = 0;
  let at = offset + FIXED_BYTES;
  // Where the parts with a text begin; 0 = absent (offset 0 holds the fixed part).
  let producerIdAt = 0;
  let seqAt = 0;
  if (fields.close) flags |= FLAG_CLOSE;
  if (fields.producerId !== '') {
    flags |= FLAG_PRODUCER;
    view.setFloat64(at, fields.producerEpoch, true);
    view.setFloat64(at + 8, fields.producerSeq, true);
    producerIdAt = at;
    at += 18;
  }
  if (fields.recordMatch >= 0) {
    flags |= FLAG_MATCH;
    view.setFloat64(at, fields.recordMatch, true);
    at += 8;
  }
  if (fields.ttlSeconds >= 0 || fields.expiresAtMs >= 0) {
    flags |= FLAG_LIFETIME;
    view.setFloat64(at, fields.ttlSeconds, true);
    view.setFloat64(at + 8, fields.expiresAtMs, true);
    at += 16;
  }
  if (fields.streamSeq !== undefined) {
    flags |= FLAG_SEQ;
    seqAt = at;
    at += 2;
  }
  if (fields.forkToken !== 0) {
    flags |= FLAG_FORK;
    view.setFloat64(at, fields.forkToken, true);
    at += 8;
  }
  let conditionAt = 0;
  if (fields.condition !== '') {
    conditionAt = at;
    at += 2;
  }
  if (fields.attributes !== undefined) {
    flags |= FLAG_ATTRS;
    view.setUint32(at, fields.attributes.length, true);
    at += 4;
  }
  partsWithText.producerIdAt = producerIdAt;
  partsWithText.seqAt = seqAt;
  partsWithText.conditionAt = conditionAt;
  at = writeTexts(fields, bytes, view, offset, at);
  const payload = fields.payload;
  if (payload !== undefined && !isTransferred) {
    bytes.set(payload, at);
    at += payload.length;
  }
  bytes[offset] = conditionAt === 0 ? fields.kind : fields.kind + KIND_CONDITIONAL;
  bytes[offset + 1] = 0;
  view.setUint16(offset + 2, flags, true);
  view.setFloat64(offset + 8, fields.nowMs, true);
  view.setUint32(offset + 16, payload?.length ?? 0, true);
  view.setUint32(offset + 20, 0, true);
  return at - offset;
}

/** Writes a command of this node about a key that is bytes already, or about none. */
export function writeKeyCommand(
  kind: number,
  key: Uint8Array | undefined,
  bytes: Uint8Array,
  view: DataView,
  at: number,
): number {
  const fields = newCommandFields();
  fields.kind = kind;
  const size = writeCommand(fields, bytes, view, at);
  if (key === undefined) return size;
  bytes.set(key, at + size);
  view.setUint16(at + 4, key.length, true);
  return size + key.length;
}

/** For the command being written. Created once: an object per write is garbage on the hot path. */
const partsWithText = { producerIdAt: 0, seqAt: 0, conditionAt: 0 };

/** The variable part up to the payload, and the sizes that describe it; returns where it ends. */
function writeTexts(fields: CommandFields, bytes: Uint8Array, view: DataView, offset: number, keyAt: number): number {
  const { producerIdAt, seqAt, conditionAt } = partsWithText;
  let at = keyAt + writeText(bytes, keyAt, fields.bucket);
  if (fields.stream !== '') {
    bytes[at++] = 0;
    at += writeText(bytes, at, fields.stream);
  }
  view.setUint16(offset + 4, at - keyAt, true);
  const contentTypeBytes = writeText(bytes, at, fields.contentType);
  view.setUint16(offset + 6, contentTypeBytes, true);
  at += contentTypeBytes;
  if (producerIdAt !== 0) {
    const size = writeText(bytes, at, fields.producerId);
    view.setUint16(producerIdAt + 16, size, true);
    at += size;
  }
  if (fields.streamSeq !== undefined) {
    const size = writeText(bytes, at, fields.streamSeq);
    view.setUint16(seqAt, size, true);
    at += size;
  }
  if (conditionAt !== 0) {
    const size = writeText(bytes, at, fields.condition);
    view.setUint16(conditionAt, size, true);
    at += size;
  }
  if (fields.attributes !== undefined) {
    bytes.set(fields.attributes, at);
    at += fields.attributes.length;
  }
  return at;
}

/** A command in place: offsets into `bytes`, no copies. Reused; valid until the next read. */
export class Command {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(this.bytes.buffer);
  offset = 0;
  kind = 0;
  flags = 0;
  nowMs = 0;
  keyAt = 0;
  keyBytes = 0;
  contentTypeAt = 0;
  contentTypeBytes = 0;
  producerEpoch = 0;
  producerSeq = 0;
  producerIdAt = 0;
  producerIdBytes = 0;
  /** -1: none. */
  recordMatch = -1;
  ttlSeconds = -1;
  expiresAtMs = -1;
  forkToken = 0;
  seqAt = 0;
  seqBytes = 0;
  conditionAt = 0;
  /** 0: it is unconditional. */
  conditionBytes = 0;
  attributesAt = 0;
  attributesBytes = 0;
  payloadAt = 0;
  payloadBytes = 0;
  recordCount = 0;
  endsAt = 0;
  /** One past the last byte, when the payload is inside. */
  end = 0;

  /**
   * Reads the command at `offset`. The caller guarantees a well-formed frame: it comes from our own writer or a checked
   * log.
   */
  read(bytes: Uint8Array, view: DataView, offset: number): void {
    this.bytes = bytes;
    this.view = view;
    this.offset = offset;
    const kind = byteAt(bytes, offset);
    const conditional = (kind & KIND_CONDITIONAL) !== 0;
    this.kind = conditional ? kind - KIND_CONDITIONAL : kind;
    const flags = view.getUint16(offset + 2, true);
    this.flags = flags;
    this.keyBytes = view.getUint16(offset + 4, true);
    this.contentTypeBytes = view.getUint16(offset + 6, true);
    this.nowMs = view.getFloat64(offset + 8, true);
    this.payloadBytes = view.getUint32(offset + 16, true);
    this.recordCount = view.getUint32(offset + 20, true);
    let at = this.#readParts(flags, conditional, offset + FIXED_BYTES);
    this.keyAt = at;
    at += this.keyBytes;
    this.contentTypeAt = at;
    at += this.contentTypeBytes;
    this.producerIdAt = at;
    at += this.producerIdBytes;
    this.seqAt = at;
    at += this.seqBytes;
    this.conditionAt = at;
    at += this.conditionBytes;
    this.attributesAt = at;
    at += this.attributesBytes;
    this.payloadAt = at;
    at += this.payloadBytes;
    this.endsAt = at;
    this.end = at + 4 * this.recordCount;
  }

  /** The optional parts; returns where the texts begin. */
  #readParts(flags: number, conditional: boolean, partsAt: number): number {
    const view = this.view;
    let at = partsAt;
    this.producerIdBytes = 0;
    if ((flags & FLAG_PRODUCER) !== 0) {
      this.producerEpoch = view.getFloat64(at, true);
      this.producerSeq = view.getFloat64(at + 8, true);
      this.producerIdBytes = view.getUint16(at + 16, true);
      at += 18;
    }
    this.recordMatch = -1;
    if ((flags & FLAG_MATCH) !== 0) {
      this.recordMatch = view.getFloat64(at, true);
      at += 8;
    }
    this.ttlSeconds = -1;
    this.expiresAtMs = -1;
    if ((flags & FLAG_LIFETIME) !== 0) {
      this.ttlSeconds = view.getFloat64(at, true);
      this.expiresAtMs = view.getFloat64(at + 8, true);
      at += 16;
    }
    this.seqBytes = 0;
    if ((flags & FLAG_SEQ) !== 0) {
      this.seqBytes = view.getUint16(at, true);
      at += 2;
    }
    this.forkToken = 0;
    if ((flags & FLAG_FORK) !== 0) {
      this.forkToken = view.getFloat64(at, true);
      at += 8;
    }
    this.conditionBytes = 0;
    if (conditional) {
      this.conditionBytes = view.getUint16(at, true);
      at += 2;
    }
    this.attributesBytes = 0;
    if ((flags & FLAG_ATTRS) !== 0) {
      this.attributesBytes = view.getUint32(at, true);
      at += 4;
    }
    return at;
  }

  /** A view. */
  payload(): Uint8Array {
    return this.bytes.subarray(this.payloadAt, this.payloadAt + this.payloadBytes);
  }

  has(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  keyText(): string {
    return readText(this.bytes, this.keyAt, this.keyBytes);
  }

  contentType(): string {
    return readText(this.bytes, this.contentTypeAt, this.contentTypeBytes);
  }

  producerId(): string {
    return readText(this.bytes, this.producerIdAt, this.producerIdBytes);
  }

  streamSeq(): string {
    return readText(this.bytes, this.seqAt, this.seqBytes);
  }

  condition(): string {
    return readText(this.bytes, this.conditionAt, this.conditionBytes);
  }

  /** Sets the clock in place: the shard does this when it proposes, so replicas never use their own. */
  stampNow(nowMs: number): void {
    this.view.setFloat64(this.offset + 8, nowMs, true);
    this.nowMs = nowMs;
  }
}
