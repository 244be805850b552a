/** Parameters of paths, queries and headers, each described once. */
import {
  ATTRIBUTES_BYTES_MAX,
  LIST_LIMIT_MAX,
  NAME_BYTES_MAX,
  PRODUCER_ID_BYTES_MAX,
  READ_BYTES_MAX,
  SUBSCRIPTION_NAME_BYTES_MAX,
  TOKEN_BYTES_MAX,
} from '../../src/base/limits.ts';
import { LONG_POLL_MS_MAX } from '../../src/http/query.ts';

type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly description: string;
  readonly required?: true;
  readonly schema: Schema;
  readonly example?: string | number | boolean;
}

type Described = Pick<Parameter, 'description' | 'schema' | 'example'>;

const path = (name: string, described: Described): Parameter => ({ name, in: 'path', required: true, ...described });
const query = (name: string, described: Described): Parameter => ({ name, in: 'query', ...described });
const header = (name: string, described: Described): Parameter => ({ name, in: 'header', ...described });

const NAME: Schema = { type: 'string', minLength: 1, maxLength: NAME_BYTES_MAX };
const COUNT: Schema = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const POSITIVE: Schema = { ...COUNT, minimum: 1 };
const NODE: Schema = { type: 'integer', minimum: 1, maximum: 2 ** 32 - 1 };

/** By the name in braces of a pattern. */
export const PATH_VARIABLES: ReadonlyMap<string, Parameter> = new Map([
  [
    'bucket',
    path('bucket', {
      description: `Name of the bucket. With the stream it takes up to ${NAME_BYTES_MAX} bytes of UTF-8. It is not \`v1\` and does not begin with \`__\`.`,
      schema: NAME,
      example: 'shop',
    }),
  ],
  [
    'stream',
    path('stream', {
      description: 'Name of the stream: one segment of the path. `a%2Fb` names the stream `a/b`.',
      schema: NAME,
      example: 'orders',
    }),
  ],
  [
    'path',
    path('path', {
      description:
        'Bucket and stream, split at the first slash; further slashes belong to the stream. Without a slash the bucket is `_default`.',
      schema: NAME,
      example: 'shop/orders',
    }),
  ],
  ['offset', path('offset', { description: 'A position of the stream in bytes.', schema: COUNT, example: 1024 })],
  ['group', path('group', { description: 'Number of the group, from 0.', schema: COUNT, example: 3 })],
  ['node', path('node', { description: 'Id of the node.', schema: NODE, example: 2 })],
  [
    'id',
    path('id', {
      description: `Name of the subscription: up to ${SUBSCRIPTION_NAME_BYTES_MAX} bytes of UTF-8, not \`.\` and not \`..\`.`,
      schema: { type: 'string', minLength: 1, maxLength: SUBSCRIPTION_NAME_BYTES_MAX },
      example: 'mailer',
    }),
  ],
]);

export const PARAMETERS = {
  // Parameters of reads.
  offset: query('offset', {
    description: 'Where to begin: an offset that the server returned, `-1` (the start) or `now` (the tail).',
    schema: { type: 'string', default: '-1' },
    example: '00000000000000000006',
  }),
  max_bytes: query('max_bytes', {
    description: `A bound on the answer. It brings at least one byte, or one record of a JSON stream; 0 brings none. Values above ${READ_BYTES_MAX} mean the same as that.`,
    schema: COUNT,
    example: 65_536,
  }),
  record: query('record', {
    description: 'Begin at this record of a JSON stream, or at its tail: `now`.',
    schema: { type: 'string', pattern: '^(now|[0-9]+)$' },
    example: '41',
  }),
  tail_records: query('tail_records', {
    description: 'Begin so many records before the tail of a JSON stream.',
    schema: COUNT,
    example: 10,
  }),
  max_records: query('max_records', {
    description: 'A bound on the records of the answer. It needs `record` or `tail_records`.',
    schema: POSITIVE,
    example: 100,
  }),
  record_view: query('record_view', {
    description: 'Shows each record as `{"record":N,"value":...}`. It needs `record` or `tail_records`.',
    schema: { type: 'string', enum: ['envelope'] },
    example: 'envelope',
  }),
  live: query('live', {
    description: 'Waits for what is appended. It needs a position: `offset`, `record` or `tail_records`.',
    schema: { type: 'string', enum: ['long-poll', 'sse'] },
    example: 'long-poll',
  }),
  event: query('event', {
    description:
      'Of server-sent events: the type of those that bring bytes. `message` is what `onmessage` of a browser sees.',
    schema: { type: 'string', enum: ['data', 'message'], default: 'data' },
    example: 'message',
  }),
  wait: query('wait', {
    description:
      'Lets a live read wait for a stream that is not there yet, as long as `timeout_ms` says; then it is 404.',
    schema: { type: 'string', enum: ['create'] },
    example: 'create',
  }),
  timeout_ms: query('timeout_ms', {
    description: `How long a long-poll waits, in milliseconds; values beyond ${LONG_POLL_MS_MAX} mean that. Default: \`http.long_poll_timeout\`.`,
    schema: { type: 'integer', minimum: 1, maximum: LONG_POLL_MS_MAX },
    example: 20_000,
  }),
  cursor: query('cursor', {
    description: 'The `Stream-Cursor` of the last answer, so that the readers of one moment share a URL.',
    schema: { type: 'string' },
    example: '1234',
  }),
  'Last-Event-ID': header('Last-Event-ID', {
    description: 'The id of the last event of an event stream. The answer goes on behind it, whatever the URL says.',
    schema: { type: 'string' },
    example: '00000000000000000006',
  }),
  'If-None-Match of a read': header('If-None-Match', {
    description: 'ETags of answers that the client has. If one of them still holds, the answer is 304.',
    schema: { type: 'string' },
    example: '"5d7f0c9a41e2b386"',
  }),
  'Accept-Encoding': header('Accept-Encoding', {
    description: 'Large answers of JSON streams come with gzip where it is preferred to `identity`.',
    schema: { type: 'string' },
    example: 'gzip',
  }),
  // Parameters of writes.
  'Content-Type': header('Content-Type', {
    description: 'Type of the stream, and of the bytes in the body.',
    schema: { type: 'string', maxLength: TOKEN_BYTES_MAX },
    example: 'application/json',
  }),
  'Stream-Closed': header('Stream-Closed', {
    description: '`true` closes the stream with this request: nothing can be appended afterwards.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'true',
  }),
  'Stream-Seq': header('Stream-Seq', {
    description: 'A token that must be greater, byte by byte, than the last one that the stream accepted.',
    schema: { type: 'string', maxLength: TOKEN_BYTES_MAX },
    example: '2026-11-23T10:00:00Z',
  }),
  'Stream-TTL': header('Stream-TTL', {
    description: 'The stream expires so many seconds after its last read or write. Excludes `Stream-Expires-At`.',
    schema: COUNT,
    example: 3600,
  }),
  'Stream-Expires-At': header('Stream-Expires-At', {
    description: 'The moment at which the stream expires (RFC 3339). Excludes `Stream-TTL`.',
    schema: { type: 'string', format: 'date-time' },
    example: '2027-01-01T00:00:00Z',
  }),
  'Stream-Attrs': header('Stream-Attrs', {
    description: `Attributes of the stream as JSON, up to ${ATTRIBUTES_BYTES_MAX} bytes; characters outside ASCII as \`\\u\` escapes.`,
    schema: { type: 'string' },
    example: '{"title":"Orders"}',
  }),
  'Stream-Record-Match': header('Stream-Record-Match', {
    description: 'The record tail that the stream must have; otherwise the append is refused with 412.',
    schema: COUNT,
    example: 42,
  }),
  'Stream-Expected-Offset': header('Stream-Expected-Offset', {
    description: 'The tail that the stream must have; otherwise the append is refused with 409 and the tail.',
    schema: { type: 'string', pattern: '^[0-9]{1,20}$' },
    example: '00000000000000000042',
  }),
  'Producer-Id': header('Producer-Id', {
    description: 'Name of a producer, whose requests take effect once. It comes with its epoch and sequence number.',
    schema: { type: 'string', minLength: 1, maxLength: PRODUCER_ID_BYTES_MAX },
    example: 'till-7',
  }),
  'Producer-Epoch': header('Producer-Epoch', {
    description: 'Raised when a producer starts again; lower epochs are refused from then on.',
    schema: COUNT,
    example: 0,
  }),
  'Producer-Seq': header('Producer-Seq', {
    description: 'Number of the request within its epoch: 0, 1, 2 and so on without a gap.',
    schema: COUNT,
    example: 17,
  }),
  'If-Match': header('If-Match', {
    description: 'The write happens only if the stream has one of these ETags, 16 at most, or exists at all (`*`).',
    schema: { type: 'string' },
    example: '"5d7f0c9a41e2b386"',
  }),
  'If-None-Match': header('If-None-Match', {
    description: 'The write happens only if the stream has none of these ETags, 16 at most, or does not exist (`*`).',
    schema: { type: 'string' },
    example: '*',
  }),
  'Stream-Forked-From': header('Stream-Forked-From', {
    description: 'Creates a fork: the path of the stream that it begins with.',
    schema: { type: 'string' },
    example: '/shop/orders',
  }),
  'Stream-Fork-Offset': header('Stream-Fork-Offset', {
    description: 'Where the fork leaves its source, an offset that the server returned. Default: the tail.',
    schema: { type: 'string' },
    example: '00000000000000000006',
  }),
  'Stream-Fork-Sub-Offset': header('Stream-Fork-Sub-Offset', {
    description: 'So many bytes, or records of a JSON stream, behind `Stream-Fork-Offset`.',
    schema: COUNT,
    example: 2,
  }),
  Prefer: header('Prefer', {
    description: '`return=minimal` answers 204 when every frame was accepted and there are no record ranges.',
    schema: { type: 'string' },
    example: 'return=minimal',
  }),
  // Parameters of snapshots and of the retention floor.
  'record of a position': query('record', {
    description: 'The position as a record of a JSON stream.',
    schema: COUNT,
    example: 41,
  }),
  'Stream-Snapshot-Match': header('Stream-Snapshot-Match', {
    description: 'The digest of the snapshot that this one replaces; another one is refused with 409.',
    schema: { type: 'string', pattern: '^[0-9a-fA-F]{64}$' },
    example: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef',
  }),
  // Parameters of listings.
  prefix: query('prefix', {
    description: 'Only streams whose names begin so.',
    schema: { type: 'string', maxLength: NAME_BYTES_MAX },
    example: 'orders/',
  }),
  after: query('after', {
    description: 'Only streams behind this name: the `next_cursor` of the page before.',
    schema: { type: 'string', maxLength: NAME_BYTES_MAX },
    example: 'orders/2026',
  }),
  limit: query('limit', {
    description: 'Streams of a page.',
    schema: { type: 'integer', minimum: 1, maximum: LIST_LIMIT_MAX },
    example: 100,
  }),
  // Parameters of operators.
  upto: query('upto', {
    description: 'The last index to drop from the log. Default: that of the last checkpoint.',
    schema: COUNT,
    example: 120_000,
  }),
  addr: query('addr', {
    description: 'HOST:PORT of the cluster plane of a node that `raft.peers` does not name.',
    schema: { type: 'string' },
    example: 'node-4.internal:4439',
  }),
  voters: {
    ...query('voters', {
      description: 'Ids of all nodes that are to vote, separated by commas.',
      schema: { type: 'string', pattern: '^ *[0-9]+ *(, *[0-9]+ *)*$' },
      example: '1,2,3',
    }),
    required: true,
  },
  min_hot_bytes: query('min_hot_bytes', {
    description: 'Nothing is moved when the nodes hold fewer bytes of the stream than this.',
    schema: { ...COUNT, default: 1 },
    example: 1_048_576,
  }),
  'max_bytes of a flush': query('max_bytes', {
    description: 'At most so many bytes are moved.',
    schema: { ...COUNT, default: 8 * 1024 * 1024 },
    example: 8_388_608,
  }),
  adopt: query('adopt', {
    description:
      "`true`: the source of the backup is gone for good, and its objects in the cold store are this cluster's from now on.",
    schema: { type: 'string', enum: ['true', 'false'], default: 'false' },
    example: 'false',
  }),
  'X-Svc-Backup-Blake3': header('X-Svc-Backup-Blake3', {
    description: 'BLAKE3 digest of the upload, which is checked.',
    schema: { type: 'string', pattern: '^[0-9a-fA-F]{64}$' },
    example: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef',
  }),
  'X-Svc-Backup-Cluster': header('X-Svc-Backup-Cluster', {
    description: 'The `cluster_id` of the cluster that the backup is of.',
    schema: { type: 'string', pattern: '^[0-9a-f]{32}$' },
    example: '0123456789abcdef0123456789abcdef',
  }),
} as const satisfies Readonly<Record<string, Parameter>>;

export type ParameterName = keyof typeof PARAMETERS;
