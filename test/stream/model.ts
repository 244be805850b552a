// The state machine once more, as dumb as can be: lists of messages, no rows, no caches, no bytes on disk. Written from
// what src/http/README.md promises, not from src/stream; the two are compared command by command.
import type { ModelCommand, Outcome } from './model-command.ts';
import {
  ModelStream,
  STATUS,
  answer,
  checkAppend,
  compare,
  decide,
  isJsonType,
  ranges,
  receipt,
  refusal,
  remember,
  repeated,
} from './model-rules.ts';

export class ModelBucket {
  exists = false;
  appendBytes = 0;
  records = 0;
  units = 0;
  retained = 0;
  streams = 0;
  quota: readonly [streams: number, retained: number] = [-1, -1];

  hasRoom(bytes: number): boolean {
    return this.quota[1] < 0 || this.retained + bytes <= this.quota[1];
  }
}

export class Model {
  readonly streams = new Map<string, ModelStream>();
  readonly buckets = new Map<string, ModelBucket>();

  live(bucket: string, stream: string, now: number): ModelStream | undefined {
    const found = this.streams.get(`${bucket}\0${stream}`);
    return found === undefined || found.expired(now) ? undefined : found;
  }

  bucket(name: string): ModelBucket {
    const known = this.buckets.get(name) ?? new ModelBucket();
    this.buckets.set(name, known);
    return known;
  }

  /** The floor rises to the message `first`. */
  retain(bucket: string, stream: ModelStream, first: number): void {
    const startOffset = first === 0 ? 0 : (stream.ends[first - 1] as number);
    this.bucket(bucket).retained -= startOffset - stream.startOffset;
    stream.startOffset = startOffset;
    stream.first = first;
  }

  run(command: ModelCommand): Outcome {
    const refusal = this.#refusedBefore(command);
    if (refusal !== undefined) return answer(refusal);
    switch (command.kind) {
      case 'create':
        return this.#create(command);
      case 'append':
        return this.#append(command);
      case 'batch':
        return this.#batch(command);
      case 'delete':
        return this.#delete(command);
      case 'attributes': {
        const stream = this.live(command.bucket, command.stream, command.now);
        if (stream === undefined) return answer('STREAM_NOT_FOUND');
        stream.attributes = command.attributes ?? '{}';
        return answer('OK');
      }
      case 'touch': {
        const stream = this.live(command.bucket, command.stream, command.now);
        if (stream !== undefined && stream.ttl >= 0) stream.touched = Math.max(stream.touched, command.now);
        return answer('OK');
      }
      case 'expire':
        for (const [key, stream] of this.streams) if (stream.expired(command.now)) this.#remove(key);
        return answer('OK');
      case 'quota':
        this.bucket(command.bucket).quota = command.quota ?? [-1, -1];
        return answer('OK');
      case 'purge': {
        const front = `${command.bucket}\0`;
        const keys = [...this.streams.keys()].filter((key) => key.startsWith(front));
        for (const key of keys) this.#remove(key);
        const bucket = this.bucket(command.bucket);
        bucket.exists = false;
        bucket.quota = [-1, -1];
        return { ...answer('OK'), body: String(keys.length) };
      }
      case 'delete-bucket': {
        const bucket = this.buckets.get(command.bucket);
        if (bucket === undefined || !bucket.exists) return answer('BUCKET_NOT_FOUND');
        if (bucket.streams > 0) return answer('BUCKET_NOT_EMPTY');
        bucket.exists = false;
        return answer('OK');
      }
    }
  }

  /** The body is checked before the state. */
  #refusedBefore(command: ModelCommand): string | undefined {
    if (command.body.length === 0 || !isJsonType(command.type)) return undefined;
    for (const { body, records } of command.frames ?? []) {
      if (body.length > 0 && records === undefined) return 'INVALID_JSON';
      if (body.length > 0 && records?.length === 0) return 'EMPTY_JSON_ARRAY';
    }
    if (command.kind !== 'create' && command.kind !== 'append') return undefined;
    if (command.records === undefined) return 'INVALID_JSON';
    return command.records.length === 0 && command.kind === 'append' ? 'EMPTY_JSON_ARRAY' : undefined;
  }

  #create(command: ModelCommand): Outcome {
    const key = `${command.bucket}\0${command.stream}`;
    const existing = this.live(command.bucket, command.stream, command.now);
    const { producer } = command;
    if (producer !== undefined && producer.seq !== 0) {
      return { ...refusal('PRODUCER_SEQ_CONFLICT', existing), producer: `${producer.epoch}/0/${producer.seq}` };
    }
    const echo = producer === undefined ? '' : `${producer.epoch}/0/0`;
    if (existing !== undefined) {
      const code = compare(existing, command);
      if (code !== 'OK') return { ...refusal(code, existing), producer: echo };
      const { records, flags } = refusal('OK', existing);
      return { ...answer('OK', existing.tail), flags, records, producer: echo, type: existing.shownType };
    }
    this.#remove(key);
    const { quota, streams } = this.bucket(command.bucket);
    if ((quota[0] >= 0 && streams >= quota[0]) || !this.bucket(command.bucket).hasRoom(storedBytes(command))) {
      return { ...answer('QUOTA_EXCEEDED'), producer: echo };
    }
    const stream = new ModelStream();
    this.streams.set(key, stream);
    stream.type = command.type === '' && command.body.length > 0 ? 'application/octet-stream' : command.type;
    stream.closed = command.close;
    stream.ttl = command.ttl;
    stream.expires = command.expires;
    stream.lastSeq = command.seq;
    stream.attributes = command.attributes ?? '{}';
    stream.created = stream.touched = stream.written = command.now;
    const bucket = this.bucket(command.bucket);
    bucket.exists = true;
    bucket.streams++;
    this.#store(stream, command);
    if (producer !== undefined) {
      stream.producers.set(producer.id, { epoch: producer.epoch, seq: 0, receipts: [receipt(0, stream, 0)] });
    }
    const shown = refusal('OK', stream);
    return {
      ...shown,
      flags: [...shown.flags, 'created'].sort(),
      records: stream.json ? `0/0/${stream.messages.length}` : '',
      producer: echo,
      type: stream.shownType,
    };
  }

  #append(command: ModelCommand): Outcome {
    const stream = this.live(command.bucket, command.stream, command.now);
    if (stream === undefined) return answer('STREAM_NOT_FOUND');
    const { producer } = command;
    let echo = '';
    if (producer !== undefined) {
      const decided = decide(stream, producer);
      if (decided !== undefined) return decided;
      echo = `${producer.epoch}/${producer.seq}/0`;
    }
    const accepted = checkAppend(stream, command);
    const code = accepted === 'OK' && !this.#hasRoom(command) ? 'QUOTA_EXCEEDED' : accepted;
    if (code !== 'OK') return { ...refusal(code, stream), producer: echo };
    if (command.body.length > 0 && stream.type === '') {
      stream.type = command.type;
      stream.typeFromAppend = true;
    }
    const start = stream.tail;
    const first = stream.messages.length;
    this.#store(stream, command);
    if (command.close) stream.closed = true;
    if (command.seq !== undefined) stream.lastSeq = command.seq;
    stream.touched = Math.max(stream.touched, command.now);
    stream.written = command.now;
    if (producer !== undefined) {
      remember(stream, producer, first);
    }
    return {
      ...answer('OK', stream.tail),
      start,
      flags: command.close ? ['closed'] : [],
      records: stream.json ? `${stream.first}/${first}/${stream.messages.length}` : '',
      producer: echo,
    };
  }

  /** Appends that know nothing of each other, or one sequence of a producer. */
  #batch(command: ModelCommand): Outcome {
    const stream = this.live(command.bucket, command.stream, command.now);
    if (stream === undefined) return answer('STREAM_NOT_FOUND');
    const { producer } = command;
    const frames = command.frames ?? [];
    if (producer !== undefined) {
      const decided = decide(stream, producer);
      if (decided !== undefined)
        return decided.code === 'OK' ? { ...decided, body: repeated(decided, command) } : decided;
    }
    const echo = producer === undefined ? '' : `${producer.epoch}/${producer.seq}/0`;
    const code = checkAppend(stream, command);
    if (producer !== undefined) {
      const total = frames.reduce((sum, frame) => sum + storedBytes({ ...command, ...frame }), 0);
      const isOver = total > 0 && !this.bucket(command.bucket).hasRoom(total);
      const hasEmpty = frames.some(({ body }) => body.length === 0);
      const refused = code !== 'OK' ? code : hasEmpty ? 'EMPTY_BODY' : isOver ? 'QUOTA_EXCEEDED' : 'OK';
      if (refused !== 'OK') return { ...refusal(refused, stream), producer: echo };
    } else if (code === 'EXPECTED_OFFSET_CONFLICT') return refusal(code, stream);
    const start = stream.tail;
    const first = stream.messages.length;
    let ofFirst: number | undefined;
    const results = frames.map((frame, i) => {
      const isOver = producer === undefined && code === 'OK' && !this.#hasRoom({ ...command, ...frame });
      const refused = ofFirst ?? (frame.body.length === 0 ? 400 : isOver ? 429 : STATUS[code]);
      if (i === 0 && command.expected >= 0) ofFirst = refused;
      if (refused !== undefined) return { status: refused };
      if (stream.type === '') {
        stream.type = command.type;
        stream.typeFromAppend = true;
      }
      const from = stream.messages.length;
      this.#push(stream, command.type, frame);
      if (producer === undefined) this.#meter(command.bucket, stream, stream.messages.length - from);
      return { status: 204, ...(stream.json ? ranges(from, stream.messages.length) : {}) };
    });
    if (stream.tail > start) {
      stream.touched = Math.max(stream.touched, command.now);
      stream.written = command.now;
    }
    if (producer !== undefined) {
      this.#meter(command.bucket, stream, stream.messages.length - first);
      remember(stream, producer, first);
    }
    return {
      ...answer('OK', stream.tail),
      start,
      records: stream.json ? `${stream.first}/${first}/${stream.messages.length}` : '',
      producer: echo,
      body: JSON.stringify(results),
    };
  }

  #hasRoom(command: ModelCommand): boolean {
    const bytes = storedBytes(command);
    return bytes === 0 || this.bucket(command.bucket).hasRoom(bytes);
  }

  #push(stream: ModelStream, type: string, { body, records }: Pick<ModelCommand, 'body' | 'records'>): void {
    if (body.length === 0) return;
    if (isJsonType(type)) for (const text of records ?? []) stream.push(Buffer.from(`${text}\n`));
    else stream.push(body);
  }

  /** Messages into the stream and onto the meter. */
  #store(stream: ModelStream, command: ModelCommand): void {
    const before = stream.messages.length;
    this.#push(stream, command.type, command);
    this.#meter(command.bucket, stream, stream.messages.length - before);
  }

  /** Usage, for the last `count` messages as one operation. */
  #meter(name: string, stream: ModelStream, count: number): void {
    const from = stream.ends[stream.ends.length - count - 1] ?? 0;
    const bytes = count === 0 ? 0 : stream.tail - from;
    const bucket = this.bucket(name);
    bucket.appendBytes += bytes;
    bucket.retained += bytes;
    bucket.records += count;
    bucket.units += Math.max(1, Math.ceil(bytes / 10_240));
  }

  #delete(command: ModelCommand): Outcome {
    const live = this.live(command.bucket, command.stream, command.now);
    this.#remove(`${command.bucket}\0${command.stream}`);
    return answer(live === undefined ? 'STREAM_NOT_FOUND' : 'OK');
  }

  #remove(key: string): void {
    const stream = this.streams.get(key);
    if (stream === undefined) return;
    const bucket = this.bucket(key.slice(0, key.indexOf('\0')));
    bucket.streams--;
    bucket.retained -= stream.tail - stream.startOffset;
    this.streams.delete(key);
  }
}

/** Bytes that the body becomes in the stream. */
function storedBytes({ type, body, records }: ModelCommand): number {
  if (body.length === 0 || !isJsonType(type)) return body.length;
  return (records ?? []).reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0);
}
