/**
 * A replicated command: what the log holds, one after the other inside an entry, and what the state machine applies.
 * The main thread writes it straight into the mailbox; the shard adds the clock and, for JSON, the normalised payload.
 *
 * A COMMAND is followed by the optional parts that its flags and its kind announce, in the order of
 * command-layout.ts, then by key (bucket, NUL, stream; the bucket alone for bucket-wide commands), content type,
 * producer id, seq, condition, attributes, payload, record ends (u32 each, relative to the payload).
 */
import {
  ATTRIBUTES_PART,
  COMMAND,
  CONDITION_PART,
  EXPECTED_PART,
  FLAG_ATTRS,
  FLAG_CLOSE,
  FLAG_FORK,
  FLAG_LIFETIME,
  FLAG_MATCH,
  FLAG_PRODUCER,
  FLAG_SEQ,
  FORK_PART,
  KIND_CONDITIONAL,
  KIND_EXPECTING,
  KIND_MASK,
  LIFETIME_PART,
  MATCH_PART,
  PRODUCER_PART,
  SEQ_PART,
  stampCommand,
} from './command-layout.ts';
import { type CommandFields, newCommandFields } from './command-fields.ts';
import { readText, writeText } from '../base/text.ts';

export * from './command-layout.ts';
export * from './command-fields.ts';

const HEAD = COMMAND.fields;

/** Upper bound in bytes of the encoding, cheap enough for the hot path. */
export function commandBytesMax(fields: CommandFields): number {
  const text =
    fields.bucket.length +
    fields.stream.length +
    fields.contentType.length +
    fields.condition.length +
    (fields.streamSeq?.length ?? 0) +
    fields.producerId.length;
  return COMMAND.size + 72 + 3 * text + (fields.attributes?.length ?? 0) + (fields.payload?.length ?? 0);
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
  let at = offset + COMMAND.size;
  // Where the parts with a text begin; 0 = absent (offset 0 holds the fixed part).
  let producerIdAt = 0;
  let seqAt = 0;
  if (fields.close) flags |= FLAG_CLOSE;
  if (fields.producerId !== '') {
    flags |= FLAG_PRODUCER;
    PRODUCER_PART.fields.epoch.set(view, at, fields.producerEpoch);
    PRODUCER_PART.fields.seq.set(view, at, fields.producerSeq);
    producerIdAt = at;
    at += PRODUCER_PART.size;
  }
  if (fields.recordMatch >= 0) {
    flags |= FLAG_MATCH;
    MATCH_PART.fields.recordTail.set(view, at, fields.recordMatch);
    at += MATCH_PART.size;
  }
  if (fields.ttlSeconds >= 0 || fields.expiresAtMs >= 0) {
    flags |= FLAG_LIFETIME;
    LIFETIME_PART.fields.ttlSeconds.set(view, at, fields.ttlSeconds);
    LIFETIME_PART.fields.expiresAtMs.set(view, at, fields.expiresAtMs);
    at += LIFETIME_PART.size;
  }
  if (fields.streamSeq !== undefined) {
    flags |= FLAG_SEQ;
    seqAt = at;
    at += SEQ_PART.size;
  }
  if (fields.forkToken !== 0) {
    flags |= FLAG_FORK;
    FORK_PART.fields.token.set(view, at, fields.forkToken);
    at += FORK_PART.size;
  }
  at = writeExpected(fields, view, at);
  let conditionAt = 0;
  if (fields.condition !== '') {
    conditionAt = at;
    at += CONDITION_PART.size;
  }
  if (fields.attributes !== undefined) {
    flags |= FLAG_ATTRS;
    ATTRIBUTES_PART.fields.attributesBytes.set(view, at, fields.attributes.length);
    at += ATTRIBUTES_PART.size;
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
  HEAD.kind.set(view, offset, kindOf(fields));
  HEAD.zero.set(view, offset, 0);
  HEAD.flags.set(view, offset, flags);
  HEAD.nowMs.set(view, offset, fields.nowMs);
  HEAD.payloadBytes.set(view, offset, payload?.length ?? 0);
  HEAD.recordCount.set(view, offset, 0);
  return at - offset;
}

function kindOf({ kind, condition, expectedOffset }: CommandFields): number {
  return kind + (condition === '' ? 0 : KIND_CONDITIONAL) + (expectedOffset < 0 ? 0 : KIND_EXPECTING);
}

/** Returns where the next part begins. */
function writeExpected({ expectedOffset }: CommandFields, view: DataView, at: number): number {
  if (expectedOffset < 0) return at;
  EXPECTED_PART.fields.tail.set(view, at, expectedOffset);
  return at + EXPECTED_PART.size;
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
  HEAD.keyBytes.set(view, at, key.length);
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
  HEAD.keyBytes.set(view, offset, at - keyAt);
  const contentTypeBytes = writeText(bytes, at, fields.contentType);
  HEAD.contentTypeBytes.set(view, offset, contentTypeBytes);
  at += contentTypeBytes;
  if (producerIdAt !== 0) {
    const size = writeText(bytes, at, fields.producerId);
    PRODUCER_PART.fields.idBytes.set(view, producerIdAt, size);
    at += size;
  }
  if (fields.streamSeq !== undefined) {
    const size = writeText(bytes, at, fields.streamSeq);
    SEQ_PART.fields.seqBytes.set(view, seqAt, size);
    at += size;
  }
  if (conditionAt !== 0) {
    const size = writeText(bytes, at, fields.condition);
    CONDITION_PART.fields.conditionBytes.set(view, conditionAt, size);
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
  /** -1: any. */
  expectedOffset = -1;
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
  /** The payload when it came outside the frame. */
  transferred: Uint8Array | undefined = undefined;

  /** Reads the command at `offset`. The caller guarantees a well-formed frame: of our own writer or a checked log. */
  read(bytes: Uint8Array, view: DataView, offset: number, transferred?: Uint8Array): void {
    this.bytes = bytes;
    this.view = view;
    this.transferred = transferred;
    this.offset = offset;
    const kind = HEAD.kind.get(view, offset);
    this.kind = kind & KIND_MASK;
    const flags = HEAD.flags.get(view, offset);
    this.flags = flags;
    this.keyBytes = HEAD.keyBytes.get(view, offset);
    this.contentTypeBytes = HEAD.contentTypeBytes.get(view, offset);
    this.nowMs = HEAD.nowMs.get(view, offset);
    this.payloadBytes = HEAD.payloadBytes.get(view, offset);
    this.recordCount = HEAD.recordCount.get(view, offset);
    let at = this.#readParts(flags, kind, offset + COMMAND.size);
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
  #readParts(flags: number, kind: number, partsAt: number): number {
    const view = this.view;
    let at = partsAt;
    this.producerIdBytes = 0;
    if ((flags & FLAG_PRODUCER) !== 0) {
      this.producerEpoch = PRODUCER_PART.fields.epoch.get(view, at);
      this.producerSeq = PRODUCER_PART.fields.seq.get(view, at);
      this.producerIdBytes = PRODUCER_PART.fields.idBytes.get(view, at);
      at += PRODUCER_PART.size;
    }
    this.recordMatch = -1;
    if ((flags & FLAG_MATCH) !== 0) {
      this.recordMatch = MATCH_PART.fields.recordTail.get(view, at);
      at += MATCH_PART.size;
    }
    this.ttlSeconds = -1;
    this.expiresAtMs = -1;
    if ((flags & FLAG_LIFETIME) !== 0) {
      this.ttlSeconds = LIFETIME_PART.fields.ttlSeconds.get(view, at);
      this.expiresAtMs = LIFETIME_PART.fields.expiresAtMs.get(view, at);
      at += LIFETIME_PART.size;
    }
    this.seqBytes = 0;
    if ((flags & FLAG_SEQ) !== 0) {
      this.seqBytes = SEQ_PART.fields.seqBytes.get(view, at);
      at += SEQ_PART.size;
    }
    this.forkToken = 0;
    if ((flags & FLAG_FORK) !== 0) {
      this.forkToken = FORK_PART.fields.token.get(view, at);
      at += FORK_PART.size;
    }
    this.expectedOffset = -1;
    if ((kind & KIND_EXPECTING) !== 0) {
      this.expectedOffset = EXPECTED_PART.fields.tail.get(view, at);
      at += EXPECTED_PART.size;
    }
    this.conditionBytes = 0;
    if ((kind & KIND_CONDITIONAL) !== 0) {
      this.conditionBytes = CONDITION_PART.fields.conditionBytes.get(view, at);
      at += CONDITION_PART.size;
    }
    this.attributesBytes = 0;
    if ((flags & FLAG_ATTRS) !== 0) {
      this.attributesBytes = ATTRIBUTES_PART.fields.attributesBytes.get(view, at);
      at += ATTRIBUTES_PART.size;
    }
    return at;
  }

  /** A view. */
  payload(): Uint8Array {
    return this.transferred ?? this.bytes.subarray(this.payloadAt, this.payloadAt + this.payloadBytes);
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
    stampCommand(this.view, this.offset, nowMs);
    this.nowMs = nowMs;
  }
}
