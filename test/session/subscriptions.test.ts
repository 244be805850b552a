// Subscriptions on a real node: what they bring, how far their credit goes, how they end, and that none waits for another.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TestServer, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import {
  APPEND,
  CREATE,
  CREDIT,
  DELETE,
  DONE,
  EVENT,
  JSON_TYPE,
  REFUSED,
  SUBSCRIBE,
  SessionClient,
  TEXT,
  type Told,
  UNSUBSCRIBE,
} from './client.ts';

const MUCH = 1_000_000;

async function withSession(body: (client: SessionClient, server: TestServer) => Promise<void>): Promise<void> {
  await withServer({ groups: 4 }, async (server) => {
    const client = await SessionClient.connect(server.port);
    await body(client, server);
    assert.equal(client.closeCode, undefined, client.closeReason);
    client.destroy();
  });
}

/** Appends in the order of the texts. */
async function append(client: SessionClient, stream: string, ...texts: readonly string[]): Promise<void> {
  let id = 10_000;
  client.send(...texts.map((text) => [APPEND, id++, 'b', stream, Buffer.from(text), TEXT]));
  for (let i = 10_000; i < id; i++) assert.equal((await client.about(i)).kind, DONE);
}

/** Bodies of the events of `id`, joined, up to so many characters. */
async function follow(client: SessionClient, id: number, chars: number): Promise<string> {
  let text = '';
  while (text.length < chars) {
    const event = await client.about(id);
    assert.equal(event.kind, EVENT, event.sentence);
    text += event.body;
  }
  return text;
}

async function metricOf(server: TestServer, name: string): Promise<number | undefined> {
  return ((await server.metrics()) as Record<string, number>)[name];
}

test('the tail is that of the moment when the subscription came, also without credit', async () => {
  await withSession(async (client) => {
    await client.ask(CREATE, 1, 'b', 's', Buffer.from('["before"]'), JSON_TYPE);
    for (const options of [{ offset: 'now' }, { record: 'now' }]) {
      client.send([SUBSCRIBE, 2, 'b', 's', 0, options], [APPEND, 3, 'b', 's', Buffer.from('["after"]'), JSON_TYPE]);
      assert.equal((await client.about(3)).kind, DONE);
      client.send([CREDIT, 2, MUCH]);
      const first = await client.about(2);
      assert.deepEqual([first.kind, first.body], [EVENT, '']);
      assert.equal(await follow(client, 2, 9), '["after"]');
      await client.ask(UNSUBSCRIBE, 2);
    }
  });
});

test('all who follow a stream get its events, whatever their ids, their options, and what else they are told', async () => {
  await withSession(async (client, server) => {
    await client.ask(CREATE, 1, 'b', 's', Buffer.from(''), TEXT);
    await client.ask(CREATE, 2, 'b', 'j', Buffer.from('[]'), JSON_TYPE);
    const others = await Promise.all(Array.from({ length: 3 }, () => SessionClient.connect(server.port)));
    const [same, twice, small] = others as [SessionClient, SessionClient, SessionClient];
    const subscriptions: readonly (readonly [SessionClient, number, Record<string, unknown>])[] = [
      [client, 7, { offset: 'now' }],
      [same, 7, { offset: 0 }],
      [twice, 7, { offset: 0 }],
      [twice, 300, { offset: 0 }],
      [small, 7, { offset: 0, max_bytes: 1 }],
    ];
    for (const [one, id, options] of subscriptions) {
      one.send([SUBSCRIBE, id, 'b', 's', MUCH, options]);
      assert.equal((await one.about(id)).kind, EVENT);
    }
    twice.send([SUBSCRIBE, 8, 'b', 'j', MUCH, { offset: 'now' }]);
    assert.equal((await twice.about(8)).kind, EVENT);
    const texts = Array.from({ length: 40 }, (_, i) => `text ${i} `);
    for (const text of texts.slice(0, 20)) await append(client, 's', text);
    twice.send(...Array.from({ length: 20 }, (_, i) => [APPEND, 500 + i, 'b', 'j', Buffer.from(`[${i}]`), JSON_TYPE]));
    await append(client, 's', ...texts.slice(20));
    const whole = texts.join('');
    for (const [one, id] of subscriptions) assert.equal(await follow(one, id, whole.length), whole, `${id}`);
    for (let i = 0; i < 20; i++) assert.equal((await twice.about(500 + i)).kind, DONE);
    for (const other of others) {
      assert.equal(other.closeCode, undefined, other.closeReason);
      other.destroy();
    }
  });
});

test('a subscription brings what is there and what comes, from an offset, a record or the tail', async () => {
  await withSession(async (client, server) => {
    await client.ask(CREATE, 1, 'b', 's', Buffer.from('before'), TEXT);
    await client.ask(CREATE, 2, 'b', 'j', Buffer.from('[1,2,3]'), JSON_TYPE);
    client.send(
      [SUBSCRIBE, 3, 'b', 's', MUCH, { offset: 2 }],
      [SUBSCRIBE, 4, 'b', 's', MUCH, { offset: 'now' }],
      [SUBSCRIBE, 5, 'b', 'j', MUCH, { record: 1 }],
      [SUBSCRIBE, 6, 'b', 'j', MUCH, { offset: 0 }],
    );
    const first = await client.about(3);
    const { 'stream-incarnation': incarnation = '' } = first.fields;
    assert.match(incarnation, /^[0-9a-f]{16}$/);
    const state = { 'stream-incarnation': incarnation, 'stream-up-to-date': 'true' };
    const upToDate = { 'content-type': 'text/plain', ...state };
    assert.deepEqual([first.next, first.body, first.fields], [6, 'fore', upToDate]);
    const tail = await client.about(4);
    assert.deepEqual([tail.next, tail.body, tail.fields], [6, '', upToDate]);
    const records = await client.about(5);
    assert.deepEqual([records.body, records.fields['stream-record-next']], ['[2,3]', '3']);
    assert.equal((await client.about(6)).body, '[1,2,3]');
    assert.equal(await metricOf(server, 'session_subscriptions'), 4);

    await append(client, 's', 'X', 'YZ');
    assert.equal(await follow(client, 3, 3), 'XYZ');
    assert.equal(await follow(client, 4, 3), 'XYZ');
    await client.ask(APPEND, 7, 'b', 'j', Buffer.from('{"n":4}'), JSON_TYPE);
    assert.equal((await client.about(5)).body, '[{"n":4}]');
    assert.equal((await client.about(6)).body, '[{"n":4}]');

    assert.equal((await client.ask(UNSUBSCRIBE, 4)).kind, DONE);
    await client.ask(APPEND, 7, 'b', 's', null, { 'stream-closed': true });
    const last = await client.about(3);
    assert.deepEqual([last.next, last.fields['stream-closed']], [9, 'true']);
    client.send([DELETE, 8, 'b', 'j', {}]);
    for (const id of [5, 6]) assert.equal((await client.about(id)).code, 'STREAM_NOT_FOUND');
    assert.equal(await metricOf(server, 'session_subscriptions'), 0);
    // All of these ids are free again.
    assert.equal((await client.ask(SUBSCRIBE, 3, 'b', 's', MUCH, { offset: 0 })).body, 'beforeXYZ');
    assert.equal(client.told.filter(({ id }) => id === 4).length, 0);
  });
});

test('the first event tells a stream from another one of its name, as reads over HTTP do', async () => {
  await withSession(async (client, server) => {
    const seen = new Set<string | undefined>();
    for (const text of ['one', 'other']) {
      await client.ask(CREATE, 1, 'b', 's', Buffer.from(text), TEXT);
      const { fields } = await client.ask(SUBSCRIBE, 2, 'b', 's', MUCH, { offset: 0 });
      seen.add(fields['stream-incarnation']);
      for (const query of ['offset=1', 'offset=now', `offset=${text.length}&live=long-poll&timeout_ms=1`]) {
        const { headers } = await server.client.request('GET', `/b/s?${query}`);
        assert.equal(headers.get('stream-incarnation'), fields['stream-incarnation'], query);
      }
      await append(client, 's', '!');
      assert.deepEqual((await client.about(2)).fields, { 'stream-up-to-date': 'true' });
      await client.ask(UNSUBSCRIBE, 2);
      await client.ask(DELETE, 3, 'b', 's', {});
    }
    assert.equal(seen.size, 2);
  });
});

test('a subscription begins behind the requests before it, also one that is taken back at once', async () => {
  await withSession(async (client) => {
    client.send(
      [CREATE, 1, 'b', 's', Buffer.from('a'), TEXT],
      [SUBSCRIBE, 2, 'b', 's', MUCH, { offset: 0 }],
      [SUBSCRIBE, 3, 'b', 's', MUCH, { offset: 0 }],
      [UNSUBSCRIBE, 3],
      [APPEND, 4, 'b', 's', Buffer.from('b'), TEXT],
    );
    assert.equal(await follow(client, 2, 2), 'ab');
    const gone = await client.about(3);
    assert.deepEqual([gone.kind, gone.next], [DONE, null]);
    assert.equal((await client.ask(SUBSCRIBE, 3, 'b', 's', MUCH, { offset: 1 })).body, 'b');
  });
});

test('a subscription may wait for a stream that is not there, until it is made or not wanted any more', async () => {
  await withSession(async (client, server) => {
    const wait = { offset: 0, wait: 'create' };
    client.send([SUBSCRIBE, 1, 'b', 's', MUCH, wait], [SUBSCRIBE, 2, 'b', 's', MUCH, wait]);
    assert.equal((await client.ask(SUBSCRIBE, 3, 'b', 's', MUCH, { offset: 0, wait: 'x' })).code, 'INVALID_QUERY');
    assert.equal((await client.ask(UNSUBSCRIBE, 2)).kind, DONE);
    assert.deepEqual([await metricOf(server, 'session_subscriptions'), client.told], [1, []]);
    const other = await SessionClient.connect(server.port);
    await other.ask(CREATE, 1, 'b', 's', Buffer.from('made'), TEXT);
    assert.equal(await follow(client, 1, 4), 'made');
    await append(other, 's', '!');
    assert.equal(await follow(client, 1, 1), '!');
    assert.equal(client.told.length, 0);
    other.destroy();
  });
});

test('a subscription that waits for a stream at its tail gets everything that is appended to it', async () => {
  await withSession(async (client) => {
    for (const [id, options] of [{ offset: 'now' }, { record: 'now' }, { tail_records: 1 }].entries()) {
      const stream = `s${id}`;
      client.send([SUBSCRIBE, id, 'b', stream, MUCH, { ...options, wait: 'create' }]);
      for (const [at, kind] of [CREATE, APPEND].entries()) {
        client.send([kind, 100 + at, 'b', stream, Buffer.from(`[${at}]`), JSON_TYPE]);
        assert.equal((await client.about(100 + at)).kind, DONE);
      }
      assert.match(await follow(client, id, 1), /^\[0/);
    }
  });
});

test('no event goes over the credit, and what was left out is read when more comes', async () => {
  await withSession(async (client) => {
    await client.ask(CREATE, 1, 'b', 's', Buffer.from('0123456789'), TEXT);
    client.send([SUBSCRIBE, 2, 'b', 's', 4, { offset: 0 }]);
    const first = await client.about(2);
    assert.deepEqual([first.body, first.next, first.fields['stream-up-to-date']], ['0123', 4, undefined]);
    await append(client, 's', 'abc');
    assert.equal(client.told.length, 0);
    client.send([CREDIT, 2, 0], [CREDIT, 2, 7]);
    assert.equal(await follow(client, 2, 7), '456789a');
    client.send([CREDIT, 2, 1], [CREDIT, 2, 1], [CREDIT, 2, 1]);
    assert.equal(await follow(client, 2, 2), 'bc');
    // Live, with a credit of one byte.
    await append(client, 's', 'de');
    assert.equal(await follow(client, 2, 1), 'd');
    client.send([CREDIT, 2, Number.MAX_SAFE_INTEGER], [CREDIT, 2, Number.MAX_SAFE_INTEGER], [CREDIT, 77, 5]);
    assert.equal(await follow(client, 2, 1), 'e');

    // Records are whole: the last one may go over.
    await client.ask(CREATE, 3, 'b', 'j', Buffer.from('["long enough",1,2]'), JSON_TYPE);
    const record = await client.ask(SUBSCRIBE, 4, 'b', 'j', 1, { offset: 0 });
    assert.equal(record.body, '["long enough"]');
    client.send([CREDIT, 4, 10]);
    client.send([CREDIT, 4, 10]);
    assert.equal((await client.about(4)).body, '[1,2]');
  });
});

test('subscriptions without credit hold up no other, and nothing is kept for them', async () => {
  await withSession(async (client, server) => {
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    const slow = Array.from({ length: 50 }, (_, i) => 100 + i);
    client.send(
      [SUBSCRIBE, 2, 'b', 's', MUCH, { offset: 0 }],
      ...slow.map((id) => [SUBSCRIBE, id, 'b', 's', 1, { offset: 0 }]),
    );
    const text = 'x'.repeat(10_000);
    for (let i = 0; i < 20; i++) await append(client, 's', text);
    assert.equal((await follow(client, 2, 200_000)).length, 200_000);
    for (const id of slow) assert.equal((await follow(client, id, 1)).length, 1);
    assert.equal(client.told.length, 0);
    assert.equal(await metricOf(server, 'http_unsent_answer_bytes'), 0);
    client.send(...slow.map((id) => [CREDIT, id, MUCH]));
    for (const id of slow) assert.equal((await follow(client, id, 199_999)).length, 199_999);
  });
});

test('a client that does not read holds up no other and gets everything when it reads', async () => {
  await withSession(async (client, server) => {
    const idle = await SessionClient.connect(server.port);
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    idle.socket.pause();
    idle.send([SUBSCRIBE, 2, 'b', 's', 60 * MUCH, { offset: 0 }]);
    client.send([SUBSCRIBE, 2, 'b', 's', 60 * MUCH, { offset: 0 }]);
    const text = 'y'.repeat(200_000);
    const count = 80;
    let unsent = 0;
    for (let i = 0; i < count; i++) {
      await append(client, 's', text);
      unsent = Math.max(unsent, (await metricOf(server, 'http_unsent_answer_bytes')) ?? 0);
    }
    assert.equal((await follow(client, 2, count * text.length)).length, count * text.length);
    assert(unsent > 0 && unsent < 2 * MUCH, `${unsent} bytes wait for a client that does not read`);
    idle.socket.resume();
    assert.equal((await follow(idle, 2, count * text.length)).length, count * text.length);
    const told: Told[] = idle.told.filter(({ kind }) => kind === REFUSED);
    assert.deepEqual(told, []);
    idle.destroy();
  });
});

test('subscriptions that begin together read in turns, and none is lost when the client does not read', async () => {
  await withSession(async (client, server) => {
    const idle = await SessionClient.connect(server.port);
    const bytes = 1_500_000;
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    for (let i = 0; i < 10; i++) await append(client, 's', 'z'.repeat(bytes / 10));
    idle.socket.pause();
    const ids = Array.from({ length: 20 }, (_, i) => i);
    idle.send(...ids.map((id) => [SUBSCRIBE, id, 'b', 's', 2 * bytes, { offset: 0 }]));
    await until('its socket is full', async () => ((await metricOf(server, 'http_unsent_answer_bytes')) ?? 0) > MUCH);
    const unsent = (await metricOf(server, 'http_unsent_answer_bytes')) ?? 0;
    assert(unsent < 5 * MUCH, `${unsent} bytes wait`);
    // Others are not held up.
    assert.equal((await client.ask(SUBSCRIBE, 2, 'b', 's', MUCH, { offset: bytes - 3 })).body, 'zzz');
    idle.socket.resume();
    for (const id of ids) assert.equal((await follow(idle, id, bytes)).length, bytes);
    assert.equal(await metricOf(server, 'http_unsent_answer_bytes'), 0);
    idle.destroy();
  });
});
