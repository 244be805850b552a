// Subscriptions of three nodes: any node serves them, and when the driving one is killed another one continues.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { TestCluster } from '../support/cluster.ts';
import { Subscriber, allOf } from '../support/subscriber.ts';
import { until } from '../support/until.ts';
import { WebhookReceiver, assertSigned } from '../support/webhook-receiver.ts';

const GROUPS = 4;
const LOG_GROUP = fnv1a64mod('__ds', 'log', GROUPS);
const LONG_MS = 600_000;
const OPTIONS = { process: true, groups: GROUPS, toml: '[subscriptions]\nlocal_webhooks = true\n' };

interface Roles {
  /** Leads the group of the log. */
  readonly driver: number;
  readonly one: Subscriber;
  readonly other: Subscriber;
}

describe('subscriptions of three nodes', () => {
  let cluster: TestCluster;
  let hasFailed = false;

  before(async () => {
    cluster = await TestCluster.create(OPTIONS);
    await cluster.startAll();
  });
  after(async () => {
    if (hasFailed) process.stderr.write(cluster.logs());
    await cluster.dispose();
  });

  /**
   * With a subscription and streams of the same name, in several groups, so that some have the killed node as their
   * leader.
   */
  const test = (what: string, name: string, body: (streams: readonly string[]) => Promise<void>): void => {
    it(what, async () => {
      try {
        for (const id of cluster.ids) if (!cluster.node(id).isRunning) await cluster.restart(id);
        await cluster.ready();
        await body([0, 1, 2, 3, 4].map((i) => `${name}/${i}`));
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  };

  const at = (id: number): Subscriber => new Subscriber(() => cluster.node(id).url);

  async function roles(): Promise<Roles> {
    const driver = await cluster.leaderOf(LOG_GROUP);
    const [one, other] = cluster.ids.filter((id) => id !== driver) as [number, number];
    return { driver, one: at(one), other: at(other) };
  }

  async function allAcked(subs: Subscriber, id: string, streams: readonly string[]): Promise<void> {
    await until(`${id} is up to date`, async () => {
      for (const path of streams) if ((await subs.acked(id, path)) !== (await subs.tailOf(path))) return false;
      return true;
    });
  }

  test('webhooks go on when the node that drives them is killed', 'hooks', async (streams) => {
    const receiver = await WebhookReceiver.start(() => ({ done: true }));
    try {
      const { driver, one, other } = await roles();
      const config = { type: 'webhook', pattern: 'hooks/*', webhook: { url: receiver.url }, lease_ttl_ms: 2000 };
      const shown = await one.subscribe('hooks', config);
      for (const path of streams) await other.create(path, { n: 1 });
      await allAcked(other, 'hooks', streams);
      await cluster.kill(driver);
      for (const path of streams) await other.append(path);
      await allAcked(one, 'hooks', streams);
      await assertSigned(await receiver.next(), shown.webhook.signing.jwks_url);
      // A wake may be delivered twice, but no two wakes have the same generation.
      const wakes = new Map(receiver.received.map(({ body }) => [body.wake_id, body.generation]));
      assert.equal(new Set(wakes.values()).size, wakes.size);

      await cluster.restart(driver);
      const back = at(driver);
      for (const path of streams) await back.append(path);
      await allAcked(back, 'hooks', streams);
      const again = await back.subscribe('hooks', config, 200);
      assert.equal(again.webhook.signing.kid, shown.webhook.signing.kid);
    } finally {
      await receiver.close();
    }
  });

  test(
    'a wake that was taken outlives the node that delivered it: its token is good, and it is not delivered again',
    'taken',
    async (streams) => {
      const receiver = await WebhookReceiver.start();
      try {
        const { driver, one, other } = await roles();
        const terms = await cluster.terms([LOG_GROUP]);
        const config = { type: 'webhook', pattern: 'taken/*', webhook: { url: receiver.url }, lease_ttl_ms: LONG_MS };
        await one.subscribe('taken', config);
        for (const path of streams) await other.create(path, { n: 1 });
        const { body } = await receiver.next();
        await one.callBack(body, {});
        const isSameDriver = String(await cluster.terms([LOG_GROUP])) === String(terms);
        await cluster.kill(driver);
        for (const path of streams) await other.append(path);
        await other.callBack(body, { acks: allOf(body), done: true });
        let next = await receiver.next();
        // A driver that another one followed before the wake was taken may have delivered it as well.
        while (!isSameDriver && next.body.wake_id === body.wake_id) next = await receiver.next();
        assert.equal(next.body.generation, body.generation + 1);
        for (const { path, tail_offset: acked } of body.streams) {
          const stream = next.body.streams.find((shown) => shown.path === path);
          assert.equal(stream?.acked_offset, acked, path);
        }
      } finally {
        await receiver.close();
      }
    },
  );

  test(
    'a worker claims at one node and acknowledges at another, before and after a node is killed',
    'workers',
    async (streams) => {
      const { driver, one, other } = await roles();
      await one.create('wake/pool');
      const config = { type: 'pull-wake', pattern: 'workers/*', wake_stream: 'wake/pool', lease_ttl_ms: LONG_MS };
      await other.subscribe('pool', config);
      for (const path of streams) await one.create(path, { n: 1 });
      await until('an event', async () => (await other.wakeEvents('wake/pool', 'pool')).length > 0);
      const first = await one.claim('pool', 'worker-1');
      await other.expect(409, 'POST', '__ds/subscriptions/pool/claim', { worker: 'worker-2' });
      await other.ack('pool', first, { acks: allOf(first) });
      await cluster.kill(driver);
      await one.ack('pool', first, { done: true });
      for (const path of streams) await other.append(path);
      await until('the next event', async () => {
        const events = await one.wakeEvents('wake/pool', 'pool');
        return events.some(({ generation }) => generation > first.generation);
      });
      const second = await one.claim('pool', 'worker-2');
      assert(second.generation > first.generation);
      await other.ack('pool', second, { acks: allOf(second), done: true });
      await one.ack('pool', first, { acks: [], done: true }, 409);
    },
  );
});
