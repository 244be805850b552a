/** Parts of a stream beside its bytes: attributes, forks, and the snapshot that its application publishes. */
import { BODY_BYTES_MAX } from '../../base/limits.ts';
import { CLIENT_FLAGS, type Verb, openStreams, textFlag } from '../context.ts';
import { Failure, UsageError } from '../../nodes/failure.ts';
import { wholeOf } from '../../nodes/http-client.ts';
import { piecesOf } from '../streams/pipes.ts';
import { offsetText } from '../streams/reading.ts';
import { expectStatus } from '../streams/stream-client.ts';
import { bucketedPath, parseStreamName } from '../streams/stream-name.ts';
import { STREAM, offsetOf } from './stream-read.ts';

export const streamAttrs: Verb = {
  name: 'stream attrs',
  about: 'show the attributes of a stream, or replace them all',
  words: ['stream', 'attributes'],
  examples: ['millracectl stream attrs demo/log', `millracectl stream attrs demo/log '{"title":"Audit"}'`],
  flags: {
    stream: STREAM,
    attributes: textFlag('JSON', 'an object with title and metadata; {} takes all away'),
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say } = context;
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    const path = `${bucketedPath(name)}/attrs`;
    const attributes = values.text('attributes');
    if (attributes !== undefined) {
      const headers = { 'content-type': 'application/json' };
      const call = { method: 'PUT', path, headers, body: Buffer.from(attributes), mayRepeat: true } as const;
      expectStatus(await client.call(call), name.text, 204);
    }
    const answer = await client.call({ method: 'GET', path, mayRepeat: true });
    say(expectStatus(answer, name.text, 200).body.toString('utf8').trim());
  },
};

export const streamFork: Verb = {
  name: 'stream fork',
  about: 'make a stream that begins with the content of another one and goes on by itself',
  words: ['stream', 'to'],
  examples: ['millracectl stream fork demo/log demo/try', 'millracectl stream fork demo/log demo/half --offset 4096'],
  flags: {
    stream: { ...STREAM, about: 'the source' },
    to: textFlag('BUCKET/STREAM', 'the new stream', { required: true }),
    offset: textFlag('OFFSET', 'up to where, as a node gave it (the tail)'),
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say } = context;
    const source = parseStreamName(values.required('stream'));
    const fork = parseStreamName(values.required('to'));
    const offset = offsetOf(context);
    const headers = {
      'stream-forked-from': source.path,
      ...(offset === undefined ? {} : { 'stream-fork-offset': offsetText(offset) }),
    };
    const answer = await (
      await openStreams(context)
    ).call({ method: 'PUT', path: fork.path, headers, mayRepeat: true });
    const { status } = expectStatus(answer, `fork ${fork.text} of ${source.text}`, 200, 201);
    say(`${fork.text}: ${status === 201 ? `forked from ${source.text}` : 'there already'}`);
  },
};

export const streamSnapshot: Verb = {
  name: 'stream snapshot',
  about: 'write the snapshot that an application published to stdout, or publish one',
  words: ['stream'],
  examples: [
    'millracectl stream snapshot demo/events > state.json',
    'millracectl stream snapshot demo/events --publish state.json --record 1000 --content-type application/json',
  ],
  onlyShows: (values) => !values.has('publish'),
  flags: {
    stream: STREAM,
    publish: textFlag('FILE', 'publish this one; - for stdin'),
    offset: textFlag('OFFSET', 'publish: it holds what is in front of this offset'),
    record: { kind: 'integer', value: 'N', about: 'publish: the same as a record of a JSON stream' },
    'content-type': textFlag('TYPE', 'publish: its type (application/octet-stream)'),
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, say } = context;
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    const path = `${bucketedPath(name)}/snapshot`;
    const file = values.text('publish');
    if (file === undefined) {
      const latest = await client.call({ method: 'GET', path, mayRepeat: true });
      const { headers } = expectStatus(latest, `a snapshot of ${name.text}`, 307);
      const at = /\/snapshot\/(\d{1,20})$/.exec(headers.location ?? '')?.[1];
      if (at === undefined) throw new Failure(`${name.text}: what answered is not a node of this service`);
      const answer = await client.call({ method: 'GET', path: `${path}/${at}`, mayRepeat: true });
      return await context.out.write(expectStatus(answer, `a snapshot of ${name.text}`, 200).body);
    }
    const offset = offsetOf(context);
    if ((offset === undefined) === !values.has('record'))
      throw new UsageError(
        'stream snapshot: --publish needs --offset or --record, which it holds everything in front of',
      );
    const body = await wholeOf(
      piecesOf(file, context),
      BODY_BYTES_MAX,
      () => new Failure('a snapshot may have 32 MiB'),
    );
    const place = offset === undefined ? `?record=${values.integer('record')}` : `/${offsetText(offset)}`;
    const headers = { 'content-type': values.text('content-type') ?? 'application/octet-stream' };
    const answer = await client.call({ method: 'PUT', path: path + place, headers, body, mayRepeat: true });
    expectStatus(answer, name.text, 204);
    say(`${name.text}: snapshot of ${body.length} bytes published`);
  },
};
