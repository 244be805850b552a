/** Headers of answers, each described once. */
type Schema = Readonly<Record<string, unknown>>;

interface Header {
  readonly description: string;
  readonly schema: Schema;
  readonly example: string | number;
}

const OFFSET: Schema = { type: 'string', pattern: '^[0-9]{20}$' };
const COUNT: Schema = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const TRUE: Schema = { type: 'string', enum: ['true'] };
const DIGEST: Schema = { type: 'string', pattern: '^[0-9a-f]{64}$' };
const DIGEST_EXAMPLE = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef';
const OFFSET_EXAMPLE = '00000000000000000006';

export const HEADERS = {
  'X-Request-Id': {
    description:
      "The request's id, which the node's log lines about it have too: the one that was sent, if it is well formed.",
    schema: { type: 'string', pattern: '^[A-Za-z0-9_.:/+=@-]{1,128}$' },
    example: '1-5f0c93e1-7',
  },
  'Stream-Next-Offset': {
    description: 'Where to go on reading; in a refusal the tail of the stream, or the retention floor of a 410.',
    schema: OFFSET,
    example: OFFSET_EXAMPLE,
  },
  'Stream-Up-To-Date': {
    description: 'The answer reaches the tail of the stream.',
    schema: TRUE,
    example: 'true',
  },
  'Stream-Closed': {
    description: 'The stream is closed, and nothing comes behind this answer.',
    schema: TRUE,
    example: 'true',
  },
  'Stream-Incarnation': {
    description: 'Tells the stream from others of its name: compare it before you go on at an offset.',
    schema: { type: 'string', pattern: '^[0-9a-f]{16}$' },
    example: '5d7f0c9a41e2b386',
  },
  'Stream-Cursor': {
    description: 'Goes into the next URL of a live reader as `cursor`.',
    schema: { type: 'string' },
    example: '1234',
  },
  'Stream-TTL': {
    description: 'The stream expires so many seconds after its last read or write.',
    schema: COUNT,
    example: 3600,
  },
  'Stream-Expires-At': {
    description: 'The moment at which the stream expires.',
    schema: { type: 'string', format: 'date-time' },
    example: '2027-01-01T00:00:00Z',
  },
  'Stream-Extensions': {
    description: 'The stream has record coordinates.',
    schema: { type: 'string', enum: ['json-record-coordinates-v1'] },
    example: 'json-record-coordinates-v1',
  },
  'Stream-Record-First': { description: 'The first record that is retained.', schema: COUNT, example: 0 },
  'Stream-Record-Start': {
    description: 'The first record of the answer, or of the write.',
    schema: COUNT,
    example: 41,
  },
  'Stream-Record-Next': {
    description: 'The record behind the answer or the write; of a stream as a whole its record tail.',
    schema: COUNT,
    example: 42,
  },
  'Stream-Retained-Offset': { description: 'The retention floor.', schema: COUNT, example: 0 },
  'Stream-Cold-Hot-Start-Offset': {
    description: 'The first byte that is still on the nodes, not only in the cold store.',
    schema: COUNT,
    example: 0,
  },
  'Stream-Snapshot-Offset': {
    description: 'Where the published snapshot lies; -1 in a bootstrap without one.',
    schema: { type: 'string', pattern: '^(-1|[0-9]{20})$' },
    example: OFFSET_EXAMPLE,
  },
  'Stream-Snapshot-Digest': {
    description: 'BLAKE3 digest of the type and the bytes of the snapshot.',
    schema: DIGEST,
    example: DIGEST_EXAMPLE,
  },
  'Stream-SSE-Data-Encoding': {
    description: 'The data of the events is encoded so, because the stream is not text.',
    schema: { type: 'string', enum: ['base64'] },
    example: 'base64',
  },
  'Stream-Data-Content-Type': {
    description: 'The content type of the stream, whose bytes the events carry.',
    schema: { type: 'string' },
    example: 'application/json',
  },
  'Producer-Epoch': { description: "The producer's epoch, as the stream has it.", schema: COUNT, example: 0 },
  'Producer-Seq': { description: 'The highest sequence number that is accepted.', schema: COUNT, example: 17 },
  'Producer-Expected-Seq': { description: 'The sequence number that is missing.', schema: COUNT, example: 18 },
  'Producer-Received-Seq': { description: 'The sequence number that came.', schema: COUNT, example: 20 },
  ETag: {
    description: 'Of HEAD and of a read of the whole stream: its state. Of other reads: the bytes of the answer.',
    schema: { type: 'string' },
    example: '"5d7f0c9a41e2b386"',
  },
  Vary: {
    description: 'The answer depends on these headers of the request.',
    schema: { type: 'string' },
    example: 'Accept-Encoding',
  },
  'Content-Encoding': {
    description: 'The coding of the body.',
    schema: { type: 'string', enum: ['gzip'] },
    example: 'gzip',
  },
  'Content-Disposition': {
    description: 'Browsers save bytes of a type that is not known to be harmless.',
    schema: { type: 'string', enum: ['attachment'] },
    example: 'attachment',
  },
  'Content-Security-Policy': {
    description: 'Browsers run nothing of what writers stored.',
    schema: { type: 'string' },
    example: 'sandbox',
  },
  Location: {
    description: 'Of a create: the path of the stream, on the flat routes its URL. Of a redirect: where to ask.',
    schema: { type: 'string' },
    example: '/shop/orders',
  },
  'Retry-After': {
    description: 'Repeat the request after so many seconds.',
    schema: { type: 'integer', minimum: 1 },
    example: 1,
  },
  'WWW-Authenticate': {
    description: 'The scheme of the token.',
    schema: { type: 'string', enum: ['Bearer'] },
    example: 'Bearer',
  },
  'Accept-Encoding': {
    description: 'Bodies are taken as they are.',
    schema: { type: 'string', enum: ['identity'] },
    example: 'identity',
  },
  'X-Svc-Backup-Format': { description: 'Version of the format.', schema: COUNT, example: 1 },
  'X-Svc-Backup-Commit-Index': {
    description: 'Commands that the group has applied since it began or was imported.',
    schema: COUNT,
    example: 120_000,
  },
  'X-Svc-Backup-Blake3': {
    description: 'Digest of the body, of exports up to 1 MiB.',
    schema: DIGEST,
    example: DIGEST_EXAMPLE,
  },
} as const satisfies Readonly<Record<string, Header>>;

export type HeaderName = keyof typeof HEADERS;

export const RECORD_RANGE = [
  'Stream-Record-First',
  'Stream-Record-Next',
  'Stream-Extensions',
] as const satisfies readonly HeaderName[];
export const RECORDS_WRITTEN = [
  'Stream-Record-Start',
  'Stream-Record-Next',
  'Stream-Extensions',
] as const satisfies readonly HeaderName[];
/** Headers that tell a browser how to treat bytes that writers stored. */
export const STORED_TYPE = ['Content-Disposition', 'Content-Security-Policy'] as const satisfies readonly HeaderName[];
export const LIFETIME = ['Stream-TTL', 'Stream-Expires-At'] as const satisfies readonly HeaderName[];
export const PRODUCER_ECHO = ['Producer-Epoch', 'Producer-Seq'] as const satisfies readonly HeaderName[];
