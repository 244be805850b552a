// A real server with a small bound of hot bytes, which small appends keep full: large bodies and forks still pass.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { withServer } from '../support/server.ts';

const MIB = 1024 * 1024;
const BOUND_MIB = 4;
const WRITERS = 12;
const SMALL = Buffer.alloc(100_000, 'small ');
const LARGE_BYTES = 5_400_000;
/** Each waits for a second, as Retry-After says; without reservations it took some 200. */
const TRIES_MAX = 12;
const TYPE = { 'Content-Type': 'text/plain' } as const;
const TOML = `
[storage.cold]
backend = "dir"
root = "large"
flush_interval = "200ms"
flush_size = "1 MiB"
flush_max_size = "2 MiB"
max_hot_size_per_group = "${BOUND_MIB} MiB"
`;

async function written(port: number, method: string, path: string, headers: object, body: Buffer): Promise<number> {
  for (let tries = 1; ; tries++) {
    const answer = await requestOnce(port, method, path, { ...TYPE, ...headers }, body);
    if (answer.status < 300) return tries;
    assert.equal(answer.status, 503, answer.body.toString());
    assert.equal(answer.headers.get('retry-after'), '1');
    assert(tries < TRIES_MAX, `${method} ${path} is refused ${tries} times: ${answer.body.toString()}`);
    await delay(1000);
  }
}

test('large bodies and forks pass while small appends keep the group at its bound', async () => {
  await withServer({ cores: 1, groups: 1, toml: TOML }, async (server) => {
    const { port } = server;
    for (let i = 0; i < WRITERS; i++) await written(port, 'PUT', `/b/small-${i}`, {}, Buffer.alloc(0));
    let isOver = false;
    let taken = 0;
    let refused = 0;
    const write = async (i: number): Promise<void> => {
      const client = await RawClient.connect(port);
      while (!isOver) {
        const { status } = await client.request('POST', `/b/small-${i}`, TYPE, SMALL);
        if (status === 204) taken++;
        else refused++;
        // Keeps the group full without keeping the machine busy.
        if (status === 503) await delay(20);
      }
      client.destroy();
    };
    const writers = Array.from({ length: WRITERS }, (_, i) => write(i));
    try {
      await until('a write is refused', () => refused > 0);
      const before = taken;
      await written(port, 'PUT', '/b/large', {}, Buffer.alloc(LARGE_BYTES, 'large '));
      await written(port, 'POST', '/b/large', {}, Buffer.alloc(3 * MIB, 'more '));
      await written(port, 'PUT', '/b/fork', { 'Stream-Forked-From': '/b/large' }, Buffer.alloc(0));
      const head = await requestOnce(port, 'HEAD', '/b/fork');
      assert.equal(Number(head.headers.get('stream-next-offset')), LARGE_BYTES + 3 * MIB);
      await until('a write is taken', () => taken > before);
    } finally {
      isOver = true;
      await Promise.all(writers);
    }
  });
});
