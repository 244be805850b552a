// Appends to a bucket whose quota the node does not know yet: those under way with the one that finds it out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { textIn } from './answers.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
const { server, client } = await startNode();

test('the first appends of a node that learns of a quota all come in, in order', async () => {
  const json = { 'content-type': 'application/json' };
  await server.admin.expect(204, 'PUT', '/__svc/quota/b', json, JSON.stringify({ max_retained_bytes: 2 ** 30 }));
  const stream = client.stream('b', 's', TEXT);
  await stream.create(TEXT);
  await server.stop();
  await server.start();
  // More than a batch holds, so two are under way at once.
  const texts = Array.from({ length: 600 }, (_, i) => `${i};`);
  await Promise.all(texts.map(async (text) => await stream.append(text)));
  assert.equal(await textIn(stream), texts.join(''));
});
