// `npm run cluster`: three nodes that start and stop together; what it prints is enough to use them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PATIENCE_MS, until } from '../support/until.ts';
import { ctl } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { patiently } from '../support/patient.ts';
import { freePorts } from '../support/ports.ts';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';

const SCRIPT = join(REPO_ROOT, 'dist', 'scripts', 'cluster.js');
/** Ten for each of three nodes. */
const PORTS = 30;
const TEXT = { 'Content-Type': 'text/plain' } as const;

async function status(url: string, init: RequestInit): Promise<number> {
  const { answer } = await patiently(`${init.method} ${url}`, async () => {
    const response = await fetch(url, init);
    await response.arrayBuffer();
    return response;
  });
  return answer.status;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('npm run cluster: starts, prints addresses, reports a death, stops together, and continues with its data', async () => {
  const data = temporaryFolder('cluster-script');
  const port = await freePorts(PORTS);
  const start = async (): Promise<{ started: ReturnType<typeof run>; urls: string[]; pids: number[] }> => {
    const started = run([process.execPath, SCRIPT, '--data', data, '--port', String(port)]);
    await until(
      () => `the announcement; said so far: ${started.output()}`,
      async () => {
        assert.equal(started.child.exitCode, null, started.output());
        return started.output().includes('Ctrl-C stops all nodes');
      },
    );
    const nodes = [...started.output().matchAll(/node \d +clients (\S+) +admin \S+ +pid (\d+)/g)];
    assert.equal(nodes.length, 3, started.output());
    return { started, urls: nodes.map((node) => node[1] as string), pids: nodes.map((node) => Number(node[2])) };
  };
  try {
    const first = await start();
    const config = readFileSync(join(data, 'node-1.toml'), 'utf8');
    assert.match(config, /init_membership = false/, 'formed by now');
    assert(config.includes(`public_url = "${first.urls[0]}"`), config);
    const made = await status(`${first.urls[0]}/demo/hello`, { method: 'PUT', headers: TEXT });
    // 200: an attempt without an answer made it.
    assert([200, 201].includes(made), String(made));
    assert.equal(await status(`${first.urls[1]}/demo/hello`, { method: 'POST', headers: TEXT, body: 'hi' }), 204);
    assert.doesNotMatch(first.started.output(), /"level"/, 'logs only when asked for');
    const command = (name: string): string =>
      new RegExp(`^  ${name} +(.*?)(?: +\\(|$)`, 'm').exec(first.started.output())?.[1] ?? assert.fail(name);
    const shown = await ctl(command('status').split(' -- ')[1]?.split(' ') ?? []);
    assert.equal(shown.code, 0, shown.stderr);
    const killed = run(['sh', '-c', command('kill')]);
    assert.equal(await killed.exited, 0, killed.output());
    await until('the report of the death', async () => /node 3 ended with SIGKILL/.test(first.started.output()));
    await until('writes go on', async () => {
      return (await status(`${first.urls[1]}/demo/hello`, { method: 'POST', headers: TEXT, body: '!' })) === 204;
    });
    const revived = run(['sh', '-c', `exec ${command('revive')}`]);
    await until('node 3 is back', async () => /listening/.test(revived.output()));
    first.started.child.kill('SIGINT');
    assert.equal(await within(first.started.exited, PATIENCE_MS, 'the stop'), 0, first.started.output());
    for (const pid of first.pids) assert(!isAlive(pid), `node process ${pid} is left over`);
    revived.child.kill('SIGTERM');
    assert.equal(await within(revived.exited, PATIENCE_MS, 'the stop of node 3'), 0, revived.output());

    const second = await start();
    assert.match(readFileSync(join(data, 'node-1.toml'), 'utf8'), /init_membership = false/);
    await until('node 3 has everything', async () => {
      const response = await fetch(`${second.urls[2]}/demo/hello?offset=-1`);
      // An attempt without an answer may have taken effect.
      return /^(hi)+!+$/.test(await response.text());
    });
    second.started.child.kill('SIGTERM');
    assert.equal(await within(second.started.exited, PATIENCE_MS, 'the stop'), 0, second.started.output());
    for (const pid of second.pids) assert(!isAlive(pid), `node process ${pid} is left over`);

    const wrong = run([process.execPath, SCRIPT, '--port', 'x']);
    assert.equal(await wrong.exited, 2);
    assert.match(wrong.output(), /usage: npm run cluster/);
  } finally {
    removeFolder(data);
  }
});
