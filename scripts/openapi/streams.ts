/** Operations on one stream, and on its attributes. */
import { BATCH_FRAMES_MAX } from '../../src/base/limits.ts';
import { LIFETIME, PRODUCER_ECHO, RECORDS_WRITTEN, RECORD_RANGE, STORED_TYPE } from './headers.ts';
import type { HeaderName } from './headers.ts';
import { ASK, COLD, CONDITION, GROW, NO_STREAM, type Operations, PRODUCER, WRITE } from './operation.ts';
import type { ParameterName } from './parameters.ts';

const CONDITIONS = ['If-Match', 'If-None-Match'] as const satisfies readonly ParameterName[];
const PRODUCER_HEADERS = ['Producer-Id', 'Producer-Epoch', 'Producer-Seq'] as const satisfies readonly ParameterName[];
const WRITTEN = [
  'Stream-Next-Offset',
  'Stream-Closed',
  ...PRODUCER_ECHO,
  ...RECORDS_WRITTEN,
] as const satisfies readonly HeaderName[];
const CREATED = [...WRITTEN, ...LIFETIME, ...STORED_TYPE, 'Location'] as const satisfies readonly HeaderName[];
const READ = [
  ...['Stream-Next-Offset', 'Stream-Up-To-Date', 'Stream-Closed', 'Stream-Cursor', 'ETag', 'Vary'],
  ...['Stream-Record-First', 'Stream-Record-Start', 'Stream-Record-Next', 'Stream-Extensions', 'Stream-Incarnation'],
] as const satisfies readonly HeaderName[];
/** Refusals of messages, with or without a JSON type. */
const MESSAGES = ['INVALID_JSON', 'TOO_MANY_RECORDS'] as const;

export const STREAM_OPERATIONS: Operations = {
  'PUT /{bucket}/{stream}': {
    id: 'createStream',
    tag: 'streams',
    summary: 'Creates a stream, or a fork of one.',
    text: 'A stream that exists with the same configuration is left as it is. A body is the first message of a new stream.',
    parameters: [
      ...(['Content-Type', 'Stream-Closed', 'Stream-TTL', 'Stream-Expires-At', 'Stream-Seq', 'Stream-Attrs'] as const),
      ...PRODUCER_HEADERS,
      ...CONDITIONS,
      ...(['Stream-Forked-From', 'Stream-Fork-Offset', 'Stream-Fork-Sub-Offset'] as const),
    ],
    body: {
      text: 'The first message. A JSON stream takes one value or an array of values.',
      content: { '*/*': 'Bytes', 'application/json': 'Value' },
    },
    answers: [
      { status: 201, text: 'The stream is new.', headers: CREATED },
      { status: 200, text: 'It exists with this configuration. Nothing is written.', headers: CREATED },
    ],
    refusals: [
      ...GROW,
      ...CONDITION,
      ...PRODUCER,
      ...MESSAGES,
      ...(['INVALID_ATTRIBUTES', 'CREATE_CONFLICT', 'NAME_HELD', 'SEQ_CONFLICT'] as const),
      ...(['FORK_SOURCE_NOT_FOUND', 'FORK_SOURCE_DELETED', 'FORK_BEYOND_TAIL', 'FORK_SUB_OFFSET_BEYOND'] as const),
      ...(['FORK_TYPE_MISMATCH', 'FORK_FORMING', 'FORK_LOST', 'FORK_SOURCE_MOVED', 'FORKS_FULL'] as const),
      ...(['STREAM_GONE', 'OFFSET_INSIDE_RECORD', 'CATCHING_UP', 'UNCONFIRMED', 'NOT_APPLIED'] as const),
      ...COLD,
    ],
  },

  'POST /{bucket}/{stream}': {
    id: 'append',
    tag: 'streams',
    summary: 'Appends to a stream, closes it, or both.',
    text: 'The answer leaves when the write is on disk: on a majority of disks in a cluster.',
    parameters: [
      ...(['Content-Type', 'Stream-Closed', 'Stream-Seq', 'Stream-Record-Match', 'Stream-Expected-Offset'] as const),
      ...PRODUCER_HEADERS,
      ...CONDITIONS,
    ],
    body: {
      text: 'One message. A JSON stream takes one value or an array of values, each of which becomes a record. Empty only to close.',
      content: { '*/*': 'Bytes', 'application/json': 'Value' },
    },
    answers: [
      { status: 204, text: 'Appended, or a repeat of what a producer has appended before.', headers: WRITTEN },
      { status: 200, text: 'Appended for a producer.', headers: WRITTEN },
    ],
    refusals: [
      ...GROW,
      ...NO_STREAM,
      ...CONDITION,
      ...PRODUCER,
      ...MESSAGES,
      ...(['EMPTY_JSON_ARRAY', 'EMPTY_BODY', 'MISSING_CONTENT_TYPE', 'CONTENT_TYPE_MISMATCH'] as const),
      ...(['RECORD_MATCH_WITHOUT_RECORDS', 'RECORD_PRECONDITION_FAILED', 'STREAM_CLOSED', 'SEQ_CONFLICT'] as const),
      'EXPECTED_OFFSET_CONFLICT',
    ],
  },

  'GET /{bucket}/{stream}': {
    id: 'read',
    tag: 'streams',
    summary: 'Reads a stream from a position, at once or live.',
    text: 'What the node shows is on a majority of disks.',
    parameters: [
      ...(['offset', 'max_bytes', 'record', 'tail_records', 'max_records', 'record_view'] as const),
      ...([
        'live',
        'timeout_ms',
        'cursor',
        'event',
        'wait',
        'Last-Event-ID',
        'If-None-Match of a read',
        'Accept-Encoding',
      ] as const),
    ],
    answers: [
      {
        status: 200,
        text: 'Bytes or records from the position on, or an event stream with `live=sse`.',
        headers: [
          ...READ,
          ...STORED_TYPE,
          ...(['Content-Encoding', 'Stream-SSE-Data-Encoding', 'Stream-Data-Content-Type'] as const),
        ],
        content: { '*/*': 'Bytes', 'application/json': 'Records', 'text/event-stream': 'Events' },
      },
      {
        status: 204,
        text: 'Of a long-poll: nothing was appended in time, or the stream is closed. Of an event stream: the client has seen the end.',
        headers: READ,
      },
      { status: 304, text: 'The client has this answer.', headers: [...READ, ...STORED_TYPE] },
    ],
    refusals: [
      ...ASK,
      ...NO_STREAM,
      ...COLD,
      ...(['INVALID_QUERY', 'RECORDS_UNAVAILABLE', 'RECORD_OUT_OF_RANGE', 'OFFSET_INSIDE_RECORD'] as const),
      ...(['STREAM_GONE', 'OFFSET_OUT_OF_RANGE', 'ANSWERS_FULL', 'WATCHERS_FULL', 'READERS_LIMITED'] as const),
    ],
  },

  'HEAD /{bucket}/{stream}': {
    id: 'describe',
    tag: 'streams',
    summary: 'Describes a stream in headers.',
    answers: [
      {
        status: 200,
        text: 'The stream exists.',
        headers: [
          ...(['Stream-Next-Offset', 'Stream-Up-To-Date', 'Stream-Closed', 'Stream-Retained-Offset', 'ETag'] as const),
          ...(['Stream-Cold-Hot-Start-Offset', 'Stream-Snapshot-Offset', 'Stream-Snapshot-Digest', 'Vary'] as const),
          ...LIFETIME,
          ...RECORD_RANGE,
          ...STORED_TYPE,
        ],
      },
    ],
    refusals: [...ASK, ...NO_STREAM],
  },

  'DELETE /{bucket}/{stream}': {
    id: 'deleteStream',
    tag: 'streams',
    summary: 'Deletes a stream.',
    text: 'Its name is free at once, unless forks of it live.',
    parameters: CONDITIONS,
    answers: [{ status: 204, text: 'It is gone.' }],
    refusals: [...WRITE, ...NO_STREAM, ...CONDITION],
  },

  'POST /{bucket}/{stream}/append-batch': {
    id: 'appendBatch',
    tag: 'streams',
    summary: `Appends up to ${BATCH_FRAMES_MAX} messages in one request.`,
    text: 'Without producer headers each frame is an append of its own. With them the batch is one sequence number, and all or nothing.',
    parameters: ['Content-Type', 'Stream-Expected-Offset', ...PRODUCER_HEADERS, 'Prefer'],
    body: { text: 'The frames.', content: { '*/*': 'Frames' }, isRequired: true },
    answers: [
      {
        status: 200,
        text: 'What became of each frame.',
        headers: ['Stream-Next-Offset', ...PRODUCER_ECHO, 'Stream-Extensions'],
        content: { 'application/json': 'FrameResults' },
      },
      {
        status: 204,
        text: 'All frames were accepted, and the client asked for no more than that.',
        headers: ['Stream-Next-Offset', ...PRODUCER_ECHO],
      },
    ],
    refusals: [
      ...GROW,
      ...NO_STREAM,
      ...PRODUCER,
      ...MESSAGES,
      ...(['EMPTY_JSON_ARRAY', 'EMPTY_BODY', 'INVALID_BATCH', 'TOO_MANY_FRAMES'] as const),
      ...(['CONTENT_TYPE_MISMATCH', 'STREAM_CLOSED', 'EXPECTED_OFFSET_CONFLICT', 'UPGRADE_UNFINISHED'] as const),
    ],
  },

  'GET /{bucket}/{stream}/attrs': {
    id: 'readAttributes',
    tag: 'attributes',
    summary: 'Reads the attributes of a stream.',
    answers: [
      { status: 200, text: 'The attributes; `{}` when there are none.', content: { 'application/json': 'Attributes' } },
    ],
    refusals: [...ASK, ...NO_STREAM],
  },

  'PUT /{bucket}/{stream}/attrs': {
    id: 'replaceAttributes',
    tag: 'attributes',
    summary: 'Replaces the attributes of a stream.',
    text: 'They take up to 16 KiB. Other members than `title` and `metadata` are dropped, and `{}` clears them. A closed stream takes them too.',
    parameters: ['Content-Type'],
    body: { text: 'The attributes.', content: { 'application/json': 'Attributes' }, isRequired: true },
    answers: [{ status: 204, text: 'They are replaced.' }],
    refusals: [...WRITE, ...NO_STREAM, 'MISSING_CONTENT_TYPE'],
    bodyRefusals: ['INVALID_ATTRIBUTES', 'INFLIGHT_FULL'],
  },
};
