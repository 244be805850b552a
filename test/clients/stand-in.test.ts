// The server that the official client suites get (`npm run client-suites`): Millrace behind a proxy that injects what
// they ask for. The suites themselves are not on npm; they run from a checkout of the protocol's repository.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { REPO_ROOT } from '../support/paths.ts';
import { run } from '../support/server.ts';
import { DurableStreamTestServer } from './stand-in.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const EXIT_USAGE = 2;

test('each fault hits exactly the given number of requests for its stream', async (t) => {
  const server = new DurableStreamTestServer();
  const url = await server.start();
  t.after(() => server.stop());
  const inject = async (fault: Readonly<Record<string, unknown>>): Promise<void> => {
    const body = JSON.stringify({ path: '/log', ...fault });
    assert.equal((await fetch(`${url}/_test/inject-error`, { method: 'POST', body })).status, 200);
  };
  const read = async (query = 'offset=-1', path = '/log'): Promise<[number, string]> => {
    const response = await fetch(`${url}${path}?${query}`);
    return [response.status, await response.text()];
  };
  for (const path of ['/log', '/other']) {
    assert.equal((await fetch(`${url}${path}`, { method: 'PUT', headers: TEXT, body: 'hello' })).status, 201);
  }
  await inject({ status: 503, retryAfter: 1, count: 2 });
  assert.deepEqual(await read('offset=-1', '/other'), [200, 'hello']);
  assert.equal((await read())[0], 503);
  assert.equal((await read())[0], 503);
  assert.deepEqual(await read(), [200, 'hello']);

  await inject({ dropConnection: true });
  await assert.rejects(read());
  await inject({ truncateBodyBytes: 2 });
  assert.deepEqual(await read(), [200, 'he']);
  await inject({ corruptBody: true });
  assert.deepEqual(await read(), [200, 'XYllo']);
  await inject({ status: 500, method: 'POST' });
  assert.deepEqual(await read(), [200, 'hello']);
  await fetch(`${url}/_test/inject-error`, { method: 'DELETE' });
  assert.equal((await fetch(`${url}/log`, { method: 'POST', headers: TEXT, body: '!' })).status, 204);

  await inject({ injectSseEvent: { eventType: 'strange', data: '{}' } });
  assert.deepEqual(await read(), [200, 'hello!'], 'no event stream');
  const events = await fetch(`${url}/log?offset=-1&live=sse`);
  let text = '';
  for await (const piece of events.body ?? []) {
    text += Buffer.from(piece).toString();
    if (text.includes('event: data')) break;
  }
  assert.match(text, /^event: strange\ndata: \{\}\n\n(.*\n)*event: data\n/);
});

test('the script says what it needs', async () => {
  const attempt = run([
    process.execPath,
    join(REPO_ROOT, 'dist', 'scripts', 'client-suites.js'),
    '--repository',
    '/nowhere',
  ]);
  assert.equal(await attempt.exited, EXIT_USAGE);
  assert.match(
    attempt.output(),
    /--repository DIR: expected a checkout of github\.com\/durable-streams\/durable-streams/,
  );
});
