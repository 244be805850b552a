// A stream of the model, and the rules by which a command is accepted, refused or recognised: pure questions, no
// changes.
import type { ModelCommand, ModelProducer, Outcome } from './model-command.ts';

export interface Receipt {
  readonly seq: number;
  readonly next: number;
  readonly records: readonly [number, number];
  readonly closed: boolean;
}

export interface Producer {
  epoch: number;
  seq: number;
  receipts: Receipt[];
}

export class ModelStream {
  type = '';
  typeFromAppend = false;
  closed = false;
  ttl = -1;
  expires = -1;
  lastSeq: string | undefined;
  attributes = '{}';
  touched = 0;
  created = 0;
  written = 0;
  tail = 0;
  /** Retention startOffset: offset and ordinal; and the ordinal of what the published snapshot covers. */
  startOffset = 0;
  first = 0;
  snapshot = 0;
  readonly messages: Uint8Array[] = [];
  readonly ends: number[] = [];
  readonly producers = new Map<string, Producer>();
  /** The number that the real state gave it, once seen. */
  incarnation = 0;
  #whole: Buffer | undefined;

  get json(): boolean {
    return this.type.split(';')[0] === 'application/json';
  }

  get shownType(): string {
    return this.type === '' ? 'application/octet-stream' : this.type;
  }

  expired(now: number): boolean {
    if (this.expires >= 0) return now >= this.expires;
    return this.ttl >= 0 && now >= this.touched + this.ttl * 1000;
  }

  push(message: Uint8Array): void {
    this.messages.push(message);
    this.tail += message.length;
    this.ends.push(this.tail);
    this.#whole = undefined;
  }

  bytes(from: number, to: number): Buffer {
    this.#whole ??= Buffer.concat(this.messages);
    return this.#whole.subarray(from, to);
  }
}

/** Media types ignore case; parameters count, except the charset of JSON. */
export function sameType(a: string, b: string): boolean {
  const key = (type: string): string => {
    const [media, ...parameters] = type.toLowerCase().split(/ *; */);
    return [media, ...parameters.filter((p) => media !== 'application/json' || !p.startsWith('charset='))].join(';');
  };
  return key(a) === key(b);
}

export function isJsonType(type: string): boolean {
  return type.split(';')[0] === 'application/json';
}

export function answer(code: string, next = 0): Outcome {
  return { code, next, start: 0, flags: [], records: '', producer: '', type: '' };
}

/** A refusal with the stream's position. */
export function refusal(code: string, stream: ModelStream | undefined): Outcome {
  if (stream === undefined) return answer(code);
  const count = stream.messages.length;
  return {
    ...answer(code, stream.tail),
    flags: stream.closed ? ['closed'] : [],
    records: stream.json ? `${stream.first}/${count}/${count}` : '',
  };
}

/** Statuses of refused frames. */
export const STATUS: Readonly<Record<string, number>> = { STREAM_CLOSED: 409, CONTENT_TYPE_MISMATCH: 400 };

export function ranges(start: number, next: number): object {
  return { stream_record_start: start, stream_record_next: next };
}

/** Results of a producer's repeated batch: with ranges when the request divides what the receipt has. */
export function repeated(decided: Outcome, command: ModelCommand): string {
  const counts = (command.frames ?? []).map(({ body, records }) => (body.length === 0 ? 0 : (records?.length ?? 0)));
  const [, from, to] = decided.records.split('/').map(Number);
  const total = isJsonType(command.type) ? counts.reduce((sum, count) => sum + count, 0) : 0;
  const fits = total > 0 && total === (to ?? 0) - (from ?? 0);
  let at = from ?? 0;
  return JSON.stringify(counts.map((count) => ({ status: 204, ...(fits ? ranges(at, (at += count)) : {}) })));
}

export function remember(stream: ModelStream, { id, epoch, seq }: ModelProducer, first: number): void {
  const known = stream.producers.get(id);
  const receipts = known !== undefined && known.epoch === epoch ? known.receipts : [];
  receipts.push(receipt(seq, stream, first));
  stream.producers.set(id, { epoch, seq, receipts });
}

export function receipt(seq: number, stream: ModelStream, first: number): Receipt {
  return { seq, next: stream.tail, records: [first, stream.messages.length], closed: stream.closed };
}

export function compare(stream: ModelStream, command: ModelCommand): string {
  // Without a type the request describes a stream that was made without one, or an octet-stream.
  const type =
    command.type === ''
      ? stream.typeFromAppend || stream.shownType === 'application/octet-stream'
      : sameType(command.type, stream.shownType);
  const same =
    type &&
    command.close === stream.closed &&
    command.ttl === stream.ttl &&
    command.expires === stream.expires &&
    (command.attributes ?? '{}') === stream.attributes;
  if (!same) return 'CREATE_CONFLICT';
  const behind = command.seq !== undefined && stream.lastSeq !== undefined && command.seq <= stream.lastSeq;
  return behind ? 'SEQ_CONFLICT' : 'OK';
}

/** The rules of producers, with a window of receipts. Undefined = accepted. */
export function decide(stream: ModelStream, { id, epoch, seq }: ModelProducer): Outcome | undefined {
  const known = stream.producers.get(id);
  // On a closed stream only duplicates are something else (protocol 5.2.1).
  const refuse = (code: string, producer: string): Outcome =>
    stream.closed
      ? { ...refusal('STREAM_CLOSED', stream), producer: `${epoch}/${seq}/0` }
      : { ...refusal(code, stream), producer };
  if (known === undefined || epoch > known.epoch) {
    if (seq === 0) return undefined;
    if (known !== undefined) return refuse('PRODUCER_EPOCH_START', `${epoch}/${seq}/0`);
    return refuse('PRODUCER_SEQ_CONFLICT', `${epoch}/0/${seq}`);
  }
  if (epoch < known.epoch) return refuse('PRODUCER_EPOCH_STALE', `${known.epoch}/${seq}/0`);
  if (seq === known.seq + 1) return undefined;
  if (seq > known.seq) return refuse('PRODUCER_SEQ_CONFLICT', `${epoch}/${known.seq + 1}/${seq}`);
  const count = stream.messages.length;
  const found = known.receipts.slice(-5).find((one) => one.seq === seq) ?? {
    next: stream.tail,
    records: [count, count],
    closed: stream.closed,
  };
  return {
    ...answer('OK', found.next),
    flags: found.closed ? ['closed', 'duplicate'] : ['duplicate'],
    records: stream.json ? `${stream.first}/${found.records.join('/')}` : '',
    producer: `${epoch}/${known.seq}/0`,
  };
}

/** The checks of an append behind its producer, in order of precedence. */
export function checkAppend(stream: ModelStream, command: ModelCommand): string {
  const hasBody = command.body.length > 0;
  if (command.match >= 0) {
    if (!isJsonType(stream.type === '' ? command.type : stream.type)) return 'RECORD_MATCH_WITHOUT_RECORDS';
    if (command.match !== stream.messages.length) return 'RECORD_PRECONDITION_FAILED';
  }
  if (stream.closed) return 'STREAM_CLOSED';
  if (hasBody && stream.type !== '' && !sameType(command.type, stream.type)) return 'CONTENT_TYPE_MISMATCH';
  if (command.expected >= 0 && command.expected !== stream.tail) return 'EXPECTED_OFFSET_CONFLICT';
  const behind = command.seq !== undefined && stream.lastSeq !== undefined && command.seq <= stream.lastSeq;
  return behind ? 'SEQ_CONFLICT' : 'OK';
}
