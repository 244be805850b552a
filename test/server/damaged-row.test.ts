// A bit of data.mdb flips between two runs of a single node: the stream that it belongs to is refused in words, the
// node and its other streams serve.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { requestOnce } from '../support/raw-client.ts';
import { TestServer } from '../support/server.ts';

const TEXT = { 'content-type': 'text/plain' };

function flip(dataDir: string, word: string): void {
  const file = join(dataDir, 'shard-0', 'data.mdb');
  const content = readFileSync(file);
  let found = 0;
  for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1), found++)
    content.writeUInt8(0x51, at);
  assert(found > 0, `${word} is in the file`);
  writeFileSync(file, content);
}

test('a changed row is refused with its code and a sentence, read and written, and nothing else is', async () => {
  const server = new TestServer();
  const ask = (method: string, stream: string, body = '') =>
    requestOnce(server.port, method, `/bucket/${stream}`, TEXT, Buffer.from(body));
  try {
    await server.start();
    for (const name of ['sound', 'rotten']) {
      assert.equal((await ask('PUT', name)).status, 201);
      assert.equal((await ask('POST', name, `PRECIOUS ${name}`)).status, 204);
    }
    await server.stop();
    flip(server.dataDir, 'PRECIOUS rotten');
    await server.start();
    for (let i = 0; i < 2; i++) {
      for (const [method, path] of [
        ['GET', 'rotten?offset=0'],
        ['POST', 'rotten'],
      ] as const) {
        const answer = await ask(method, path, method === 'GET' ? '' : 'more');
        assert.equal(answer.status, 503);
        assert.equal(answer.headers.get('millrace-error'), 'ROW_DAMAGED');
        assert.match(answer.body.toString(), /the disk of this node changed a row/);
      }
      assert.equal((await ask('POST', 'sound', ' more')).status, 204);
      assert.match((await ask('GET', 'sound?offset=0')).body.toString(), /^PRECIOUS sound( more)+$/);
      await server.stop();
      await server.start();
    }
  } finally {
    await server.dispose();
  }
});
