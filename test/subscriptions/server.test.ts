// Subscriptions of a real server: webhooks, workers, what ends them, and what a SIGKILL leaves of them.
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { test } from 'node:test';
import { type ServerOptions, TestServer, withServer } from '../support/server.ts';
import { Subscriber, allOf } from '../support/subscriber.ts';
import { until } from '../support/until.ts';
import {
  type Answering,
  type Received,
  type WakeBody,
  WebhookReceiver,
  assertSigned,
} from '../support/webhook-receiver.ts';

const LOCAL = '[subscriptions]\nlocal_webhooks = true\n';
const LONG_MS = 600_000;

interface Stage {
  readonly server: TestServer;
  readonly subs: Subscriber;
  readonly receiver: WebhookReceiver;
}

async function onStage(
  answer: Answering,
  body: (stage: Stage) => Promise<void>,
  options: ServerOptions = {},
): Promise<void> {
  const receiver = await WebhookReceiver.start(answer);
  try {
    await withServer({ groups: 4, toml: LOCAL, ...options }, async (server) => {
      await body({ server, subs: new Subscriber(() => server.url), receiver });
    });
  } finally {
    await receiver.close();
  }
}

function webhook(receiver: WebhookReceiver, more: object = {}): object {
  return { type: 'webhook', pattern: 'events/**', webhook: { url: receiver.url }, lease_ttl_ms: LONG_MS, ...more };
}

async function metrics(server: TestServer): Promise<Record<string, number | boolean>> {
  return (await server.metrics())['subscriptions'] as Record<string, number | boolean>;
}

test('a wake is signed, its events are acknowledged by callbacks, and later events are the next wake', async () => {
  await onStage(
    () => 200,
    async ({ subs, receiver }) => {
      await subs.create('events/old', { n: 0 });
      const shown = await subs.subscribe('s', webhook(receiver));
      const [old] = shown.streams;
      assert(old !== undefined && Number(old.acked_offset) > 0, 'history is not replayed');
      await subs.create('events/deep/new', { n: 1 });
      const first = await receiver.next();
      await assertSigned(first, shown.webhook.signing.jwks_url);
      assert.equal(first.body.callback_url, `${subs.base()}/v1/stream/__ds/subscriptions/s/callback`);
      const fresh = first.body.streams.find((stream) => stream.path === 'events/deep/new');
      assert.equal(Number(fresh?.acked_offset), 0);
      await subs.append('events/old');
      const heartbeat = await subs.callBack(first.body, {});
      assert.deepEqual(heartbeat, { ok: true, next_wake: false });
      const done = await subs.callBack(first.body, { acks: allOf(first.body), done: true });
      assert.deepEqual(done, { ok: true, next_wake: true });
      const second = await receiver.next();
      assert.equal(second.body.generation, first.body.generation + 1);
      assert.notEqual(second.body.wake_id, first.body.wake_id);
      const pending = second.body.streams.filter((stream) => stream.has_pending).map((stream) => stream.path);
      assert.deepEqual(pending, ['events/old']);
      const stale = await subs.callBack(first.body, { acks: allOf(first.body), done: true }, 409);
      assert.equal((stale as { error: { code: string } }).error.code, 'FENCED');
    },
  );
});

test('acks beyond the tail, of strangers, backwards or of no offset change nothing', async () => {
  await onStage(
    () => 200,
    async ({ subs, receiver }) => {
      await subs.subscribe('s', webhook(receiver));
      await subs.create('events/a', { n: 1 });
      await subs.create('other/a', { n: 1 });
      const { body } = await receiver.next();
      const tail = Number(body.streams[0]?.tail_offset);
      for (const [stream, offset] of [
        ['events/a', String(tail + 1)],
        ['events/a', '-1'],
        ['events/a', 'now'],
        ['other/a', '0'],
        ['events/none', '0'],
      ]) {
        const refused = await subs.callBack(body, { acks: [{ stream, offset }], done: true }, 409);
        assert.equal((refused as { error: { code: string } }).error.code, 'INVALID_OFFSET', `${stream} ${offset}`);
      }
      assert.equal(await subs.acked('s', 'events/a'), 0);
      const path = '__ds/subscriptions/s/callback';
      const wake = { wake_id: body.wake_id, generation: body.generation, done: true };
      const bearer = (token: string): object => ({ authorization: `Bearer ${token}` });
      await subs.expect(401, 'POST', path, wake);
      await subs.expect(401, 'POST', path, wake, bearer('nonsense'));
      // A caller without a token learns nothing.
      await subs.expect(401, 'POST', '__ds/subscriptions/none/callback', wake, bearer('nonsense'));
      await subs.expect(400, 'POST', '__ds/subscriptions/s/ack', wake, bearer(body.callback_token));
      await subs.expect(409, 'POST', path, { ...wake, generation: 2 }, bearer(body.callback_token));
      await subs.expect(204, 'DELETE', '__ds/subscriptions/s');
      await subs.expect(404, 'POST', path, wake, bearer(body.callback_token));
      await subs.expect(404, 'GET', '__ds/subscriptions/s');
      await subs.expect(204, 'DELETE', '__ds/subscriptions/s');
    },
  );
});

test('redirects are not followed, long answers are cut off; both have failed and are tried again', async () => {
  const answers: Answering[] = [() => 302, () => ({ padding: 'x'.repeat(100_000) }), () => 500, () => ({ done: true })];
  let calls = 0;
  const answer: Answering = (received) => (answers[calls++] ?? (() => 200))(received);
  await onStage(answer, async ({ subs, receiver }) => {
    await subs.subscribe('s', webhook(receiver));
    await subs.create('events/a', { n: 1 });
    const first = await receiver.next();
    await until('the failure shows', async () => (await subs.shown('s')).status === 'failed');
    for (let attempt = 2; attempt <= 4; attempt++) {
      const again = await receiver.next();
      assert.equal(again.body.wake_id, first.body.wake_id, 'the same wake, as long as its lease runs');
      assert.deepEqual(again.body.streams, first.body.streams);
    }
    await until('it is acknowledged', async () => (await subs.acked('s', 'events/a')) !== 0);
    assert.equal((await subs.shown('s')).status, 'active');
    assert(receiver.received.every(({ path }) => path === '/hook'));
  });
});

test('a deleted stream loses its link; recreated it is processed from its beginning', async () => {
  await onStage(
    () => ({ done: true }),
    async ({ subs, receiver }) => {
      await subs.subscribe('s', webhook(receiver, { streams: ['named'] }));
      for (const path of ['events/a', 'named']) {
        await subs.create(path, { n: 1 }, { n: 2 });
        await receiver.next();
        await until(`${path} is acknowledged`, async () => ((await subs.acked('s', path)) ?? 0) > 0);
        await subs.expect(204, 'DELETE', path);
      }
      await until('both are gone', async () => {
        const { streams } = await subs.shown('s');
        return streams.length === 1 && streams[0]?.path === 'named' && Number(streams[0].acked_offset) === 0;
      });
      for (const path of ['events/a', 'named']) {
        await subs.create(path, { n: 3 });
        const { body } = await receiver.next();
        const stream = body.streams.find((one) => one.path === path);
        assert.deepEqual([Number(stream?.acked_offset), stream?.has_pending], [0, true], path);
      }
    },
  );
});

test('an ack for a stream that was deleted moves no cursor of the one that took its name', async () => {
  await onStage(
    () => 200,
    async ({ subs, receiver }) => {
      await subs.subscribe('s', webhook(receiver));
      await subs.create('events/a', { n: 1 });
      const { body } = await receiver.next();
      const tail = await subs.tailOf('events/a');
      await subs.expect(204, 'DELETE', 'events/a');
      await until('its link is gone', async () => (await subs.shown('s')).streams.length === 0);
      await subs.create('events/a', { n: 2 }, { n: 3 }, { n: 4 });
      await until('another one is there', async () => (await subs.acked('s', 'events/a')) === 0);
      await subs.callBack(body, { acks: [{ stream: 'events/a', offset: String(tail) }] }, 409);
      assert.equal(await subs.acked('s', 'events/a'), 0);
      await subs.callBack(body, { done: true });
      const next = (await receiver.next()).body.streams.find(({ path }) => path === 'events/a');
      assert.deepEqual([Number(next?.acked_offset), next?.has_pending], [0, true]);
    },
  );
});

test('an ack for a stream that is not there says so, and not that its offset lies beyond the tail', async () => {
  await onStage(
    () => 200,
    async ({ subs, receiver }) => {
      await subs.subscribe('s', webhook(receiver, { pattern: null, streams: ['named'] }));
      await subs.create('named', { n: 1 });
      const { body } = await receiver.next();
      const why = async (offset: number): Promise<unknown> => {
        const acks = [{ stream: 'named', offset: String(offset) }];
        return ((await subs.callBack(body, { acks, done: true }, 409)) as { error: object }).error;
      };
      const code = 'INVALID_OFFSET';
      const tail = await subs.tailOf('named');
      assert.deepEqual(await why(tail + 1), { code, message: 'named: the offset lies beyond the tail' });
      await subs.expect(204, 'DELETE', 'named');
      const message = 'named: there is no such stream now: end this wake without it';
      for (const offset of [0, tail, tail + 1]) assert.deepEqual(await why(offset), { code, message }, `${offset}`);
      assert.deepEqual(await subs.callBack(body, { done: true }), { ok: true, next_wake: false });
    },
  );
});

test('SIGKILL keeps keys, cursors, wakes, the tokens that were given, and the schedule of attempts', async (t) => {
  const failing = await WebhookReceiver.start(() => 500);
  t.after(async () => await failing.close());
  await onStage(
    () => 200,
    async ({ server, subs, receiver }) => {
      const before = await subs.subscribe('s', webhook(receiver));
      await subs.create('events/a', { n: 1 }, { n: 2 });
      const { body } = await receiver.next();
      await subs.callBack(body, { acks: [{ stream: 'events/a', offset: '4' }] });
      await until('the delivery is noted', async () => (await metrics(server))['delivered'] === 1);
      await subs.subscribe('failing', webhook(failing, { pattern: 'others/**' }));
      await subs.create('others/a', { n: 1 });
      const attempts = [await failing.next(), await failing.next(), await failing.next(), await failing.next()];
      await until('the fourth failure is noted', async () => (await metrics(server))['delivery_failures'] === 4);
      await server.kill();
      await server.start();
      assert.equal(await subs.acked('s', 'events/a'), 4);
      const after = await subs.subscribe('s', webhook(receiver), 200);
      assert.equal(after.webhook.signing.kid, before.webhook.signing.kid);
      await subs.callBack(body, { acks: allOf(body), done: true });
      await subs.append('events/a');
      const next = await receiver.next();
      assert.equal(next.body.generation, body.generation + 1, 'the wake that was taken is not delivered again');
      await assertSigned(next, after.webhook.signing.jwks_url);
      const fifth = await failing.next();
      // After four failures 8 s less 20 %; only the lower bound says anything on a busy machine.
      const pauseMs = fifth.atMs - (attempts[3]?.atMs ?? 0);
      assert(pauseMs >= 6400, `the fifth attempt came ${Math.round(pauseMs)} ms after the fourth`);
      assert.equal(fifth.body.wake_id, attempts[0]?.body.wake_id);
    },
    { process: true },
  );
});

test('a subscriber whose lease ends is fenced off, and another one is woken', async () => {
  await onStage(
    () => 200,
    async ({ subs, receiver }) => {
      // By name, so that the address comes from the lookup that is looked at.
      const url = receiver.url.replace('127.0.0.1', 'localhost');
      await subs.subscribe('s', webhook(receiver, { lease_ttl_ms: 1000, webhook: { url } }));
      await subs.create('events/a', { n: 1 });
      const first = await receiver.next();
      const second = await receiver.next();
      assert.equal(second.body.generation, first.body.generation + 1);
      await subs.callBack(first.body, { acks: allOf(first.body), done: true }, 409);
      assert.equal(await subs.acked('s', 'events/a'), 0);
    },
  );
});

test('workers: the wake stream may come late, a release writes another event, an idle claim is refused', async () => {
  await withServer({ groups: 4 }, async (server) => {
    const subs = new Subscriber(() => server.url);
    const config = { type: 'pull-wake', pattern: '**', wake_stream: 'wake/pool', lease_ttl_ms: LONG_MS };
    await subs.subscribe('pool', config);
    const looped = { streams: ['events/b', 'wake/pool'] };
    for (const [method, path, body] of [
      ['PUT', '__ds/subscriptions/other', { ...config, ...looped }],
      ['POST', '__ds/subscriptions/pool/streams', looped],
    ] as const) {
      const refused = await subs.expect(400, method, path, body);
      assert.match(JSON.stringify(refused), /wake\/pool is the wake stream of the subscription/);
    }
    await subs.expect(409, 'POST', '__ds/subscriptions/pool/claim', { worker: 'one' });
    await subs.create('events/a', { n: 1 });
    await until('without its stream no event', async () => (await subs.shown('pool')).status === 'failed');
    await subs.create('wake/pool');
    await until('the event came', async () => (await subs.wakeEvents('wake/pool', 'pool')).length === 1);
    assert.equal((await subs.wakeEvents('wake/pool', 'pool'))[0]?.stream, 'events/a');
    const first = await subs.claim('pool', 'one');
    assert.deepEqual(
      first.streams.map((stream) => stream.path),
      ['events/a'],
      'its own wake stream is none of its streams',
    );
    const token = { authorization: `Bearer ${first.token}` };
    const wake = { wake_id: first.wake_id, generation: first.generation };
    await subs.expect(204, 'POST', '__ds/subscriptions/pool/release', wake, token);
    await subs.expect(409, 'POST', '__ds/subscriptions/pool/release', wake, token);
    await until('another event', async () => (await subs.wakeEvents('wake/pool', 'pool')).length === 2);
    const second = await subs.claim('pool', 'two');
    assert.equal(second.generation, first.generation + 1);
    await subs.ack('pool', first, { acks: allOf(first), done: true }, 409);
    assert.deepEqual(await subs.ack('pool', second, { acks: allOf(second), done: true }), {
      ok: true,
      next_wake: false,
    });
  });
});

test('without the key for development no local webhook can be made', async () => {
  await withServer({ groups: 4 }, async (server) => {
    const subs = new Subscriber(() => server.url);
    for (const url of ['http://127.0.0.1:1/', 'http://localhost/', 'https://127.0.0.1/', 'http://worker.example/']) {
      const config = { type: 'webhook', pattern: 'a', webhook: { url } };
      const refused = await subs.expect(400, 'PUT', '__ds/subscriptions/s', config);
      assert.equal((refused as { error: { code: string } }).error.code, 'WEBHOOK_URL_REJECTED', url);
    }
    assert.equal((await metrics(server))['log_records'], 0, 'nothing was written');
  });
});

test('the plane requires its own token except where a wake brings one; the log is not accessible', async () => {
  const receiver = await WebhookReceiver.start();
  const server = new TestServer({ groups: 4, toml: LOCAL });
  try {
    // Its table [http] is the last one.
    appendFileSync(server.configFile, 'client_token = "of-clients"\n');
    await server.start();
    const subs = new Subscriber(() => server.url, { authorization: 'Bearer of-clients' });
    const stranger = new Subscriber(() => server.url);
    await stranger.expect(401, 'PUT', '__ds/subscriptions/s', webhook(receiver));
    const shown = await subs.subscribe('s', webhook(receiver));
    await subs.create('events/a', { n: 1 });
    const wake = await receiver.next();
    await assertSigned(wake, shown.webhook.signing.jwks_url);
    await stranger.expect(401, 'GET', '__ds/subscriptions/s');
    await stranger.expect(401, 'POST', '__ds/subscriptions/s/claim', { worker: 'one' });
    await stranger.callBack(wake.body, { acks: allOf(wake.body), done: true });
    for (const path of ['/__ds', '/__ds/log', '/__ds/streams', '/%5F%5Fds/log', '/v1/stream/%5F%5Fds/log']) {
      const answer = await fetch(`${server.url}${path}`, { headers: subs.headers });
      assert.equal(answer.status, 400, path);
      assert.doesNotMatch(await answer.text(), /"op"/);
    }
    const usage = await (await fetch(`${server.url}/__svc/usage`, { headers: subs.headers })).text();
    assert(usage.includes('"events"') && !usage.includes('__ds'));
  } finally {
    await server.dispose();
    await receiver.close();
  }
});

/** They make the log grow: long ones, because each link costs more than its bytes. */
const LONG_NAMES = Array.from({ length: 560 }, (_, i) => `a/${'rather/long/name/'.repeat(50)}${i}`);

test('a start with a long log does nothing of the past; then it is checkpointed, and a start begins there', async () => {
  let answer: number | object = 500;
  await onStage(
    () => answer,
    async ({ server, subs, receiver }) => {
      const grow = async (): Promise<void> => {
        await subs.subscribe('large', { ...webhook(receiver), pattern: undefined, streams: LONG_NAMES });
        await subs.expect(204, 'DELETE', '__ds/subscriptions/large');
      };
      await subs.subscribe('s', webhook(receiver));
      await subs.create('events/a', { n: 1 });
      await receiver.next();
      // More than one read of the log is between the wake and its end.
      for (let round = 0; round < 3; round++) await grow();
      assert(((await metrics(server))['log_bytes'] as number) > 2 * 1024 * 1024);
      answer = { done: true };
      await until('the wake is over', async () => (await subs.acked('s', 'events/a')) !== 0);
      const before = receiver.received.length;
      await server.end();
      await server.start();
      await until('it drives', async () => (await metrics(server))['driving'] === true);
      await subs.append('events/a');
      await until('the next wake', async () => receiver.received.length > before);
      assert.equal(receiver.received[before]?.body.generation, 2);
      assert.equal((await metrics(server))['leases_expired'], 0);

      const wake = async (generation: number): Promise<WakeBody> => {
        await subs.append('events/a');
        const find = (): Received | undefined => receiver.received.find(({ body }) => body.generation === generation);
        await until(`wake ${generation}`, () => find() !== undefined);
        return find()?.body ?? assert.fail();
      };
      answer = 200;
      const open = await wake(3);
      const due = async (): Promise<boolean> => ((await metrics(server))['checkpoints'] as number) > 0;
      assert.equal(await due(), false);
      for (let round = 0; round < 20 && !(await due()); round++) await grow();
      await until('the checkpoint is written', due);
      const { log_bytes: folded } = await metrics(server);
      const { cold_hot_bytes: kept } = await server.metrics();
      assert(Math.max(Number(folded), Number(kept)) < 1_000_000, `${Number(kept)} bytes are kept, ${folded} folded`);
      await server.end();
      await server.start();
      assert.equal((await subs.shown('s')).streams.length, 1);
      await subs.expect(404, 'GET', '__ds/subscriptions/large');
      const { log_records: records } = await metrics(server);
      assert((records as number) < 20, `the start folded ${records} records`);
      await subs.callBack(open, { acks: allOf(open), done: true });
      const next = await wake(4);
      await subs.callBack(open, { done: true }, 409);
      await subs.callBack({ ...next, callback_token: open.callback_token }, { done: true }, 409);
      await subs.callBack(next, { done: true });
    },
  );
});
