/** Operations on the snapshots of an application, and on the retention floor. */
import { RECORD_RANGE, STORED_TYPE } from './headers.ts';
import type { HeaderName } from './headers.ts';
import { ASK, COLD, NO_STREAM, type Operation, type Operations, QUOTA, WRITE } from './operation.ts';

const PUBLISHED = [
  'Stream-Snapshot-Offset',
  'Stream-Snapshot-Digest',
  ...RECORD_RANGE,
] as const satisfies readonly HeaderName[];
const POSITION = [
  ...(['INVALID_POSITION', 'POSITION_INSIDE_MESSAGE', 'RECORDS_UNAVAILABLE', 'RECORD_OUT_OF_RANGE'] as const),
  ...(['STREAM_GONE', 'SNAPSHOT_BEYOND_TAIL', 'BORDER_UNCHECKED', 'CATCHING_UP'] as const),
  ...COLD,
] as const;

const PUBLISH: Operation = {
  id: 'publishSnapshot',
  tag: 'snapshots',
  summary: 'Publishes a snapshot of a stream.',
  text: 'It stands for the stream up to the position, where a message or record begins, and replaces the snapshot before it. The same snapshot again is 204.',
  parameters: ['Content-Type', 'Stream-Snapshot-Match'],
  body: { text: 'The snapshot: any bytes.', content: { '*/*': 'Bytes' } },
  answers: [{ status: 204, text: 'It is published.', headers: [...PUBLISHED, 'Stream-Next-Offset'] }],
  refusals: [
    ...WRITE,
    ...QUOTA,
    ...NO_STREAM,
    ...POSITION,
    ...(['SNAPSHOT_MISMATCH', 'SNAPSHOT_STALE', 'SNAPSHOT_CONFLICT'] as const),
  ],
};

const RETAIN: Operation = {
  id: 'raiseRetention',
  tag: 'snapshots',
  summary: 'Raises the retention floor.',
  text: 'Bytes below it are gone. It never falls, and never passes the published snapshot. A body is ignored.',
  answers: [{ status: 204, text: 'The floor is there.', headers: ['Stream-Retained-Offset', ...RECORD_RANGE] }],
  refusals: [...WRITE, ...NO_STREAM, ...POSITION, 'RETENTION_BACKWARDS', 'RETENTION_BEYOND_SNAPSHOT'],
};

export const SNAPSHOT_OPERATIONS: Operations = {
  'PUT /{bucket}/{stream}/snapshot': {
    ...PUBLISH,
    id: 'publishSnapshotAtRecord',
    summary: 'Publishes a snapshot of a stream up to a record.',
    parameters: ['record of a position', ...(PUBLISH.parameters ?? [])],
  },
  'PUT /{bucket}/{stream}/snapshot/{offset}': {
    ...PUBLISH,
    summary: 'Publishes a snapshot of a stream up to an offset.',
  },

  'GET /{bucket}/{stream}/snapshot': {
    id: 'findSnapshot',
    tag: 'snapshots',
    summary: 'Redirects to the published snapshot.',
    answers: [{ status: 307, text: 'It is at `Location`.', headers: ['Location', ...PUBLISHED] }],
    refusals: [...ASK, ...NO_STREAM, 'SNAPSHOT_NOT_FOUND'],
  },

  'GET /{bucket}/{stream}/snapshot/{offset}': {
    id: 'readSnapshot',
    tag: 'snapshots',
    summary: 'Reads the published snapshot.',
    answers: [
      {
        status: 200,
        text: 'The snapshot. Read the stream on at `Stream-Next-Offset`.',
        headers: [...PUBLISHED, 'Stream-Next-Offset', 'Stream-Up-To-Date', ...STORED_TYPE],
        content: { '*/*': 'Bytes' },
      },
    ],
    refusals: [...ASK, ...NO_STREAM, 'INVALID_POSITION', 'SNAPSHOT_NOT_FOUND'],
  },

  'DELETE /{bucket}/{stream}/snapshot/{offset}': {
    id: 'deleteSnapshot',
    tag: 'snapshots',
    summary: 'Never succeeds: publish a later snapshot instead.',
    answers: [],
    refusals: [...ASK, ...NO_STREAM, 'INVALID_POSITION', 'SNAPSHOT_IN_USE', 'SNAPSHOT_NOT_FOUND'],
  },

  'PUT /{bucket}/{stream}/retention': {
    ...RETAIN,
    id: 'raiseRetentionToRecord',
    summary: 'Raises the retention floor to a record.',
    parameters: ['record of a position'],
  },
  'PUT /{bucket}/{stream}/retention/{offset}': { ...RETAIN, summary: 'Raises the retention floor to an offset.' },

  'GET /{bucket}/{stream}/bootstrap': {
    id: 'bootstrap',
    tag: 'snapshots',
    summary: 'Reads the published snapshot and every message behind it.',
    answers: [
      {
        status: 200,
        text: 'The snapshot and the messages as parts. Read the stream on at `Stream-Next-Offset`.',
        headers: [...PUBLISHED, 'Stream-Next-Offset', 'Stream-Up-To-Date', 'Stream-Closed', ...STORED_TYPE],
        content: { 'multipart/mixed': 'Parts' },
      },
    ],
    refusals: [...ASK, ...NO_STREAM, ...COLD, 'INVALID_QUERY', 'STREAM_GONE', 'ANSWERS_FULL'],
  },
};
