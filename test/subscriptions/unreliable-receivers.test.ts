// A receiver that answers as it likes, workers that die, streams that come and go, and a server that is killed: in the
// end every event was announced, and everything is acknowledged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { withServer } from '../support/server.ts';
import { Subscriber } from '../support/subscriber.ts';
import { until } from '../support/until.ts';
import { type Received, type WakeBody, WebhookReceiver } from '../support/webhook-receiver.ts';

const STREAMS = 12;
const ROUNDS = 150;
/** An answer that does not come, and the lease behind it, may take all of these: then there are more. */
const ROUNDS_MAX = 1500;
const WAKES_MIN = 6;
/** Between two rounds, so that wakes and events mix. */
const PAUSE_MS = 20;
const KILL_AT = [50, 100];

async function callBackSometime(subs: Subscriber, wake: WakeBody, random: Random): Promise<void> {
  await delay(random.int(0, 300));
  const acks = wake.streams
    .filter(() => random.chance(0.7))
    .map(({ path, tail_offset: offset }) => ({ stream: path, offset }));
  const path = `__ds/subscriptions/${wake.subscription_id}/callback`;
  const body = { wake_id: wake.wake_id, generation: wake.generation, acks, done: random.chance(0.7) };
  // Fenced, about a deleted stream, or the server is down: in every case the lease ends.
  await subs.call('POST', path, body, { authorization: `Bearer ${wake.callback_token}` }).catch(() => undefined);
}

test('whatever receivers and streams do, eventually everything is acknowledged', async () => {
  const seed = seedFromEnvironment();
  process.stdout.write(`seed ${seed}\n`);
  const random = createRandom(seed);
  let isMoody = true;
  /** Generation -> wake. */
  const wakes = new Map<number, string>();
  const callbacks: Promise<void>[] = [];
  let subs: Subscriber | undefined;
  const answer = ({ body }: Received): number | object | undefined => {
    const known = wakes.get(body.generation) ?? body.wake_id;
    assert.equal(known, body.wake_id, `generation ${body.generation} is one wake`);
    wakes.set(body.generation, body.wake_id);
    if (!isMoody || random.chance(0.4)) return { done: true };
    if (random.chance(0.2)) return 503;
    if (random.chance(0.15)) return undefined;
    if (subs !== undefined) callbacks.push(callBackSometime(subs, body, random));
    return 202;
  };
  const receiver = await WebhookReceiver.start(answer);
  try {
    await withServer(
      { process: true, groups: 4, cores: 2, toml: '[subscriptions]\nlocal_webhooks = true\n' },
      async (server) => {
        const client = new Subscriber(() => server.url);
        subs = client;
        const config = { type: 'webhook', pattern: 'events/*', webhook: { url: receiver.url }, lease_ttl_ms: 1000 };
        await client.subscribe('s', config);
        for (let round = 0; round < ROUNDS || (wakes.size < WAKES_MIN && round < ROUNDS_MAX); round++) {
          const path = `events/${random.int(0, STREAMS - 1)}`;
          if (random.chance(0.08)) await client.call('DELETE', path);
          else if ((await client.call('POST', path, { round })).status === 404)
            await client.call('PUT', path, { round });
          if (KILL_AT.includes(round)) {
            await server.kill();
            await server.start();
          }
          await delay(PAUSE_MS);
        }
        isMoody = false;
        const left = new Map<string, number>();
        for (let i = 0; i < STREAMS; i++) {
          const head = await fetch(`${server.url}/v1/stream/events/${i}`, { method: 'HEAD' });
          if (head.status === 200) left.set(`events/${i}`, Number(head.headers.get('stream-next-offset')));
        }
        const acked = async (): Promise<Map<string, number>> => {
          const { streams } = await client.shown('s');
          return new Map(streams.map((stream) => [stream.path, Number(stream.acked_offset)]));
        };
        await until('everything is acknowledged', async () => {
          const cursors = await acked();
          return [...left].every(([path, tail]) => cursors.get(path) === tail);
        });
        await Promise.all(callbacks);
      },
    );
  } finally {
    await receiver.close();
  }
  assert(wakes.size >= WAKES_MIN, `${wakes.size} wakes`);
});
