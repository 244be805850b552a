/**
 * Request headers -> CommandFields. uWebSockets.js crosses from native code once for every header asked for, present or
 * not (about 0.1 µs each), so every request is walked over once, before its route, instead of
 * being asked for ten names. The walk fills one object that is reused: its fields are valid
 * only inside the route handler, as the request itself.
 *
 * When a header is repeated, the first one counts.
 */
import { TOKEN_BYTES_MAX } from '../base/limits.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import type { AppendFields } from '../protocol/append.ts';
import type { CreateFields } from '../protocol/create.ts';
import { conditionText } from '../protocol/condition.ts';
import { parseBooleanTrue, parseProducer, parseTtl, parseUint53 } from '../protocol/header-values.ts';
import { normalizeContentType } from '../protocol/media-type.ts';
import type { RefusalReason } from '../base/errors.ts';
import { REQUEST_ID_HEADER } from '../audit/request-ids.ts';
import { parseRfc3339 } from './timestamps.ts';
import type { UwsRequest } from './uws.ts';

const CHUNKED = 'chunked';

/**
 * Where a request ends. Two readers of one connection that disagree about it see different requests: a proxy lets one
 * through, the server behind it acts on another one. uWebSockets.js (20.51.4 and 20.69.0 alike) takes the first
 * Content-Length of several, an empty one as 0, and any Transfer-Encoding as chunked. So every request is looked at
 * before a handler acts, in the walk over its headers that is made anyway.
 *
 * Two things cannot be seen from here: the lines between chunks (a bare LF ends one), and headers behind one
 * without a name. Proxies rewrite both (test/proxy/framing.test.ts).
 */
class Framing {
  #lengths = 0;
  #encodings = 0;
  #fault: string | undefined;

  reset(): void {
    this.#lengths = 0;
    this.#encodings = 0;
    this.#fault = undefined;
  }

  contentLength(value: string): void {
    this.#lengths++;
    if (!isDigits(value)) this.#fault ??= 'Content-Length must be one number';
  }

  transferEncoding(value: string): void {
    this.#encodings++;
    if (value.toLowerCase() !== CHUNKED) this.#fault ??= 'Transfer-Encoding must be chunked and nothing else';
  }

  /** Why it is not certain where the request ends. */
  get fault(): string | undefined {
    if (this.#fault !== undefined || this.#lengths + this.#encodings < 2) return this.#fault;
    if (this.#encodings === 0) return 'Content-Length is given more than once';
    return this.#lengths === 0
      ? 'Transfer-Encoding is given more than once'
      : 'Content-Length and Transfer-Encoding exclude each other';
  }
}

/** A loop: every append comes by, and a regular expression costs ten times as much. */
function isDigits(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x30 || code > 0x39) return false;
  }
  return text !== '';
}

/** The headers that admission, CORS and the write routes look at; undefined: not sent. */
export class WriteHeaders {
  readonly framing = new Framing();
  contentType: string | undefined = undefined;
  contentLength: string | undefined = undefined;
  streamClosed: string | undefined = undefined;
  streamSeq: string | undefined = undefined;
  streamTtl: string | undefined = undefined;
  streamExpiresAt: string | undefined = undefined;
  streamAttrs: string | undefined = undefined;
  recordMatch: string | undefined = undefined;
  expectedOffset: string | undefined = undefined;
  producerId: string | undefined = undefined;
  producerEpoch: string | undefined = undefined;
  producerSeq: string | undefined = undefined;
  host: string | undefined = undefined;
  forkedFrom: string | undefined = undefined;
  forkOffset: string | undefined = undefined;
  forkSubOffset: string | undefined = undefined;
  forwardedProto: string | undefined = undefined;
  /** X-Forwarded-For. */
  forwardedFor = '';
  forwarded = '';
  requestId: string | undefined = undefined;
  contentEncoding = '';
  acceptEncoding = '';
  ifMatch: string | undefined = undefined;
  ifNoneMatch = '';
  authorization = '';
  origin = '';
  /** Sec-Fetch-Site. */
  site = '';
  referer = '';
  /** Clients of one kind send the same type again and again: as it was sent, and as it was taken. */
  readonly lastType = { sent: '', taken: '' };
  readonly #take = (name: string, value: string): void => this.take(name, value);

  /** Walks over the headers of a request, once, before its route. */
  walk(req: UwsRequest): void {
    this.reset();
    req.forEach(this.#take);
  }

  reset(): void {
    this.framing.reset();
    this.contentType = undefined;
    this.contentLength = undefined;
    this.streamClosed = undefined;
    this.streamSeq = undefined;
    this.streamTtl = undefined;
    this.streamExpiresAt = undefined;
    this.streamAttrs = undefined;
    this.recordMatch = undefined;
    this.expectedOffset = undefined;
    this.producerId = undefined;
    this.producerEpoch = undefined;
    this.producerSeq = undefined;
    this.host = undefined;
    this.forkedFrom = undefined;
    this.forkOffset = undefined;
    this.forkSubOffset = undefined;
    this.forwardedProto = undefined;
    this.requestId = undefined;
    this.contentEncoding = '';
    this.acceptEncoding = '';
    this.ifMatch = undefined;
    this.ifNoneMatch = '';
    this.authorization = '';
    this.forwardedFor = '';
    this.forwarded = '';
    this.origin = '';
    this.site = '';
    this.referer = '';
  }

  /** One header; names come in lower case. By length first: most headers of a request are none of ours. */
  take(name: string, value: string): void {
    switch (name.length) {
      case 4:
        if (name === 'host') this.host ??= value;
        return;
      case 6:
        if (name === 'origin' && this.origin === '') this.origin = value;
        return;
      case 7:
        if (name === 'referer' && this.referer === '') this.referer = value;
        return;
      case 8:
        if (name === 'if-match') this.ifMatch = joined(this.ifMatch ?? '', value);
        return;
      case 9:
        if (name === 'forwarded') this.forwarded = joined(this.forwarded, value);
        return;
      case 10:
        if (name === 'stream-seq') this.streamSeq ??= value;
        else if (name === 'stream-ttl') this.streamTtl ??= value;
        return;
      case 11:
        if (name === 'producer-id') this.producerId ??= value;
        return;
      case 12:
        if (name === 'content-type') this.contentType ??= value;
        else if (name === 'producer-seq') this.producerSeq ??= value;
        else if (name === 'stream-attrs') this.streamAttrs ??= value;
        else if (name === REQUEST_ID_HEADER) this.requestId ??= value;
        return;
      case 13:
        if (name === 'stream-closed') this.streamClosed ??= value;
        else if (name === 'if-none-match') this.ifNoneMatch = joined(this.ifNoneMatch, value);
        else if (name === 'authorization' && this.authorization === '') this.authorization = value;
        return;
      case 14:
        if (name === 'content-length') {
          this.framing.contentLength(value);
          this.contentLength ??= value;
        } else if (name === 'producer-epoch') this.producerEpoch ??= value;
        else if (name === 'sec-fetch-site' && this.site === '') this.site = value;
        return;
      case 15:
        if (name === 'accept-encoding') this.acceptEncoding = joined(this.acceptEncoding, value);
        else if (name === 'x-forwarded-for') this.forwardedFor = joined(this.forwardedFor, value);
        return;
      case 16:
        if (name === 'content-encoding') this.contentEncoding = joined(this.contentEncoding, value);
        return;
      case 17:
        if (name === 'stream-expires-at') this.streamExpiresAt ??= value;
        else if (name === 'transfer-encoding') this.framing.transferEncoding(value);
        else if (name === 'x-forwarded-proto') this.forwardedProto ??= value;
        return;
      case 18:
        if (name === 'stream-forked-from') this.forkedFrom ??= value;
        else if (name === 'stream-fork-offset') this.forkOffset ??= value;
        return;
      case 19:
        if (name === 'stream-record-match') this.recordMatch ??= value;
        return;
      case 22:
        if (name === 'stream-expected-offset') this.expectedOffset ??= value;
        else if (name === 'stream-fork-sub-offset') this.forkSubOffset ??= value;
        return;
      default:
    }
  }
}

/** A header that is a list may come in several lines. */
function joined(before: string, value: string): string {
  return before === '' ? value : `${before},${value}`;
}

const invalidHeader = (detail: string): RefusalReason => ({ code: 'INVALID_HEADER', detail });

/** The fields that an append and a create share. */
type WriteFields = Pick<AppendFields, keyof AppendFields & keyof CreateFields>;

/** `command` is at its defaults. Numbers are checked first: a malformed one is 400 before anything else. */
export function fillAppend(headers: WriteHeaders, command: AppendFields): RefusalReason | undefined {
  return (
    checkEncoding(headers.contentEncoding) ??
    fillCondition(headers, command) ??
    fillPosition(headers, command) ??
    fillWrite(headers, command)
  );
}

export function fillCreate(headers: WriteHeaders, command: CreateFields): RefusalReason | undefined {
  const refusal =
    checkEncoding(headers.contentEncoding) ??
    fillCondition(headers, command) ??
    fillLifetime(headers, command) ??
    fillWrite(headers, command);
  if (refusal !== undefined) return refusal;
  // uWebSockets.js replaces bytes that are not UTF-8 by U+FFFD; the stored value would not be what was sent.
  if (headers.streamAttrs?.includes('\ufffd') === true) {
    return invalidHeader('Stream-Attrs is not UTF-8; write other characters as JSON escapes');
  }
  if (headers.streamAttrs !== undefined) command.attributes = encodeUtf8(headers.streamAttrs);
  return undefined;
}

/** The producer, the type and the order of a write, and whether it closes its stream. */
function fillWrite(headers: WriteHeaders, command: WriteFields): RefusalReason | undefined {
  const { streamClosed } = headers;
  command.close = streamClosed !== undefined && parseBooleanTrue(streamClosed.trim());
  return fillProducer(headers, command) ?? fillTexts(headers, command);
}

/** Bytes are stored as they come, so a compressed body would be stored compressed, and read as what its type says. */
export function checkEncoding(contentEncoding: string): RefusalReason | undefined {
  if (contentEncoding === '') return undefined;
  const codings = contentEncoding.split(',').map((coding) => coding.trim().toLowerCase());
  if (codings.every((coding) => coding === '' || coding === 'identity')) return undefined;
  return { code: 'CONTENT_ENCODING', detail: contentEncoding.slice(0, 100) };
}

export const TOO_MANY_TAGS = 'If-Match and If-None-Match may list 16 tags each';

function fillCondition({ ifMatch, ifNoneMatch }: WriteHeaders, command: WriteFields): RefusalReason | undefined {
  if (ifMatch === undefined && ifNoneMatch === '') return undefined;
  const condition = conditionText(ifMatch, ifNoneMatch);
  if (condition === undefined) return invalidHeader(TOO_MANY_TAGS);
  command.condition = condition;
  return undefined;
}

function fillLifetime(headers: WriteHeaders, command: CreateFields): RefusalReason | undefined {
  const { streamTtl, streamExpiresAt } = headers;
  if (streamTtl !== undefined) {
    const ttl = parseTtl(streamTtl);
    if (!ttl.ok) return invalidHeader(ttl.reason);
    command.ttlSeconds = ttl.value;
  }
  if (streamExpiresAt !== undefined) {
    const expiresAt = parseRfc3339(streamExpiresAt.trim());
    if (!expiresAt.ok) return invalidHeader(`Stream-Expires-At: ${expiresAt.reason}`);
    command.expiresAtMs = expiresAt.value;
  }
  if (streamTtl !== undefined && streamExpiresAt !== undefined) {
    return invalidHeader('Stream-TTL and Stream-Expires-At exclude each other');
  }
  return undefined;
}

/** Where the stream must end for the append to happen. */
function fillPosition(headers: WriteHeaders, command: AppendFields): RefusalReason | undefined {
  if (headers.recordMatch !== undefined) {
    const match = parseUint53(headers.recordMatch.trim(), 'Stream-Record-Match');
    if (!match.ok) return invalidHeader(match.reason);
    command.recordMatch = match.value;
  }
  if (headers.expectedOffset === undefined) return undefined;
  const tail = parseUint53(headers.expectedOffset.trim(), 'Stream-Expected-Offset');
  if (!tail.ok) return invalidHeader(tail.reason);
  command.expectedOffset = tail.value;
  return undefined;
}

function fillProducer(headers: WriteHeaders, command: WriteFields): RefusalReason | undefined {
  const { producerId, producerEpoch, producerSeq } = headers;
  if (producerId === undefined && producerEpoch === undefined && producerSeq === undefined) return undefined;
  const producer = parseProducer(producerId, producerEpoch, producerSeq);
  if (!producer.ok) {
    const incomplete = producerId === undefined || producerEpoch === undefined || producerSeq === undefined;
    return incomplete ? { code: 'PRODUCER_INCOMPLETE', detail: '' } : invalidHeader(producer.reason);
  }
  if (producer.value === undefined) return undefined;
  command.producerId = producer.value.id;
  command.producerEpoch = producer.value.epoch;
  command.producerSeq = producer.value.seq;
  return checkToken(command.producerId, 'Producer-Id');
}

function fillContentType(
  { contentType: sent, lastType }: WriteHeaders,
  command: WriteFields,
): RefusalReason | undefined {
  if (sent === lastType.sent) {
    command.contentType = lastType.taken;
    return undefined;
  }
  command.contentType = sent === undefined ? '' : normalizeContentType(sent);
  const refusal = checkToken(command.contentType, 'Content-Type');
  if (refusal !== undefined || sent === undefined || sent.length > TOKEN_BYTES_MAX) return refusal;
  lastType.sent = sent;
  lastType.taken = command.contentType;
  return undefined;
}

function fillTexts(headers: WriteHeaders, command: WriteFields): RefusalReason | undefined {
  // A blank token orders nothing, so it counts as absent.
  const seq = headers.streamSeq;
  command.streamSeq = seq === undefined || seq.trim() === '' ? undefined : seq;
  return (
    fillContentType(headers, command) ??
    (command.streamSeq === undefined ? undefined : checkToken(command.streamSeq, 'Stream-Seq'))
  );
}

const NOT_VISIBLE_ASCII = /[^\x20-\x7e\t]/;

/** Texts that are stored and compared: bytes outside ASCII have no agreed meaning in a header. */
export function checkToken(value: string, name: string): RefusalReason | undefined {
  if (value.length > TOKEN_BYTES_MAX) return invalidHeader(`${name} exceeds ${TOKEN_BYTES_MAX} bytes`);
  if (NOT_VISIBLE_ASCII.test(value)) return invalidHeader(`${name} holds characters outside visible ASCII`);
  return undefined;
}

/** Content-Length in bytes, -1 for chunks or no body; uWebSockets.js refuses malformed ones. */
export function declaredBytes(contentLength: string | undefined): number {
  if (contentLength === undefined || contentLength === '') return -1;
  const parsed = parseUint53(contentLength);
  // Digits beyond 2^53 are a size too, and one that is certainly too large.
  return parsed.ok ? parsed.value : Number.MAX_SAFE_INTEGER;
}
