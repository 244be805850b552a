// A node whose issuer publishes its keys: the first request finds them, and a server that is down keeps no node from
// starting.
import assert from 'node:assert/strict';
import { type KeyObject, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createSigner } from 'fast-jwt';
import { type RunningNode, startNode } from '../../src/server/node.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { scopeOf } from '../support/scoped-tokens.ts';
import { freePort } from '../support/ports.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const [ISSUER, AUDIENCE] = ['https://issuer.example', 'millrace'];
/** Longer than the rest of a start from there on. */
const ANSWER_MS = 500;

async function listen(t: TestContext, answer: RequestListener): Promise<number> {
  const server = createServer(answer);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  return address.port;
}

async function start(t: TestContext, keysPort: number): Promise<RunningNode> {
  const folder = temporaryFolder('keys-at-start');
  const node = await startNode({
    config: {
      server: { listen: '127.0.0.1:0', admin_listen: '127.0.0.1:0' },
      storage: { data_dir: join(folder, 'data') },
      runtime: { core_count: 1 },
      raft: { group_count: 4 },
      http: { jwks_url: `http://127.0.0.1:${keysPort}/`, jwt_issuer: ISSUER, jwt_audience: AUDIENCE },
    },
  });
  t.after(async () => {
    await node.stop();
    removeFolder(folder);
  });
  return node;
}

async function answerFor({ addresses }: RunningNode, key: KeyObject): Promise<RawResponse> {
  const pem = key.export({ type: 'pkcs8', format: 'pem' }).toString();
  const sign = createSigner({ key: pem, iss: ISSUER, aud: AUDIENCE, jti: 'agent' });
  const token = sign({ scopes: [scopeOf('chat', '*', 'create')], exp: Math.floor(Date.now() / 1000) + 600 });
  return await requestOnce(addresses.client.port, 'PUT', '/chat', { Authorization: `Bearer ${token}` });
}

test('the first request with a token of the issuer is answered, however long its server takes', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const keys = JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] });
  const port = await listen(t, (_, response) => void setTimeout(() => response.end(keys), ANSWER_MS));
  assert.equal((await answerFor(await start(t, port), privateKey)).status, 201);
});

test('a node whose key server is down starts, and asks for patience with the tokens that it vouches for', async (t) => {
  const node = await start(t, await freePort());
  const { status, headers } = await answerFor(node, generateKeyPairSync('ed25519').privateKey);
  const told = ['millrace-error', 'retry-after', 'www-authenticate'].map((name) => headers.get(name));
  assert.deepEqual([status, ...told], [503, 'UNAVAILABLE', '1', undefined]);
  const wrong = { Authorization: 'Bearer of-no-issuer' };
  assert.equal((await requestOnce(node.addresses.client.port, 'PUT', '/chat', wrong)).status, 401);
  assert.equal((await requestOnce(node.addresses.admin.port, 'GET', '/__svc/health')).status, 200);
});
