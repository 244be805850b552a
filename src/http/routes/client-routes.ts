/** The table of the client plane: streams, buckets, subscriptions, and the service routes that clients may ask. */
import type { Route } from '../router.ts';
import { handleAppend, handleBatch } from './append.ts';
import { handleGetAttributes, handlePutAttributes } from './attributes.ts';
import { handleBootstrap } from './bootstrap.ts';
import { handleCreateBucket, handleDeleteBucket, handleDescribeBucket, handleListStreams } from './bucket.ts';
import { handleCreate, handleDelete, handleHead } from './streams.ts';
import { handleRetention } from './position.ts';
import { handleRead } from './read.ts';
import { handleDeleteSnapshot, handleLatestSnapshot, handlePublish, handleReadSnapshot } from './snapshot.ts';
import type { ControlPort } from '../../subscriptions/ports.ts';
import { allowOfControl, handleControl } from './subscriptions.ts';

const STREAM = '/{bucket}/{stream}';
const ATTRIBUTES = `${STREAM}/attrs`;
const SNAPSHOT = `${STREAM}/snapshot`;
const SNAPSHOT_AT = `${SNAPSHOT}/{offset}`;
const RETENTION = `${STREAM}/retention`;

/** Patterns and names are read by paths.ts. The order of the rows is that of Allow. */
export const STREAM_ROUTES: readonly Route[] = [
  { methods: ['GET'], pattern: STREAM, operation: 'read', handler: handleRead },
  { methods: ['HEAD'], pattern: STREAM, operation: 'head', handler: handleHead },
  { methods: ['POST'], pattern: STREAM, operation: 'append', handler: handleAppend, checksEncoding: true },
  { methods: ['PUT'], pattern: STREAM, operation: 'create', handler: handleCreate },
  { methods: ['DELETE'], pattern: STREAM, operation: 'delete', handler: handleDelete },
  { methods: ['GET', 'HEAD'], pattern: ATTRIBUTES, operation: 'attrs', handler: handleGetAttributes },
  { methods: ['PUT'], pattern: ATTRIBUTES, operation: 'attrs', handler: handlePutAttributes },
  { methods: ['POST'], pattern: `${STREAM}/append-batch`, operation: 'batch', handler: handleBatch },
  { methods: ['GET', 'HEAD'], pattern: SNAPSHOT, operation: 'snapshot', handler: handleLatestSnapshot },
  { methods: ['PUT'], pattern: SNAPSHOT, operation: 'snapshot', handler: handlePublish },
  { methods: ['GET', 'HEAD'], pattern: SNAPSHOT_AT, operation: 'snapshot', handler: handleReadSnapshot },
  { methods: ['PUT'], pattern: SNAPSHOT_AT, operation: 'snapshot', handler: handlePublish },
  { methods: ['DELETE'], pattern: SNAPSHOT_AT, operation: 'snapshot', handler: handleDeleteSnapshot },
  { methods: ['PUT'], pattern: RETENTION, operation: 'retention', handler: handleRetention },
  { methods: ['PUT'], pattern: `${RETENTION}/{offset}`, operation: 'retention', handler: handleRetention },
  { methods: ['GET', 'HEAD'], pattern: `${STREAM}/bootstrap`, operation: 'bootstrap', handler: handleBootstrap },
  { methods: ['GET', 'HEAD'], pattern: '/{bucket}', operation: 'bucket', handler: handleDescribeBucket },
  { methods: ['PUT'], pattern: '/{bucket}', operation: 'bucket', handler: handleCreateBucket },
  { methods: ['DELETE'], pattern: '/{bucket}', operation: 'bucket', handler: handleDeleteBucket },
  { methods: ['GET', 'HEAD'], pattern: '/{bucket}/streams', operation: 'list', handler: handleListStreams },
];

/** Subscriptions. Their service tells methods apart, so that a refusal can name what the path takes. */
export function subscriptionRoutes(port: ControlPort): readonly Route[] {
  return [
    {
      methods: ['*'],
      pattern: '/v1/stream/__ds/*',
      operation: 'other',
      handler: (call) => handleControl(call, port),
      allow: (url) => allowOfControl(port, url),
    },
  ];
}
