/** Streams that are made, written and removed. */
import { BODY_BYTES_MAX } from '../../base/limits.ts';
import { CLIENT_FLAGS, type Verb, openStreams, textFlag } from '../context.ts';
import { Failure, UsageError } from '../../nodes/failure.ts';
import { wholeOf } from '../../nodes/http-client.ts';
import { OUTPUT, wantsJson } from '../output.ts';
import { formatBytes } from '../../nodes/findings.ts';
import { type RecordBody, recordBodies } from '../streams/records.ts';
import { confirm, linesOf, piecesOf } from '../streams/pipes.ts';
import { type StreamFacts, factsIn, factsOf, isJsonType, numberIn } from '../streams/reading.ts';
import { type StreamClient, expectStatus } from '../streams/stream-client.ts';
import { type NamedStream, parseStreamName } from '../streams/stream-name.ts';
import { STREAM } from './stream-read.ts';

const TYPE = textFlag('TYPE', 'content type of a stream that is made');
/** A century and more: the tool takes any lifetime that is meant. */
const TTL_SECONDS_MAX = 2 ** 32 - 1;
const DEFAULT_TYPE = 'application/octet-stream';

export const streamCreate: Verb = {
  name: 'stream create',
  about: 'make a stream; one that is there with the same configuration stays as it is',
  words: ['stream'],
  examples: ['millracectl stream create demo/events --content-type application/json --ttl-secs 1h'],
  flags: {
    stream: STREAM,
    'content-type': TYPE,
    'ttl-secs': { kind: 'seconds', about: 'it expires so long after the last read or write', max: TTL_SECONDS_MAX },
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say } = context;
    const name = parseStreamName(values.required('stream'));
    const ttl = values.has('ttl-secs') ? values.ms('ttl-secs') / 1000 : undefined;
    if (ttl !== undefined && !Number.isInteger(ttl)) throw new UsageError('--ttl-secs: expected whole seconds');
    const made = await create(await openStreams(context), name, values.text('content-type') ?? DEFAULT_TYPE, ttl);
    say(`${name.text}: ${made ? 'created' : 'there already'}`);
  },
};

async function create(client: StreamClient, { path, text }: NamedStream, type: string, ttl?: number): Promise<boolean> {
  const headers = { 'content-type': type, ...(ttl === undefined ? {} : { 'stream-ttl': String(ttl) }) };
  const answer = await client.call({ method: 'PUT', path, headers, mayRepeat: true });
  return expectStatus(answer, text, 200, 201).status === 201;
}

export const streamAppend: Verb = {
  name: 'stream append',
  about: 'append an argument, a file or stdin',
  words: ['stream', 'data'],
  examples: [
    "millracectl stream append demo/log 'one more line'",
    'millracectl stream append demo/events --json-lines --file events.jsonl',
    'millracectl stream append demo/log --create --content-type text/plain --file today.log',
  ],
  flags: {
    stream: STREAM,
    data: textFlag('TEXT', 'what to append; without it a file or stdin'),
    file: textFlag('FILE', 'a file in place of stdin'),
    'json-lines': { kind: 'switch', about: 'each line is a record' },
    create: { kind: 'switch', about: 'make the stream if it is not there' },
    'content-type': TYPE,
    close: { kind: 'switch', about: 'close the stream behind it' },
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say, progress } = context;
    const file = values.text('file');
    const data = values.text('data');
    if (data !== undefined && file !== undefined)
      throw new UsageError('stream append: give an argument or --file, not both');
    if (values.text('config') === '-') throw new UsageError('stream append: stdin is for data, not for a cluster file');
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    const isJsonLines = values.isSet('json-lines');
    const type = values.text('content-type') ?? (isJsonLines ? 'application/json' : DEFAULT_TYPE);
    if (values.isSet('create')) await create(client, name, type);
    const facts = await factsOf(client, name);
    const pieces = data === undefined ? piecesOf(file ?? '-', context) : [Buffer.from(data)];
    const writer = new Writer(client, name, facts);
    let mayBeRecords = values.isSet('create') && type === DEFAULT_TYPE;
    try {
      for await (const { bytes, count } of bodiesOf(pieces, name, facts, isJsonLines)) {
        if (mayBeRecords && beginsWithRecords(bytes))
          progress.note(
            `${name.text} keeps these lines of JSON as bytes; --content-type application/json makes them records`,
          );
        mayBeRecords = false;
        await writer.append(bytes, count);
      }
      if (values.isSet('close')) await writer.close();
    } catch (error) {
      if (!(error instanceof Failure) || writer.bytes === 0) throw error;
      throw new Failure(`${error.message} (${writer.done} appended before)`, error.exitCode, { cause: error });
    }
    const { next, bytes } = writer;
    if (wantsJson(values)) say(JSON.stringify({ stream: name.raw, bytes, next_offset: next }));
    else say(`${name.text}: ${writer.done} appended, next offset ${next}`);
  },
};

/** The count of records is 0 where it is not known. */
async function* bodiesOf(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  { text }: NamedStream,
  { contentType }: StreamFacts,
  isJsonLines: boolean,
): AsyncGenerator<RecordBody, void> {
  const isJson = isJsonType(contentType);
  if (isJsonLines && !isJson)
    throw new UsageError(`${text} is a stream of ${contentType}; --json-lines is for application/json`);
  if (isJsonLines) yield* recordBodies(linesOf(pieces));
  else if (isJson) yield* valueOrLines(await wholeOf(pieces, BODY_BYTES_MAX, tooLong));
  else for await (const bytes of pieces) if (bytes.length > 0) yield { bytes, count: 0 };
}

/** Lines of JSON are taken for what they are without --json-lines too: as one value a node would refuse them. */
async function* valueOrLines(whole: Buffer): AsyncGenerator<RecordBody, void> {
  if (!isValue(whole) && (await areRecords(linesOf([whole])))) yield* recordBodies(linesOf([whole]));
  else yield { bytes: whole, count: 0 };
}

async function areRecords(lines: AsyncIterable<readonly Buffer[]>): Promise<boolean> {
  let count = 0;
  for await (const some of lines) {
    if (!some.every(isValue)) return false;
    count += some.length;
  }
  return count > 1;
}

function beginsWithRecords(bytes: Buffer): boolean {
  const [first = '', second = ''] = bytes.subarray(0, LOOKED_AT_BYTES).toString('utf8').split('\n');
  return first.startsWith('{') && second.startsWith('{') && isValue(Buffer.from(first)) && isValue(Buffer.from(second));
}

/** Two lines of this length say whether a text is lines of JSON. */
const LOOKED_AT_BYTES = 16_384;

function isValue(text: Buffer): boolean {
  try {
    JSON.parse(text.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}

const tooLong = (): Failure =>
  new Failure('one value of JSON may have 32 MiB; --json-lines takes any number of records');

/** Appends are not repeated when their outcome is unknown: without producer headers they could come twice. */
class Writer {
  bytes = 0;
  next: number;
  #records = 0;
  readonly #client: StreamClient;
  readonly #name: NamedStream;
  readonly #type: string;

  constructor(client: StreamClient, name: NamedStream, { contentType, tail }: StreamFacts) {
    this.#client = client;
    this.#name = name;
    this.#type = contentType;
    this.next = tail;
  }

  get done(): string {
    return this.#records > 0 ? `${this.#records} records` : formatBytes(this.bytes);
  }

  async append(body: Buffer, count: number): Promise<void> {
    await this.#post(body, { 'content-type': this.#type });
    this.bytes += body.length;
    this.#records += count;
  }

  async close(): Promise<void> {
    await this.#post(Buffer.alloc(0), { 'stream-closed': 'true' });
  }

  async #post(body: Buffer, headers: Readonly<Record<string, string>>): Promise<void> {
    const { path, text } = this.#name;
    const answer = await this.#client.call({ method: 'POST', path, headers, body, mayRepeat: false });
    this.next = numberIn(expectStatus(answer, text, 200, 204), 'stream-next-offset') ?? factsIn(answer).tail;
  }
}

export const streamClose: Verb = {
  name: 'stream close',
  about: 'end a stream: nothing can be appended any more, and readers that wait are told',
  words: ['stream'],
  examples: ['millracectl stream close demo/log'],
  flags: { stream: STREAM, ...CLIENT_FLAGS },
  run: async (context) => {
    const { path, text } = parseStreamName(context.values.required('stream'));
    const headers = { 'stream-closed': 'true' };
    const call = { method: 'POST', path, headers, body: Buffer.alloc(0), mayRepeat: true } as const;
    const answer = expectStatus(await (await openStreams(context)).call(call), text, 200, 204);
    context.say(`${text}: closed at offset ${factsIn(answer).tail}`);
  },
};

export const streamRm: Verb = {
  name: 'stream rm',
  about: 'delete a stream; asks first',
  words: ['stream'],
  examples: ['millracectl stream rm demo/log', 'millracectl stream rm demo/log --yes'],
  flags: {
    stream: STREAM,
    yes: { kind: 'switch', about: 'do not ask', short: 'y' },
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say } = context;
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    if (!values.isSet('yes')) {
      const { tail, floor } = await factsOf(client, name);
      const text = `delete ${name.text} with ${formatBytes(tail - floor)}? Nothing brings it back. [y/N]`;
      if (!(await confirm(context, { text, expected: 'y', flag: '--yes' })))
        throw new Failure(`${name.text} was not deleted`);
    }
    const answer = await client.call({ method: 'DELETE', path: name.path, mayRepeat: false });
    expectStatus(answer, name.text, 204);
    say(`${name.text}: deleted`);
  },
};
