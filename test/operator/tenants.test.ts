// Verbs about buckets and streams, against a real node with a cold store.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { requestOnce } from '../support/raw-client.ts';
import { type CtlResult, ctl, scratchFile } from '../support/ctl.ts';
import { freePort } from '../support/ports.ts';
import { temporaryFolder, withServer } from '../support/server.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const EXIT_USAGE = 2;
const MIB = 1024 * 1024;

test('quota, flush-cold, webhook-keys and purge', async () => {
  const dir = join(temporaryFolder('tenants'), 'cold');
  const toml = `[storage.cold]\nbackend = "dir"\ndir = ${JSON.stringify(dir)}\nflush_interval = "1h"\nflush_size = "64 MiB"\n`;
  await withServer({ cores: 1, groups: 4, toml }, async (server) => {
    // The first node of the file is not there: calls that any node takes go to the next one.
    const gone = await freePort();
    const nodes = [gone, server.adminPort].map(
      (port, i) => `[[nodes]]\nid = ${2 - i}\nhost = "127.0.0.1"\nadmin_port = ${port}\n`,
    );
    const file = scratchFile('cluster.toml', nodes.join('\n'));
    const run = (...args: string[]): Promise<CtlResult> => ctl([...args, '--config', file]);
    const said = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await run(...args);
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
      return stdout.trim();
    };
    const statusOf = async (method: string, body?: string): Promise<number> =>
      (await requestOnce(server.port, method, '/acme/a%2Fb', TEXT, body)).status;
    assert.equal(await statusOf('PUT', 'x'.repeat(100_000)), 201);

    const quota = async (...more: string[]): Promise<Record<string, unknown>> =>
      JSON.parse(await said('bucket', 'quota', 'acme', '--output', 'json', ...more)) as Record<string, unknown>;
    const bounds = async (...more: string[]): Promise<unknown[]> => {
      const { max_streams: streams, max_retained_bytes: bytes } = await quota(...more);
      return [streams, bytes];
    };
    assert.deepEqual(await bounds(), [null, null]);
    assert.deepEqual(await bounds('--max-streams', '7'), [7, null]);
    assert.deepEqual(await bounds('--max-retained-bytes', '1MiB'), [7, 1_048_576]);
    assert.deepEqual(await bounds('--max-streams', 'none'), [null, 1_048_576]);
    assert.deepEqual(await bounds('--max-streams', '8', '--max-retained-bytes', '1000000'), [8, 1_000_000]);
    const wrong = await run('bucket', 'quota', 'acme', '--max-retained-bytes', 'lots');
    assert.match(wrong.stderr, /--max-retained-bytes lots: expected a size, as 1000000 or "10GiB", or none$/m);
    assert.deepEqual(await bounds(), [8, 1_000_000]);
    assert.deepEqual(await bounds('--clear'), [null, null]);
    assert.equal((await run('bucket', 'quota', 'acme', '--clear', '--max-streams', '1')).code, EXIT_USAGE);

    assert.match(await said('flush-cold', '--bucket', 'acme', '--stream', 'a/b'), /^acme\/a\/b: \{.*hot_start_offset/);
    assert.match(await said('flush-cold', '--bucket', 'acme', '--stream', 'a/b'), /: nothing to flush$/);
    // A call moves one object of at most 8 MiB.
    const message = 'y'.repeat(3 * MIB);
    for (let i = 0; i < 5; i++) assert.equal(await statusOf('POST', message), 204);
    const all = await said('flush-cold', '--bucket', 'acme', '--stream', 'a/b');
    assert(all.startsWith(`acme/a/b: {"hot_start_offset":${100_000 + 15 * MIB},`), all);
    assert.match(await said('flush-cold', '--bucket', 'acme', '--stream', 'a/b'), /: nothing to flush$/);
    const none = await run('flush-cold', '--bucket', 'acme', '--stream', 'none');
    assert.match(none.stderr, /^millracectl: it answered 404 \(stream not found\)\n$/);

    const keys = async (...more: string[]): Promise<string[]> => {
      const shown = JSON.parse(await said('webhook-keys', ...more)) as { readonly keys: readonly { kid: string }[] };
      return shown.keys.map(({ kid }) => kid);
    };
    const rotated = await keys('--rotate');
    assert.deepEqual(await keys(), rotated);
    // Names that a URL would resolve: `..` would lead to another route, and `.` is a bucket like any other.
    for (const line of [
      ['flush-cold', '--bucket', '..', '--stream', 'webhook-keys'],
      ['flush-cold', '--bucket', 'acme', '--stream', '..'],
      ['bucket', 'quota', '..', '--max-streams', '1'],
      ['bucket', 'purge', '..', '--confirm', '..'],
    ]) {
      const { code, stderr } = await run(...line);
      assert.equal(code, 1, line.join(' '));
      assert.match(stderr, /answered 400 \(the bucket or stream name is not usable/, line.join(' '));
    }
    assert.deepEqual(await keys(), rotated);
    assert.match(await said('bucket', 'quota', '.', '--max-streams', '3', '--output', 'json'), /"max_streams":3,/);
    assert.match(await said('bucket', 'purge', '.', '--confirm', '.'), /^bucket \.: 0 streams/);
    const replaced = await keys('--replace');
    assert(
      replaced.length > 0 && replaced.every((kid) => !rotated.includes(kid)),
      `${String(rotated)} -> ${String(replaced)}`,
    );

    const slip = await run('bucket', 'purge', 'acme', '--confirm', 'acne');
    assert.equal(slip.code, EXIT_USAGE);
    assert.match(slip.stderr, /--confirm acne is not the bucket acme; nothing was purged/);
    assert.equal(await statusOf('HEAD'), 200);
    assert.match(await said('bucket', 'purge', 'acme', '--confirm', 'acme'), /^bucket acme: 1 streams and \d+ objects/);
    assert.equal(await statusOf('HEAD'), 404);
  });
});
