/**
 * Content types that writers chose, in answers that a browser may open as a page. A page that a stream holds must not
 * run with the rights of the service's origin: the bearer tokens, cookies and storage of every application behind it.
 *
 * | type of the stream or snapshot                                        | beside nosniff, which every answer has        |
 * |-----------------------------------------------------------------------|-----------------------------------------------|
 * | text that browsers show as text, JSON, bytes, raster images, audio,   | nothing                                       |
 * | video, fonts                                                          |                                               |
 * | HTML, SVG, XML (and all `+xml`), PDF, scripts                         | `Content-Security-Policy: sandbox`, and no    |
 * |                                                                       | `Referer`: the URL may hold a token           |
 * | anything else, also what is no media type or several                  | the same and `Content-Disposition: attachment`|
 */

/** HEAD and reads show this type until a first body sets another one. */
export const DEFAULT_CONTENT_TYPE = 'application/octet-stream';

const INERT: ReadonlySet<string> = new Set([
  ...[
    'application/octet-stream',
    'application/json',
    'application/ndjson',
    'application/x-ndjson',
    'application/jsonl',
  ],
  ...['application/cbor', 'application/msgpack', 'application/protobuf', 'application/x-protobuf'],
  ...['application/vnd.apache.arrow.stream', 'application/vnd.apache.parquet'],
  ...['application/gzip', 'application/zip', 'application/zstd'],
  ...['text/plain', 'text/csv', 'text/markdown', 'text/event-stream', 'text/vtt'],
  ...['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif', 'image/bmp'],
  ...['image/x-icon', 'image/vnd.microsoft.icon'],
]);
/** Whole families without a member that can hold a script. */
const INERT_FAMILY = /^(?:audio|video|font)\//;
const ACTIVE: ReadonlySet<string> = new Set([
  ...['text/html', 'text/xml', 'text/xsl', 'application/xml', 'application/pdf'],
  ...['text/javascript', 'application/javascript', 'application/x-javascript'],
  ...['application/ecmascript', 'text/ecmascript'],
]);
/** One media type as RFC 9110 writes it. A comma would make it two for a browser, which then takes the last. */
const ONE_TYPE = /^([a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+)(?:;[^,]*)?$/;

export type Danger = 'inert' | 'active' | 'unknown';

/** `type` in its normal form (protocol/media-type.ts). */
export function dangerOf(type: string): Danger {
  const media = ONE_TYPE.exec(type)?.[1];
  if (media === undefined) return 'unknown';
  if (INERT.has(media) || INERT_FAMILY.test(media) || media.endsWith('+json')) return 'inert';
  return ACTIVE.has(media) || media.endsWith('+xml') ? 'active' : 'unknown';
}

/** The type to show for a stream. */
export function shownContentType({ contentType }: { readonly contentType: string }): string {
  return contentType === '' ? DEFAULT_CONTENT_TYPE : contentType;
}

/** An answer whose status is written. */
export interface HeaderWriter {
  writeHeader(name: string, value: string): unknown;
}

/** Content-Type and what makes it harmless: the one way to write a type that came from a client. */
export function writeStoredType(res: HeaderWriter, type: string): void {
  res.writeHeader('content-type', type);
  const danger = dangerOf(type);
  if (danger === 'inert') return;
  res.writeHeader('content-security-policy', 'sandbox');
  res.writeHeader('referrer-policy', 'no-referrer');
  if (danger === 'unknown') res.writeHeader('content-disposition', 'attachment');
}
