// Routes with their own tokens, against a real process: the token is checked before a body is read or parsed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';

const WAKES = ['callback', 'ack', 'release'];
/** Well-formed tokens with an invalid signature. */
const FORGED = `${Buffer.from('{"sub":"x","gen":1,"wake":"w","exp":9999999999}').toString('base64url')}.${'A'.repeat(43)}`;
const JSON_TYPE = { 'content-type': 'application/json' };

/** The answer to a head whose body never comes. */
async function answerToHead(server: TestServer, action: string, token: string): Promise<number> {
  const client = await RawClient.connect(server.port);
  const lines = [
    `POST /v1/stream/__ds/subscriptions/x/${action} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: application/json',
    'Content-Length: 2000000',
    ...(token === '' ? [] : [`Authorization: Bearer ${token}`]),
  ];
  try {
    return (await client.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`))).status;
  } finally {
    client.destroy();
  }
}

test('callbacks, acks and releases without a good token are refused before their body', async () => {
  await withServer({ toml: '[subscriptions]\nlocal_webhooks = true' }, async (server) => {
    for (const action of WAKES) {
      for (const token of ['', 'junk', 'a.b', `${FORGED}x`]) {
        assert.equal(await answerToHead(server, action, token), 401, `${action} ${token}`);
      }
      // There is no key yet that could tell, so the cluster is asked, and then not a byte of the body is parsed.
      const path = `/v1/stream/__ds/subscriptions/x/${action}`;
      const headers = { ...JSON_TYPE, authorization: `Bearer ${FORGED}` };
      assert.equal((await requestOnce(server.port, 'POST', path, headers, 'no JSON')).status, 401, action);
    }
    const config = '{"type":"pull-wake","streams":["b/s"],"wake_stream":"b/wakes"}';
    const created = await requestOnce(server.port, 'PUT', '/v1/stream/__ds/subscriptions/x', JSON_TYPE, config);
    assert.equal(created.status, 201, created.body.toString());
    for (const action of WAKES) assert.equal(await answerToHead(server, action, FORGED), 401, `${action}, forged`);
    const large = JSON.stringify({ streams: Array.from({ length: 5000 }, (_, i) => `b/stream-${i}`) });
    const added = await requestOnce(server.port, 'POST', '/v1/stream/__ds/subscriptions/x/streams', JSON_TYPE, large);
    assert.equal(added.status, 204, added.body.toString());
  });
});
