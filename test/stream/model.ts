// The state machine once more, as dumb as can be: lists of messages, no rows, no caches, no bytes on disk. Written from
// service.md, decisions.md and wire-facts.md, not from src/stream; the two are compared command by command.

export interface ModelProducer {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
}

export interface ModelCommand {
  readonly kind: 'create' | 'append' | 'delete' | 'attributes' | 'touch' | 'sweep' | 'delete-bucket';
  readonly now: number;
  readonly bucket: string;
  readonly stream: string;
  readonly close: boolean;
  readonly type: string;
  readonly seq: string | undefined;
  readonly producer: ModelProducer | undefined;
  /** -1 = none, as for the lifetimes. */
  readonly match: number;
  readonly ttl: number;
  readonly expires: number;
  /** As it should be stored; undefined = not sent. '{}' = none. */
  readonly attributes: string | undefined;
  readonly body: Uint8Array;
  /** What a JSON body means: its records, or undefined when it is not valid JSON. Ignored for other types. */
  readonly records: readonly string[] | undefined;
}

/** An answer in one line, so that two of them can be compared and read. */
export interface Outcome {
  code: string;
  next: number;
  start: number;
  flags: string[];
  records: string;
  producer: string;
  type: string;
}

export function outcomeText(outcome: Outcome): string {
  const { code, next, start, flags, records, producer, type } = outcome;
  return `${code} start=${start} next=${next} [${flags.join(' ')}] records=${records} producer=${producer} type=${type}`;
}

interface Receipt {
  readonly seq: number;
  readonly next: number;
  readonly records: readonly [number, number];
  readonly closed: boolean;
}

interface Producer {
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
  readonly messages: Uint8Array[] = [];
  readonly ends: number[] = [];
  readonly producers = new Map<string, Producer>();
  /** What the real state calls it, once seen. */
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

export class ModelBucket {
  exists = false;
  appendBytes = 0;
  records = 0;
  units = 0;
  retained = 0;
  streams = 0;
}

/** Media types without case; parameters count, but for the charset of JSON (decisions.md "Streams"). */
export function sameType(a: string, b: string): boolean {
  const key = (type: string): string => {
    const [media, ...parameters] = type.toLowerCase().split(/ *; */);
    return [media, ...parameters.filter((p) => media !== 'application/json' || !p.startsWith('charset='))].join(';');
  };
  return key(a) === key(b);
}

function isJsonType(type: string): boolean {
  return type.split(';')[0] === 'application/json';
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

  run(command: ModelCommand): Outcome {
    const refusal = this.#refusedBefore(command);
    if (refusal !== undefined) return answer(refusal);
    switch (command.kind) {
      case 'create':
        return this.#create(command);
      case 'append':
        return this.#append(command);
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
      case 'sweep':
        for (const [key, stream] of this.streams) if (stream.expired(command.now)) this.#remove(key);
        return answer('OK');
      case 'delete-bucket': {
        const bucket = this.buckets.get(command.bucket);
        if (bucket === undefined || !bucket.exists) return answer('BUCKET_NOT_FOUND');
        if (bucket.streams > 0) return answer('BUCKET_NOT_EMPTY');
        bucket.exists = false;
        return answer('OK');
      }
    }
  }

  /** What the body says about itself is checked before the state is looked at. */
  #refusedBefore(command: ModelCommand): string | undefined {
    if (command.body.length === 0 || !isJsonType(command.type)) return undefined;
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
    const code = checkAppend(stream, command);
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
      const known = stream.producers.get(producer.id);
      const receipts = known !== undefined && known.epoch === producer.epoch ? known.receipts : [];
      receipts.push(receipt(producer.seq, stream, first));
      stream.producers.set(producer.id, { epoch: producer.epoch, seq: producer.seq, receipts });
    }
    return {
      ...answer('OK', stream.tail),
      start,
      flags: command.close ? ['closed'] : [],
      records: stream.json ? `0/${first}/${stream.messages.length}` : '',
      producer: echo,
    };
  }

  /** Messages into the stream and onto the meter (service.md "Usage rules"). */
  #store(stream: ModelStream, command: ModelCommand): void {
    const before = stream.messages.length;
    const from = stream.tail;
    if (command.body.length > 0) {
      if (isJsonType(command.type)) for (const text of command.records ?? []) stream.push(Buffer.from(`${text}\n`));
      else stream.push(command.body);
    }
    const bytes = stream.tail - from;
    const bucket = this.bucket(command.bucket);
    bucket.appendBytes += bytes;
    bucket.retained += bytes;
    bucket.records += stream.messages.length - before;
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
    bucket.retained -= stream.tail;
    this.streams.delete(key);
  }
}

function answer(code: string, next = 0): Outcome {
  return { code, next, start: 0, flags: [], records: '', producer: '', type: '' };
}

/** A refusal that says where the stream stands. */
function refusal(code: string, stream: ModelStream | undefined): Outcome {
  if (stream === undefined) return answer(code);
  const count = stream.messages.length;
  return {
    ...answer(code, stream.tail),
    flags: stream.closed ? ['closed'] : [],
    records: stream.json ? `0/${count}/${count}` : '',
  };
}

function receipt(seq: number, stream: ModelStream, first: number): Receipt {
  return { seq, next: stream.tail, records: [first, stream.messages.length], closed: stream.closed };
}

function compare(stream: ModelStream, command: ModelCommand): string {
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
  return behind ? 'STREAM_SEQ_CONFLICT' : 'OK';
}

/** Wire-facts 2.8, with the window of decisions.md. Undefined = accepted. */
function decide(stream: ModelStream, { id, epoch, seq }: ModelProducer): Outcome | undefined {
  const known = stream.producers.get(id);
  if (known === undefined || epoch > known.epoch) {
    if (seq === 0) return undefined;
    if (known !== undefined) return { ...refusal('PRODUCER_EPOCH_START', stream), producer: `${epoch}/${seq}/0` };
    return { ...refusal('PRODUCER_SEQ_CONFLICT', stream), producer: `${epoch}/0/${seq}` };
  }
  if (epoch < known.epoch) {
    return { ...refusal('PRODUCER_EPOCH_STALE', stream), producer: `${known.epoch}/${seq}/0` };
  }
  if (seq === known.seq + 1) return undefined;
  if (seq > known.seq) {
    return { ...refusal('PRODUCER_SEQ_CONFLICT', stream), producer: `${epoch}/${known.seq + 1}/${seq}` };
  }
  const count = stream.messages.length;
  const found = known.receipts.slice(-5).find((one) => one.seq === seq) ?? {
    next: stream.tail,
    records: [count, count],
    closed: stream.closed,
  };
  return {
    ...answer('OK', found.next),
    flags: found.closed ? ['closed', 'duplicate'] : ['duplicate'],
    records: stream.json ? `0/${found.records.join('/')}` : '',
    producer: `${epoch}/${known.seq}/0`,
  };
}

/** Wire-facts 2.6, checks 6 to 11. */
function checkAppend(stream: ModelStream, command: ModelCommand): string {
  const hasBody = command.body.length > 0;
  if (command.match >= 0) {
    if (!isJsonType(stream.type === '' ? command.type : stream.type)) return 'RECORD_MATCH_WITHOUT_RECORDS';
    if (command.match !== stream.messages.length) return 'RECORD_PRECONDITION_FAILED';
  }
  if (stream.closed) return 'STREAM_CLOSED';
  if (hasBody && stream.type !== '' && !sameType(command.type, stream.type)) return 'CONTENT_TYPE_MISMATCH';
  const behind = command.seq !== undefined && stream.lastSeq !== undefined && command.seq <= stream.lastSeq;
  return behind ? 'STREAM_SEQ_CONFLICT' : 'OK';
}
