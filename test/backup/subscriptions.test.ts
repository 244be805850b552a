// Subscriptions in a backup: they go on in the cluster that it is restored into, also when its groups are of different
// moments and come one after the other into running nodes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { Subscriber, allOf } from '../support/subscriber.ts';
import { until } from '../support/until.ts';
import { WebhookReceiver, assertSigned } from '../support/webhook-receiver.ts';

const GROUPS = 4;
const OPTIONS = { groups: GROUPS, cores: 2, toml: '[subscriptions]\nlocal_webhooks = true\n' };
const LOG_GROUP = fnv1a64mod('__ds', 'log', GROUPS);
/** Each in its own group, none in that of the log. */
const OTHER_GROUPS = [0, 1, 2, 3].filter((group) => group !== LOG_GROUP);
const [EARLIER, SAME] = OTHER_GROUPS.map((group) => {
  for (let i = 0; ; i++) if (fnv1a64mod('events', `${i}`, GROUPS) === group) return `events/${i}`;
}) as [string, string];

async function exported(server: TestServer, group: number): Promise<ArrayBuffer> {
  const answer = await fetch(`${server.adminUrl}/__svc/backup/group/${group}`);
  assert.equal(answer.status, 200);
  return await answer.arrayBuffer();
}

async function imported(server: TestServer, group: number, body: ArrayBuffer): Promise<void> {
  const url = `${server.adminUrl}/__svc/backup/group/${group}/import`;
  const answer = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/x-msgpack' } });
  assert.equal(answer.status, 200, await answer.text());
}

test('restored subscriptions keep their cursors, and a cursor beyond a restored stream goes back to its end', async () => {
  const receiver = await WebhookReceiver.start();
  try {
    await withServer(OPTIONS, async (server) => {
      const source = new Subscriber(() => server.url);
      const config = { type: 'webhook', pattern: 'events/*', webhook: { url: receiver.url } };
      const { webhook } = await source.subscribe('s', config);
      await source.create(EARLIER, { n: 1 });
      const first = await receiver.next();
      await source.callBack(first.body, { acks: allOf(first.body), done: true });
      const groupOf = (path: string): number => OTHER_GROUPS[path === EARLIER ? 0 : 1] as number;
      const earlier = await exported(server, groupOf(EARLIER));
      const earlierTail = await source.tailOf(EARLIER);
      await source.append(EARLIER, { n: 'a longer event' });
      const second = await receiver.next();
      await source.callBack(second.body, { acks: allOf(second.body), done: true });
      await source.create(SAME, { n: 1 });
      const third = await receiver.next();
      await source.callBack(third.body, { acks: allOf(third.body), done: true });
      const [log, same] = [await exported(server, LOG_GROUP), await exported(server, groupOf(SAME))];
      const text = Buffer.from(log).toString('latin1');
      assert.match(text, /\{"op":"Key" +\}/, 'the record of the key is there');
      assert.doesNotMatch(text, /"op":"key"|"secret":|"d":"/, 'and nothing that is in it');
      const ackedEarlier = await source.acked('s', EARLIER);
      const ackedSame = await source.acked('s', SAME);
      assert(ackedEarlier !== undefined && ackedEarlier > earlierTail);

      await withServer(OPTIONS, async (target) => {
        const restored = new Subscriber(() => target.url);
        await imported(target, LOG_GROUP, log);
        await until(
          'it is there',
          // 503 until the cluster has drawn another key.
          async () => (await restored.call('GET', '__ds/subscriptions/s')).status === 200,
        );
        assert.equal(
          await restored.acked('s', EARLIER),
          ackedEarlier,
          'no link goes because its group is still to come',
        );
        await imported(target, groupOf(EARLIER), earlier);
        await imported(target, groupOf(SAME), same);
        await until('it is rewound', async () => (await restored.acked('s', EARLIER)) === earlierTail);
        assert.equal(await restored.acked('s', SAME), ackedSame);
        await restored.append(EARLIER, { n: 2 });
        const wake = await receiver.next();
        await assertSigned(wake, `${target.url}/v1/stream/__ds/jwks.json`);
        assert.notEqual((await restored.shown('s')).webhook.signing.kid, webhook.signing.kid, 'a key of its own');
        assert.equal(wake.body.generation, third.body.generation + 1);
        const stream = wake.body.streams.find(({ path }) => path === EARLIER);
        assert.deepEqual([Number(stream?.acked_offset), stream?.has_pending], [earlierTail, true]);
      });
    });
  } finally {
    await receiver.close();
  }
});
