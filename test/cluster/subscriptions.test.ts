// Subscriptions of three nodes: any node serves them, and when the driving one is killed another one continues.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { Subscriber, allOf } from '../support/subscriber.ts';
import { until } from '../support/until.ts';
import { WebhookReceiver, assertSigned } from '../support/webhook-receiver.ts';

const GROUPS = 4;
const LOG_GROUP = fnv1a64mod('__ds', 'log', GROUPS);
const LONG_MS = 600_000;
const OPTIONS = { process: true, groups: GROUPS, toml: '[subscriptions]\nlocal_webhooks = true\n' };
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

async function allAcked(subs: Subscriber, id: string): Promise<void> {
  await until(`${id} is up to date`, async () => {
    for (const path of STREAMS) if ((await subs.acked(id, path)) !== (await subs.tailOf(path))) return false;
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
      for (const path of STREAMS) await other.append(path);
      await allAcked(one, 's');
      await assertSigned(await receiver.next(), shown.webhook.signing.jwks_url);
      // A wake may be delivered twice, but no two wakes have the same generation.
      const wakes = new Map(receiver.received.map(({ body }) => [body.wake_id, body.generation]));
      assert.equal(new Set(wakes.values()).size, wakes.size);

      await cluster.restart(driver);
      const back = new Subscriber(() => cluster.node(driver).url);
      for (const path of STREAMS) await back.append(path);
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
      const terms = await cluster.terms([LOG_GROUP]);
      const config = { type: 'webhook', pattern: 'events/*', webhook: { url: receiver.url }, lease_ttl_ms: LONG_MS };
      await one.subscribe('s', config);
      for (const path of STREAMS) await other.create(path, { n: 1 });
      const { body } = await receiver.next();
      await one.callBack(body, {});
      const isSameDriver = String(await cluster.terms([LOG_GROUP])) === String(terms);
      await cluster.kill(driver);
      for (const path of STREAMS) await other.append(path);
      await other.callBack(body, { acks: allOf(body), done: true });
      let next = await receiver.next();
      // A driver that another one followed before the wake was taken may have delivered it as well.
      while (!isSameDriver && next.body.wake_id === body.wake_id) next = await receiver.next();
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
    await until('an event', async () => (await other.wakeEvents('wake/pool', 'pool')).length > 0);
    const first = await one.claim('pool', 'worker-1');
    await other.expect(409, 'POST', '__ds/subscriptions/pool/claim', { worker: 'worker-2' });
    await other.ack('pool', first, { acks: allOf(first) });
    await cluster.kill(driver);
    await one.ack('pool', first, { done: true });
    for (const path of STREAMS) await other.append(path);
    await until('the next event', async () => {
      const events = await one.wakeEvents('wake/pool', 'pool');
      return events.some(({ generation }) => generation > first.generation);
    });
    const second = await one.claim('pool', 'worker-2');
    assert(second.generation > first.generation);
    await other.ack('pool', second, { acks: allOf(second), done: true });
    await one.ack('pool', first, { acks: [], done: true }, 409);
  });
});
