/** Operations on buckets: those of clients, and those of operators for a bucket as a tenant. */
import { ASK, type Operations, WRITE } from './operation.ts';

export const BUCKET_OPERATIONS: Operations = {
  'PUT /{bucket}': {
    id: 'createBucket',
    tag: 'buckets',
    summary: 'Does nothing: a bucket needs no creation.',
    answers: [{ status: 201, text: 'Streams can be created in it.' }],
    refusals: [],
  },

  'GET /{bucket}': {
    id: 'describeBucket',
    tag: 'buckets',
    summary: 'Counts the streams of a bucket.',
    answers: [{ status: 200, text: 'The bucket.', content: { 'application/json': 'Bucket' } }],
    refusals: [...ASK, 'BUCKET_NOT_FOUND'],
  },

  'DELETE /{bucket}': {
    id: 'deleteBucket',
    tag: 'buckets',
    summary: 'Removes an empty bucket.',
    answers: [{ status: 204, text: 'It is gone.' }],
    refusals: [...ASK, ...WRITE, 'BUCKET_NOT_FOUND', 'BUCKET_NOT_EMPTY'],
  },

  'GET /{bucket}/streams': {
    id: 'listStreams',
    tag: 'buckets',
    summary: 'Lists the streams of a bucket, sorted by name.',
    parameters: ['prefix', 'after', 'limit'],
    answers: [
      {
        status: 200,
        text: 'A page; `next_cursor` goes into `after` for the next one.',
        content: { 'application/json': 'StreamList' },
      },
    ],
    refusals: [...ASK, 'INVALID_QUERY', 'BUCKET_NOT_FOUND'],
  },

  'DELETE /__svc/purge/{bucket}': {
    id: 'purgeBucket',
    tag: 'tenants',
    summary: 'Erases a bucket with its streams, in every group and in the cold store.',
    text: 'Repeat it when it was cut off. Usage counters survive it.',
    answers: [{ status: 200, text: 'It is erased.', content: { 'application/json': 'Purged' } }],
    refusals: [...ASK, ...WRITE],
  },

  'GET /__svc/quota/{bucket}': {
    id: 'readQuota',
    tag: 'tenants',
    summary: 'Shows the quota of a bucket, and what it uses.',
    answers: [{ status: 200, text: 'The quota; null: no bound.', content: { 'application/json': 'QuotaUse' } }],
    refusals: ASK,
  },

  'PUT /__svc/quota/{bucket}': {
    id: 'setQuota',
    tag: 'tenants',
    summary: 'Sets the quota of a bucket.',
    text: 'A member that is absent or null sets no bound, and no body clears the quota.',
    parameters: ['Content-Type'],
    body: { text: 'The quota.', content: { 'application/json': 'Quota' } },
    answers: [{ status: 204, text: 'All groups have it.' }],
    refusals: [...WRITE, 'UNSUPPORTED_MEDIA_TYPE', 'INVALID_JSON', 'INVALID_QUOTA'],
  },
};
