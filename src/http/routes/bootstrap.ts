/**
 * GET /{bucket}/{stream}/bootstrap: the published snapshot and every message behind it up to the tail of the moment,
 * as multipart/mixed; a client goes on reading at Stream-Next-Offset. A part is one
 * message of a byte stream, or one record.
 *
 * The parts come from reads that follow each other, wherever the bytes lie; what is appended meanwhile
 * is left out. The first of them comes before the status, so that a cold store that fails is a 5xx
 * with its reason and not a 200 that breaks off. The boundary is 128 random bits, so no content can
 * hold it but by an accident less likely than a broken disk.
 */
import { randomBytes } from 'node:crypto';
import { errorNumber } from '../../base/errors.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import { formatOffset } from '../../protocol/header-values.ts';
import { QUERIES } from '../../protocol/operations.ts';
import { REPLY_CLOSED } from '../../protocol/reply.ts';
import { requestFor } from '../../protocol/request.ts';
import { collect } from '../../protocol/query-string.ts';
import type { RequestContext } from '../request.ts';
import { DEFAULT_CONTENT_TYPE, writeStoredType } from '../../access/stored-type.ts';
import type { StreamHead, StreamingResponse } from '../streaming.ts';
import type { UwsResponse } from '../uws.ts';
import { writeRecordRange } from '../response.ts';
import { type Published, Slices, askForPiece } from './snapshot.ts';
import { READ_FLAG_NO_TOUCH, READ_FLAG_PARTS, readIncarnation } from '../../protocol/queries/read.ts';
import { READ_NOW, READ_OFFSET } from '../../protocol/read-fields.ts';

const LIVE: ReadonlySet<string> = new Set(['live']);
const NOTHING = new Uint8Array(0);
const STREAM_GONE = errorNumber('STREAM_GONE');
/** The stream may be replaced between the question for its snapshot and the first read. */
const STARTS_MAX = 3;

export function handleBootstrap(call: RequestContext): void {
  const collected = collect(call.req.getQuery() ?? '', LIVE);
  const reason = !collected.ok ? collected.reason : collected.value.has('live') ? 'a bootstrap is not live' : '';
  if (reason !== '') return call.refuse('INVALID_QUERY', reason);
  if (call.server.backpressure.full) return call.refuse('ANSWERS_FULL');
  return void new Bootstrap(call).run().catch((error: unknown) => call.crash(error));
}

class Bootstrap {
  readonly #call: RequestContext;
  readonly #response: StreamingResponse;
  readonly #boundary = `millrace-bootstrap-${randomBytes(16).toString('hex')}`;
  /** The first read is use of the lifetime, the others are part of it. */
  #isRead = false;
  #position = 0;

  constructor(call: RequestContext) {
    this.#call = call;
    this.#response = call.streaming();
  }

  async run(): Promise<void> {
    const response = this.#response;
    for (let start = 1; ; start++) {
      const slices = new Slices(this.#call, response, { choice: 'any' });
      const first = await slices.first();
      if (first === undefined) return;
      if (this.#call.responder.headOnly) return response.whole(this.#head(first), undefined);
      this.#position = first.offset < 0 ? first.floor : first.offset;
      this.#isRead = false;
      let messages: Uint8Array = NOTHING;
      if (this.#position < first.tail) {
        response.hold(slices.body?.length ?? 0);
        const read = await this.#read(first, start < STARTS_MAX);
        if (read === 'changed') continue;
        if (read === undefined) return;
        // Behind a snapshot of several slices they are read again: a slow reader must not make them wait in memory.
        if (slices.isWhole) messages = this.#take(read);
      } else this.#touch();
      return this.#writeAll(slices, first, messages);
    }
  }

  /** It is use of the lifetime also where no message is read. */
  #touch(): void {
    const { gateway, group, bucket, stream } = this.#call;
    const query = requestFor(QUERIES.read, group, { bucket, stream, mode: READ_NOW });
    gateway.send(query, { onReply: () => undefined });
  }

  /** The snapshot, then `messages`, then what follows them. */
  async #writeAll(slices: Slices, first: Published, messages: Uint8Array): Promise<void> {
    const response = this.#response;
    response.begin(this.#head(first));
    await response.put(this.#partHead(first.offset < 0 ? DEFAULT_CONTENT_TYPE : first.contentType));
    if (!(await slices.writeAll())) return;
    await response.put('\r\n');
    await response.put(messages);
    while (this.#position < first.tail) {
      const read = await this.#read(first, false);
      if (read === undefined || read === 'changed') return;
      await response.put(this.#take(read));
    }
    await response.put(`--${this.#boundary}--\r\n`);
    response.end();
  }

  #head(first: Published): StreamHead {
    return { status: 200, headers: (res) => this.#writeHeaders(res, first) };
  }

  #writeHeaders(res: UwsResponse, first: Published): void {
    // No media type that a browser shows, so it is saved instead.
    writeStoredType(res, `multipart/mixed; boundary=${this.#boundary}`);
    res.writeHeader('stream-snapshot-offset', first.offset < 0 ? '-1' : formatOffset(first.offset));
    if (first.offset >= 0) res.writeHeader('stream-snapshot-digest', first.digest);
    res.writeHeader('stream-next-offset', formatOffset(first.tail));
    res.writeHeader('stream-up-to-date', 'true');
    if ((first.flags & REPLY_CLOSED) !== 0) res.writeHeader('stream-closed', 'true');
    writeRecordRange(res, first);
  }

  /** The messages from #position on that one piece holds. `changed`: another took its place, or its start rose. */
  async #read({ incarnation, tail }: Published, canRestart: boolean): Promise<Messages | 'changed' | undefined> {
    const { group, bucket, stream } = this.#call;
    const response = this.#response;
    const query = requestFor(QUERIES.read, group, {
      ...{ bucket, stream, mode: READ_OFFSET, value: this.#position, maxBytes: response.pieceBytes },
      readFlags: this.#isRead ? READ_FLAG_PARTS | READ_FLAG_NO_TOUCH : READ_FLAG_PARTS,
    });
    this.#isRead = true;
    const reply = await askForPiece(this.#call, response, query);
    if (reply === undefined) return undefined;
    const { code, body, contentType, startOffset } = reply;
    const isOther = code === STREAM_GONE || (code === 0 && readIncarnation(reply) !== incarnation);
    if (isOther && canRestart) return 'changed';
    if (code !== 0) {
      response.refusal(reply);
      return undefined;
    }
    const parts = isOther || body === undefined ? undefined : splitParts(body, tail - startOffset);
    const last = parts?.ends.at(-1);
    if (parts === undefined || last === undefined) {
      response.cut();
      return undefined;
    }
    return { parts, head: this.#partHead(contentType), end: startOffset + last };
  }

  #take({ parts, head, end }: Messages): Uint8Array {
    this.#position = end;
    return joinParts(parts, encodeUtf8(head));
  }

  #partHead(contentType: string): string {
    return `--${this.#boundary}\r\nContent-Type: ${contentType}\r\n\r\n`;
  }
}

interface Parts {
  /** Ends of the messages, relative to the bytes. */
  readonly ends: readonly number[];
  readonly bytes: Uint8Array;
}

/** The parts of a READ_FLAG_PARTS answer that end within `limit` bytes. */
function splitParts(body: Uint8Array, limit: number): Parts {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = view.getUint32(0, true);
  const ends: number[] = [];
  for (let i = 0; i < count; i++) {
    const end = view.getUint32(4 + 4 * i, true);
    if (end > limit) break;
    ends.push(end);
  }
  return { ends, bytes: body.subarray(4 + 4 * count) };
}

/** The messages of one read; `end` is the offset behind them. */
interface Messages {
  readonly parts: Parts;
  readonly head: string;
  readonly end: number;
}

const LINE_END = encodeUtf8('\r\n');

/** Each part with its head in front and a line end behind it, in one buffer. */
function joinParts({ ends, bytes }: Parts, head: Uint8Array): Uint8Array {
  const joined = new Uint8Array((ends.at(-1) ?? 0) + ends.length * (head.length + LINE_END.length));
  let at = 0;
  let start = 0;
  for (const end of ends) {
    joined.set(head, at);
    joined.set(bytes.subarray(start, end), at + head.length);
    joined.set(LINE_END, at + head.length + end - start);
    at += head.length + end - start + LINE_END.length;
    start = end;
  }
  return joined;
}
