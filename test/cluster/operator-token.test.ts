// Nodes that want a bearer token from operators, a client plane in the cluster file, and a node that is alone.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../support/until.ts';
import { type CtlResult, ctl, scratchFile } from '../support/ctl.ts';
import { SERVER_ENTRY } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { removeFolder, run, temporaryFolder } from '../support/server.ts';

test('the token comes from the environment or a file, and is asked for in a sentence', async () => {
  const folder = temporaryFolder('operator-token');
  const config = join(folder, 'millrace.toml');
  writeFileSync(config, '[http]\nclient_token = "for-clients"\nadmin_token = "for-operators"\n');
  const [client, admin] = [await freePort(), await freePort()];
  const listen = ['--listen', `127.0.0.1:${client}`, '--admin-listen', `127.0.0.1:${admin}`];
  const flags = ['--config', config, '--data', join(folder, 'data'), '--groups', '2', '--cores', '1', ...listen];
  const server = run([process.execPath, SERVER_ENTRY, ...flags]);
  try {
    await until('the node is up', async () => {
      assert.equal(server.child.exitCode, null, server.output());
      return server.output().includes('ready in');
    });
    const urls = { http_url: `http://127.0.0.1:${client}`, admin_url: `http://127.0.0.1:${admin}/` };
    const file = scratchFile('c.json', JSON.stringify({ nodes: [{ id: 1, ...urls }] }));
    const ask = (flag: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CtlResult> =>
      ctl(['wait-ready', '--config', file, '--expected-groups', '2', '--timeout-secs', '0.1', ...flag], { env });
    const wanted = 'it wants a bearer token: set MILLRACE_ADMIN_TOKEN or give --token-file';
    const without = await ask([]);
    assert.equal(without.code, 1);
    // At once: no wait brings a token.
    assert.equal(without.stderr, `node 1: ${wanted}\n`);
    for (const verb of ['verify-cluster', 'wait', 'drain']) {
      const node = verb === 'verify-cluster' ? [] : ['--node', '1'];
      const denied = await ctl([verb, '--config', file, ...node]);
      assert.match(denied.stderr, /^node 1: [^\n]*it wants a bearer token: set [^\n]*\n$/, verb);
      assert.equal(denied.code, verb === 'wait' ? 2 : 1);
    }
    const wrong = await ask([], { MILLRACE_ADMIN_TOKEN: 'guessed' });
    assert.equal(wrong.code, 1);
    assert.equal(wrong.stderr, 'node 1: it has another bearer token than MILLRACE_ADMIN_TOKEN or --token-file gives\n');
    // The client plane refuses operators; the admin plane then answers.
    const given = await ask([], { MILLRACE_ADMIN_TOKEN: 'for-operators' });
    assert.equal(given.stdout, 'ready: 1 node(s), 2 groups each\n', given.stderr);
    const token = scratchFile('token', 'for-operators\n');
    assert.equal((await ask(['--token-file', token], { MILLRACE_ADMIN_TOKEN: 'guessed' })).code, 0);
    const missing = await ask(['--token-file', '/nowhere/token']);
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /^millracectl: --token-file \/nowhere\/token cannot be read: /);
    const blank = await ask(['--token-file', scratchFile('blank', '\n')]);
    assert.match(blank.stderr, /expected one line of visible ASCII without blanks\n$/);

    const drain = ['drain', '--config', file, '--node', '1', '--poll-interval-secs', '0.1', '--token-file', token];
    const alone = await ctl(drain);
    assert.equal(alone.code, 2);
    assert.match(
      alone.stderr,
      /^node 1: ABORTED \(no node can take groups 0 and 1: it has no other voter\); its drain mark was lifted$/m,
    );
  } finally {
    server.child.kill('SIGKILL');
    await server.exited;
    removeFolder(folder);
  }
});
