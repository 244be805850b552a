import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ClusterNode } from '../../src/nodes/cluster-file.ts';
import { renderCommand, runCommand, tellsNodesApart } from '../../src/operator/restart-command.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const NODE: ClusterNode = {
  id: 2,
  host: '10.0.0.2',
  name: 'two',
  instanceId: 'i-2',
  adminUrl: 'http://tunnel:9438',
  httpUrl: undefined,
};

test('a template is filled in from the cluster file; the shell keeps its own braces', () => {
  assert.equal(renderCommand('ssh {host} restart {name}', NODE), 'ssh 10.0.0.2 restart two');
  const all = '{node_id} {instance_id} {admin_host} {admin_port} {local_port}';
  assert.equal(renderCommand(all, NODE), '2 i-2 tunnel 9438 9438');
  assert.equal(renderCommand("echo ${HOME} | awk '{{print $1}'", NODE), "echo ${HOME} | awk '{print $1}'");
  assert.equal(renderCommand('{admin_port}', { ...NODE, adminUrl: 'https://a' }), '443');
});

test('a template that cannot be filled in is refused', () => {
  assert.throws(() => renderCommand('ssh {hots}', NODE), /unknown \{hots\}; did you mean \{host\}\?$/);
  assert.throws(() => renderCommand('x {instance_id}', { ...NODE, instanceId: '' }), /node 2 has no instance_id/);
  assert.throws(() => renderCommand('x {name}', { ...NODE, name: 'a; rm -rf /' }), /cannot stand in a restart command/);
});

test('one command for all nodes is no command', () => {
  const other = { ...NODE, id: 3, host: '10.0.0.3' };
  assert.equal(tellsNodesApart('ssh {host}', [NODE, other]), true);
  assert.equal(tellsNodesApart('systemctl restart x', [NODE, other]), false);
  assert.equal(tellsNodesApart('systemctl restart x', [NODE]), true);
});

test('a command that fails, hangs or is interrupted is reported, and nothing of it is left', async () => {
  const { signal: never } = new AbortController();
  const runs = (command: string, timeoutMs: number, signal: AbortSignal): Promise<void> =>
    runCommand(command, { timeoutMs, signal, env: process.env, tell: () => undefined });
  await runs('true', 10_000, never);
  await assert.rejects(runs('echo no unit >&2; exit 5', 10_000, never), /ended with 5: no unit$/);
  await assert.rejects(runs('/nowhere/x', 10_000, never), /ended with 127: .*not found/);
  const folder = temporaryFolder('restart-command');
  try {
    const mark = join(folder, 'mark');
    await assert.rejects(runs(`sleep 30; touch ${mark}`, 100, never), /did not end within 0\.1 s and was killed$/);
    const abort = new AbortController();
    const running = runs(`sleep 30; touch ${mark}`, 60_000, abort.signal);
    abort.abort();
    await assert.rejects(running, /interrupted while the restart command ran/);
    // Processes that it leaves in the background do not hold up the rollout.
    await runs('sleep 30 & true', 10_000, never);
    assert(!existsSync(mark));
  } finally {
    removeFolder(folder);
  }
});
