/**
 * The streams of a World of Vercel's Workflow DevKit, to be spread over a World that keeps runs and queue elsewhere. Each stream of a
 * run is a JSON stream whose records are its chunks in base64, so a chunk's index is the ordinal of its record, and the end of one is
 * the end of the other. Names of streams are unique, as the DevKit makes them from ids; a stream beside them lists those of a run.
 */
import { base64Of, bytesOf } from './base64.ts';
import type { MillraceClient, MillraceStream, StreamDescription } from './client.ts';
import { readableOf } from './readable.ts';
import { JSON_TYPE, isCode, refusal } from './resumable-log.ts';

const PAGE_CHUNKS = 100;
const PAGE_CHUNKS_MAX = 1000;
/** Beside those with writes under way; those used longest ago are opened again. */
const WRITERS_MAX = 1000;

export interface WorkflowStreamerOptions {
  readonly client: MillraceClient;
  /** Keeps the streams. `workflow` when left out. */
  readonly bucket?: string;
  /** Seconds after the last read or write in which a stream is removed; left out, it stays. */
  readonly ttlSeconds?: number;
}

export interface WorkflowChunk {
  readonly index: number;
  readonly data: Uint8Array;
}

export interface WorkflowChunksOptions {
  /** 100 when left out, 1,000 at most. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface WorkflowChunksPage {
  readonly data: WorkflowChunk[];
  /** Where the next page begins; null: there is none yet. */
  readonly cursor: string | null;
  readonly hasMore: boolean;
  readonly done: boolean;
}

export interface WorkflowStreamInfo {
  /** -1: there is no chunk. */
  readonly tailIndex: number;
  readonly done: boolean;
}

/** Worlds of version 5. */
export interface WorkflowStreams {
  /** Resolves when the chunk is durable. */
  write(runId: string, name: string, chunk: string | Uint8Array): Promise<void>;
  writeMulti(runId: string, name: string, chunks: (string | Uint8Array)[]): Promise<void>;
  close(runId: string, name: string): Promise<void>;
  /** The chunks from an index on, or so many before the tail, then what comes, until the stream is closed. */
  get(runId: string, name: string, startIndex?: number): Promise<ReadableStream<Uint8Array>>;
  list(runId: string): Promise<string[]>;
  getChunks(runId: string, name: string, options?: WorkflowChunksOptions): Promise<WorkflowChunksPage>;
  getInfo(runId: string, name: string): Promise<WorkflowStreamInfo>;
}

/** Both of them. */
export interface WorkflowStreamer {
  readonly streams: WorkflowStreams;
  /** Worlds of version 4 have these instead. */
  writeToStream(name: string, runId: string, chunk: string | Uint8Array): Promise<void>;
  writeToStreamMulti(name: string, runId: string, chunks: (string | Uint8Array)[]): Promise<void>;
  closeStream(name: string, runId: string): Promise<void>;
  readFromStream(name: string, startIndex?: number): Promise<ReadableStream<Uint8Array>>;
  listStreamsByRunId(runId: string): Promise<string[]>;
  getStreamChunks(name: string, runId: string, options?: WorkflowChunksOptions): Promise<WorkflowChunksPage>;
  getStreamInfo(name: string, runId: string): Promise<WorkflowStreamInfo>;
}

/** A plain object: `{ ...createWorld(), ...createStreamer({ client }) }` is a World with its streams on Millrace. */
export function createStreamer(options: WorkflowStreamerOptions): WorkflowStreamer {
  const kept = new KeptStreams(options);
  const streams: WorkflowStreams = {
    write: async (runId, name, chunk) => await kept.write(runId, name, [chunk]),
    writeMulti: async (runId, name, chunks) => await kept.write(runId, name, chunks),
    close: async (runId, name) => await kept.close(runId, name),
    get: async (_runId, name, startIndex = 0) => await kept.read(name, startIndex),
    list: async (runId) => await kept.list(runId),
    getChunks: async (_runId, name, page) => await kept.page(name, page),
    getInfo: async (_runId, name) => await kept.info(name),
  };
  return {
    streams,
    writeToStream: async (name, runId, chunk) => await kept.write(runId, name, [chunk]),
    writeToStreamMulti: async (name, runId, chunks) => await kept.write(runId, name, chunks),
    closeStream: async (name, runId) => await kept.close(runId, name),
    readFromStream: async (name, startIndex = 0) => await kept.read(name, startIndex),
    listStreamsByRunId: async (runId) => await kept.list(runId),
    getStreamChunks: async (name, _runId, page) => await kept.page(name, page),
    getStreamInfo: async (name) => await kept.info(name),
  };
}

/** One for all that this process writes to a stream, as two have no order. */
interface Writer {
  readonly stream: MillraceStream;
  /** Resolves when the stream is there and in the list of its run. */
  opened: Promise<void>;
  openedMs: number;
  /** Writes, of which any keeps it. */
  underWay: number;
}

class KeptStreams {
  readonly #client: MillraceClient;
  readonly #bucket: string;
  readonly #ttlSeconds: number | undefined;
  /** Half of the TTL, so that the list of a run is written to before it expires. */
  readonly #reopenMs: number;
  /** By name, those used last at the end. */
  readonly #writers = new Map<string, Writer>();

  constructor({ client, bucket = 'workflow', ttlSeconds }: WorkflowStreamerOptions) {
    this.#client = client;
    this.#bucket = bucket;
    this.#ttlSeconds = ttlSeconds;
    this.#reopenMs = ttlSeconds === undefined ? Number.POSITIVE_INFINITY : ttlSeconds * 500;
  }

  async write(runId: string, name: string, chunks: readonly (string | Uint8Array)[]): Promise<void> {
    const records = chunks.map((chunk) =>
      base64Of(typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk),
    );
    await this.#writing(runId, name, async (stream) => {
      try {
        await Promise.all(records.map(async (record) => await stream.records<string>().append(record)));
      } catch (error) {
        // A step that is repeated writes behind the end that it made before. No reader of any World sees that.
        if (!isCode(error, 'STREAM_CLOSED')) throw error;
      }
    });
  }

  async close(runId: string, name: string): Promise<void> {
    await this.#writing(runId, name, async (stream) => await stream.close());
    this.#writers.delete(name);
  }

  /** Readers may come before the first chunk. */
  async read(name: string, startIndex: number): Promise<ReadableStream<Uint8Array>> {
    const stream = this.#streamOf(name);
    await this.#make(stream);
    const { next } = recordsOf(await stream.head());
    const first = startIndex < 0 ? Math.max(next + startIndex, 0) : startIndex;
    return readableOf<Uint8Array>(async function* chunks(signal) {
      for await (const { record, value } of stream.records<string>().follow({ record: Math.min(first, next), signal }))
        if (record >= first && value !== '') yield bytesOf(value);
    });
  }

  async list(runId: string): Promise<string[]> {
    const names = new Set<string>();
    try {
      for await (const { value } of this.#listOf(runId).records<string>().follow({ live: false })) names.add(value);
    } catch (error) {
      if (!isCode(error, 'STREAM_NOT_FOUND')) throw error;
    }
    return [...names];
  }

  async page(
    name: string,
    { limit = PAGE_CHUNKS, cursor = '0' }: WorkflowChunksOptions = {},
  ): Promise<WorkflowChunksPage> {
    if (!/^\d{1,15}$/.test(cursor)) throw refusal('INVALID_ARGUMENT', `"${cursor}" is no cursor of getChunks`);
    const stream = this.#streamOf(name);
    const head = await headOf(stream);
    const { next } = head === undefined ? { next: 0 } : recordsOf(head);
    const first = Number(cursor);
    const end = Math.min(first + Math.min(Math.max(limit, 1), PAGE_CHUNKS_MAX), next);
    const data: WorkflowChunk[] = [];
    if (first < end) {
      for await (const { record, value } of stream.records<string>().follow({ record: first, live: false })) {
        data.push({ index: record, data: bytesOf(value) });
        if (record + 1 >= end) break;
      }
    }
    const hasMore = end < next;
    return { data, cursor: hasMore ? String(end) : null, hasMore, done: head?.isClosed === true };
  }

  async info(name: string): Promise<WorkflowStreamInfo> {
    const head = await headOf(this.#streamOf(name));
    return head === undefined
      ? { tailIndex: -1, done: false }
      : { tailIndex: recordsOf(head).next - 1, done: head.isClosed };
  }

  /** Writes to the stream, which is there and is in the list of its run. */
  async #writing(runId: string, name: string, write: (stream: MillraceStream) => Promise<unknown>): Promise<void> {
    const writer = this.#writerOf(name);
    const clockMs = performance.now();
    if (clockMs - writer.openedMs >= this.#reopenMs) {
      writer.openedMs = clockMs;
      writer.opened = this.#open(runId, name, writer.stream);
    }
    const { opened } = writer;
    writer.underWay++;
    try {
      await opened;
      await write(writer.stream);
    } catch (error) {
      // It may have expired, and the next write makes it again.
      if (writer.opened === opened) writer.openedMs = Number.NEGATIVE_INFINITY;
      throw error;
    } finally {
      writer.underWay--;
    }
  }

  #writerOf(name: string): Writer {
    const writer = this.#writers.get(name) ?? {
      stream: this.#streamOf(name),
      opened: Promise.resolve(),
      openedMs: Number.NEGATIVE_INFINITY,
      underWay: 0,
    };
    this.#writers.delete(name);
    for (const [other, { underWay }] of this.#writers) {
      if (this.#writers.size < WRITERS_MAX) break;
      if (underWay === 0) this.#writers.delete(other);
    }
    this.#writers.set(name, writer);
    return writer;
  }

  async #open(runId: string, name: string, stream: MillraceStream): Promise<void> {
    await Promise.all([this.#make(stream), this.#enlist(runId, name)]);
  }

  async #make(stream: MillraceStream, data?: string): Promise<boolean> {
    const ttl = this.#ttlSeconds === undefined ? {} : { ttlSeconds: this.#ttlSeconds };
    try {
      const made = await stream.create({ contentType: JSON_TYPE, ...ttl, ...(data === undefined ? {} : { data }) });
      return made.isNew;
    } catch (error) {
      // It is there, of a time when the program had other options.
      if (!isCode(error, 'CREATE_CONFLICT')) throw error;
      return false;
    }
  }

  /** Adds the name, which each process that writes may do, and does again before the list expires. */
  async #enlist(runId: string, name: string): Promise<void> {
    const list = this.#listOf(runId);
    if (!(await this.#make(list, JSON.stringify(name)))) await list.records<string>().append(name);
  }

  #listOf(runId: string): MillraceStream {
    return this.#streamOf(`streams of ${runId}`);
  }

  #streamOf(name: string): MillraceStream {
    return this.#client.stream(this.#bucket, name, { contentType: JSON_TYPE });
  }
}

async function headOf(stream: MillraceStream): Promise<StreamDescription | undefined> {
  try {
    return await stream.head();
  } catch (error) {
    if (isCode(error, 'STREAM_NOT_FOUND')) return undefined;
    throw error;
  }
}

function recordsOf({ records }: StreamDescription): { readonly next: number } {
  if (records === undefined) throw refusal('BAD_ANSWER', 'a stream of a workflow is no JSON stream');
  return records;
}
