// SIGTERM under load: what was accepted is answered, live readers end as complete HTTP answers, the exit code is 0, and
// nothing acknowledged is missing afterwards. And the ways a start must fail: exit code 2 and a sentence.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConnectionLost, RawClient, type RawResponse } from '../support/raw-client.ts';
import { SERVER_ENTRY } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { EmbeddedRun, type Instance, run } from '../support/instance.ts';
import { removeFolder, temporaryFolder, TestServer, withServer, within } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { readAll } from './look.ts';
import { PATIENCE_MS } from '../support/until.ts';

const WRITERS = 16;
/** Answers before the SIGTERM, so that it lands in the middle of work. */
const ANSWERS_BEFORE_STOP = 400;
const READERS = 4;

interface Lane {
  readonly path: string;
  readonly acknowledged: string[];
  refused: number;
  lost: number;
}

async function write(port: number, lane: Lane, onAnswer: () => void): Promise<void> {
  try {
    const client = await RawClient.connect(port);
    for (let i = 0; ; i++) {
      const text = `${lane.path}-${i}\n`;
      const response = await client.request('POST', lane.path, { 'Content-Type': 'text/plain' }, text);
      if (response.status === 204) lane.acknowledged.push(text);
      else {
        assert.equal(response.status, 503, `while stopping: ${response.status} ${response.body.toString('utf8')}`);
        lane.refused++;
      }
      onAnswer();
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (!(error instanceof ConnectionLost) && code !== 'ECONNREFUSED' && code !== 'ECONNRESET') throw error;
    lane.lost++;
  }
}

/** A live reader; resolves with its answer when that is complete, and rejects when it is cut off. */
async function follow(port: number, path: string, live: string): Promise<RawResponse> {
  const client = await RawClient.connect(port);
  try {
    return await client.request(
      'GET',
      `${path}?offset=now&live=${live}${live === 'long-poll' ? '&timeout_ms=60000' : ''}`,
    );
  } finally {
    client.destroy();
  }
}

async function stopUnderLoad(server: TestServer): Promise<void> {
  const lanes: Lane[] = Array.from({ length: WRITERS }, (_, i) => ({
    path: `/stop/s${i}`,
    acknowledged: [],
    refused: 0,
    lost: 0,
  }));
  const setup = await RawClient.connect(server.port);
  for (const path of [...lanes.map((lane) => lane.path), '/stop/quiet']) {
    assert.equal((await setup.request('PUT', path, { 'Content-Type': 'text/plain' })).status, 201);
  }
  setup.destroy();
  const readers = ['sse', 'long-poll'].flatMap((live) =>
    Array.from({ length: READERS }, () =>
      follow(server.port, '/stop/quiet', live).then((answer) => ({ live, answer })),
    ),
  );
  const settled = Promise.allSettled(readers);
  let answers = 0;
  let midway: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => (midway = resolve));
  const writers = Promise.all(
    lanes.map((lane) => write(server.port, lane, () => ++answers === ANSWERS_BEFORE_STOP && midway())),
  );
  await Promise.race([reached, writers]);
  assert.equal(await server.stop(), 0, 'exit code after SIGTERM');
  await writers;
  for (const result of await settled) {
    assert(
      result.status === 'fulfilled',
      `a live reader was cut off: ${String((result as PromiseRejectedResult).reason)}`,
    );
    const { live, answer } = result.value;
    const expected = live === 'sse' ? [200] : [200, 204, 503];
    assert(expected.includes(answer.status), `${live} reader ended with ${answer.status}`);
  }
  const next = new TestServer({ cores: server.options.cores ?? 1, dataDir: server.dataDir });
  try {
    await next.start();
    await checkLanes(next, lanes);
  } finally {
    await next.dispose();
  }
  const sum = (pick: (lane: Lane) => number): number => lanes.reduce((total, lane) => total + pick(lane), 0);
  process.stdout.write(
    `graceful stop: ${sum((lane) => lane.acknowledged.length)} acknowledged and all there, ${sum((lane) => lane.refused)} refused, ` +
      `${WRITERS} connections closed, ${2 * READERS} live readers ended in order\n`,
  );
}

async function checkLanes({ port }: TestServer, lanes: readonly Lane[]): Promise<void> {
  const client = await RawClient.connect(port);
  for (const lane of lanes) {
    const content = (await readAll(client, `/v1/stream${lane.path}`, false))?.content ?? '';
    let from = 0;
    for (const text of lane.acknowledged) {
      const at = content.indexOf(text, from);
      assert(at >= 0, `${lane.path}: acknowledged ${text.trim()} is missing or out of order after the stop`);
      from = at + text.length;
    }
    assert(content.split('\n').length - 1 <= lane.acknowledged.length + lane.refused + lane.lost, 'more than was sent');
  }
  client.destroy();
}

/** One shard stops as two do. */
for (const cores of IS_THOROUGH ? [1, 2] : [2]) {
  test(`SIGTERM under load, --cores ${cores}`, async () => {
    const server = new TestServer({ process: true, cores });
    try {
      await server.start();
      await stopUnderLoad(server);
    } finally {
      await server.dispose();
    }
  });
}

test('a server survives a log and a greeting that cannot be written or are not read', async () => {
  for (const output of ['>/dev/full 2>/dev/full', '> >(true) 2>&1']) {
    const wrapper = ['bash', '-c', `exec "$@" ${output}`, 'bash'];
    await withServer({ process: true, wrapper, groups: 1, env: { MILLRACE_LOG: 'debug' } }, async (server) => {
      const client = await RawClient.connect(server.port);
      assert.equal((await client.request('PUT', '/stop/unheard')).status, 201, output);
      client.destroy();
      assert.equal(await server.stop(), 0, output);
    });
  }
});

/** A start that must be refused; the result is what it printed. */
async function refused(flags: readonly string[], attempt: Instance): Promise<string> {
  try {
    const code = await within(attempt.exited, PATIENCE_MS, `start with ${flags.join(' ')}`);
    assert.equal(code, 2, `exit code of a refused start with ${flags.join(' ')}:\n${attempt.output()}`);
    return attempt.output();
  } finally {
    await attempt.end();
  }
}

const refusedProcess = (flags: readonly string[]): Promise<string> =>
  refused(flags, run([process.execPath, SERVER_ENTRY, ...flags]));
const refusedStart = (flags: readonly string[]): Promise<string> => refused(flags, new EmbeddedRun({ flags }));

async function addresses(): Promise<string[]> {
  return [
    '--listen',
    `127.0.0.1:${await freePort()}`,
    '--admin-listen',
    `127.0.0.1:${await freePort()}`,
    '--cores',
    '1',
  ];
}

test('a data directory in use by another server: exit code 2, and the first one is unharmed', async () => {
  await withServer({}, async (server) => {
    const output = await refusedProcess([...(await addresses()), '--data', server.dataDir]);
    assert.match(output, /in use|another process|locked/i);
    const client = await RawClient.connect(server.port);
    assert.equal((await client.request('PUT', '/stop/unharmed')).status, 201);
    client.destroy();
  });
});

test('a port in use: exit code 2 and the address', async () => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen({ port: 0, host: '127.0.0.1', exclusive: true }, resolve));
  const { port } = holder.address() as AddressInfo;
  const scratch = temporaryFolder('refused');
  try {
    for (const key of ['--listen', '--admin-listen']) {
      const flags = await addresses();
      flags[flags.indexOf(key) + 1] = `127.0.0.1:${port}`;
      const output = await refusedStart([...flags, '--data', join(scratch, 'data')]);
      assert(output.includes(String(port)), `the message must name the port: ${output}`);
    }
    await withServer({}, async (server) => {
      const flags = await addresses();
      flags[1] = `127.0.0.1:${server.port}`;
      const output = await refusedProcess([...flags, '--data', join(scratch, 'other')]);
      assert(output.includes(String(server.port)), 'another Millrace on the port must not be joined silently');
    });
  } finally {
    holder.close();
    removeFolder(scratch);
  }
});

test('a bad configuration: exit code 2 and the name of the key', async () => {
  assert.match(await refusedProcess(['--cores', '0']), /cores/);
  const scratch = temporaryFolder('refused');
  mkdirSync(join(scratch, 'data'));
  const file = join(scratch, 'bad.toml');
  const cases: readonly (readonly [string, string])[] = [
    ['[server]\nlissten = "127.0.0.1:1"', 'lissten'],
    ['[server]\nlisten = 5', 'listen'],
    ['[server]\nlisten = "nowhere"', 'listen'],
    ['[http]\nlong_poll_timeout = "5 parsecs"', 'long_poll_timeout'],
    ['[http]\nlong_poll_timeout = -1', 'long_poll_timeout'],
    ['[runtime]\ncore_count = 0', 'core_count'],
    ['[runtime]\ncore_count = "many"', 'core_count'],
    ['[raft]\ngroup_count = 1.5', 'group_count'],
    ['[storage.cold]\nbackend = "tape"', 'backend'],
    ['[nonsense]\nkey = 1', 'nonsense'],
    ['this is not TOML', 'bad.toml'],
  ];
  try {
    for (const [toml, name] of cases) {
      writeFileSync(file, `${toml}\n`);
      const output = await refusedStart([
        ...(await addresses()).slice(2, 4),
        '--config',
        file,
        '--data',
        join(scratch, 'data'),
      ]);
      assert(output.includes(name), `the message about ${JSON.stringify(toml)} must name ${name}: ${output}`);
    }
    for (const flags of [
      ['--cores', '0'],
      ['--cores', 'x'],
      ['--no-such-flag', '1'],
      ['--groups', '-3'],
      ['--config', join(scratch, 'absent.toml')],
    ]) {
      const output = await refusedStart([...flags, '--data', join(scratch, 'data')]);
      const name = flags[0] === '--config' ? 'absent.toml' : (flags[0] as string).replace(/^--/, '');
      assert(output.includes(name), `the message about ${flags.join(' ')} must name ${name}: ${output}`);
    }
  } finally {
    removeFolder(scratch);
  }
});
