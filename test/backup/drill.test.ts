// A drill with a restored backup must not call any webhook.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const CONFIG = Buffer.from('{"type":"pull-wake","pattern":"jobs/*","wake_stream":"wake/pool"}');
const POLL_MS = 20;
/** Some looks of a node at what it leads. */
const LOOKS = 100;

interface Metrics {
  readonly driving: boolean;
  readonly total: number;
}

async function metrics(server: TestServer): Promise<Metrics> {
  return (await server.metrics())['subscriptions'] as Metrics;
}

/** Whether the node ever delivers, with a subscription. */
async function drives(server: TestServer): Promise<boolean> {
  const answer = await requestOnce(server.port, 'PUT', '/v1/stream/__ds/subscriptions/pool', JSON_TYPE, CONFIG);
  assert.equal(answer.status, 201, answer.body.toString());
  assert.equal((await metrics(server)).total, 1);
  for (let look = 0; look < LOOKS; look++) {
    if ((await metrics(server)).driving) return true;
    await delay(POLL_MS);
  }
  return false;
}

test('with subscriptions.deliver = false no subscription is driven', async () => {
  await withServer({ cores: 1, groups: 2 }, async (server) => assert.equal(await drives(server), true));
  const toml = '[subscriptions]\ndeliver = false\n';
  await withServer({ cores: 1, groups: 2, toml }, async (server) => assert.equal(await drives(server), false));
});
