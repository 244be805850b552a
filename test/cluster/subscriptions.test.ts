// Subscriptions of three nodes: any node serves them, and when the driving one is killed another one continues.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { Subscriber, allOf, eventually } from '../support/subscriber.ts';
import { WebhookReceiver, assertSigned } from '../support/webhook-receiver.ts';

const GROUPS = 4;
const LOG_GROUP = fnv1a64mod('__ds', 'log', GROUPS);
const LONG_MS = 600_000;
const OPTIONS = { groups: GROUPS, toml: '[subscriptions]\nlocal_webhooks = true\n' };
/** In several groups, so that some have the killed node as their leader. */
const STREAMS = ['events/0', 'events/1', 'events/2', 'events/3', 'events/4'];

interface Roles {
  /** Leads the group of the log. */
  readonly driver: number;
  readonly one: Subscriber;
  readonly other: Subscriber;
}

async function rolesOf(cluster: TestCluster): Promise<Roles> {
  const driver = await cluster.leaderOf(LOG_GROUP);
  const [one, other] = cluster.ids.filter((id) => id !== driver) as [number, number];
  const at = (id: number): Subscriber => new Subscriber(() => cluster.node(id).url);
  return { driver, one: at(one), other: at(other) };
}

/** A write that finds no leader is repeated; one that was applied anyway is one event more. */
async function appendAnyway(subs: Subscriber, path: string): Promise<void> {
  await eventually(`an event in ${path}`, async () => (await subs.call('POST', path, { event: 1 })).status === 204);
}

async function tailOf(subs: Subscriber, path: string): Promise<number> {
  const response = await fetch(`${subs.base()}/v1/stream/${path}`, { method: 'HEAD' });
  return Number(response.headers.get('stream-next-offset'));
}

async function allAcked(subs: Subscriber, id: string): Promise<void> {
  await eventually(`${id} is up to date`, async () => {
    const replied = await subs.call('GET', `__ds/subscriptions/${id}`);
    if (replied.status !== 200) return false;
    for (const path of STREAMS) if ((await subs.acked(id, path)) !== (await tailOf(subs, path))) return false;
    return true;
  });
}

test('webhooks go on when the node that drives them is killed', async () => {
  const receiver = await WebhookReceiver.start(() => ({ done: true }));
  try {
    await withCluster(OPTIONS, async (cluster) => {
      const { driver, one, other } = await rolesOf(cluster);
      const config = { type: 'webhook', pattern: 'events/*', webhook: { url: receiver.url }, lease_ttl_ms: 2000 };
      const shown = await one.subscribe('s', config);
      for (const path of STREAMS) await other.create(path, { n: 1 });
      await allAcked(other, 's');
      await cluster.kill(driver);
      for (const path of STREAMS) await appendAnyway(other, path);
      await allAcked(one, 's');
      await assertSigned(await receiver.next(), shown.webhook.signing.jwks_url);
      // A wake may be delivered twice, but no two wakes have the same generation.
      const wakes = new Map(receiver.received.map(({ body }) => [body.wake_id, body.generation]));
      assert.equal(new Set(wakes.values()).size, wakes.size);

      await cluster.restart(driver);
      const back = new Subscriber(() => cluster.node(driver).url);
      for (const path of STREAMS) await appendAnyway(back, path);
      await allAcked(back, 's');
      const again = await back.subscribe('s', config, 200);
      assert.equal(again.webhook.signing.kid, shown.webhook.signing.kid);
    });
  } finally {
    await receiver.close();
  }
});

test('a wake that was taken outlives the node that delivered it: its token is good, and it is not delivered again', async () => {
  const receiver = await WebhookReceiver.start();
  try {
    await withCluster(OPTIONS, async (cluster) => {
      const { driver, one, other } = await rolesOf(cluster);
      const config = { type: 'webhook', pattern: 'events/*', webhook: { url: receiver.url }, lease_ttl_ms: LONG_MS };
      await one.subscribe('s', config);
      for (const path of STREAMS) await other.create(path, { n: 1 });
      const { body } = await receiver.next();
      await one.callBack(body, {});
      await cluster.kill(driver);
      for (const path of STREAMS) await appendAnyway(other, path);
      await eventually('the callback is taken', async () => {
        const path = '__ds/subscriptions/s/callback';
        const wake = { wake_id: body.wake_id, generation: body.generation, acks: allOf(body), done: true };
        const replied = await other.call('POST', path, wake, { authorization: `Bearer ${body.callback_token}` });
        // Fenced: an attempt whose answer was lost was taken.
        assert([200, 409, 503].includes(replied.status), JSON.stringify(replied));
        return replied.status !== 503;
      });
      const next = await receiver.next();
      assert.equal(next.body.generation, body.generation + 1);
      for (const { path, tail_offset: acked } of body.streams) {
        const stream = next.body.streams.find((shown) => shown.path === path);
        assert.equal(stream?.acked_offset, acked, path);
      }
    });
  } finally {
    await receiver.close();
  }
});

test('a worker claims at one node and acknowledges at another, before and after a node is killed', async () => {
  await withCluster(OPTIONS, async (cluster) => {
    const { driver, one, other } = await rolesOf(cluster);
    await one.create('wake/pool');
    const config = { type: 'pull-wake', pattern: 'events/*', wake_stream: 'wake/pool', lease_ttl_ms: LONG_MS };
    await other.subscribe('pool', config);
    for (const path of STREAMS) await one.create(path, { n: 1 });
    await eventually('an event', async () => (await other.wakeEvents('wake/pool', 'pool')).length > 0);
    const first = await one.claim('pool', 'worker-1');
    await other.expect(409, 'POST', '__ds/subscriptions/pool/claim', { worker: 'worker-2' });
    await other.ack('pool', first, { acks: allOf(first) });
    await cluster.kill(driver);
    await eventually('a heartbeat', async () => {
      const wake = { wake_id: first.wake_id, generation: first.generation, done: true };
      const headers = { authorization: `Bearer ${first.token}` };
      const { status } = await one.call('POST', '__ds/subscriptions/pool/ack', wake, headers);
      assert([200, 409, 503].includes(status), `${status}`);
      return status !== 503;
    });
    for (const path of STREAMS) await appendAnyway(other, path);
    await eventually('the next event', async () => {
      const replied = await one.call('GET', 'wake/pool');
      const events = replied.status === 200 ? (replied.json as readonly { generation: number }[]) : [];
      return events.some(({ generation }) => generation > first.generation);
    });
    const second = await one.claim('pool', 'worker-2');
    assert(second.generation > first.generation);
    await other.ack('pool', second, { acks: allOf(second), done: true });
    await one.ack('pool', first, { acks: [], done: true }, 409);
  });
});
