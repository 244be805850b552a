// A node whose planes speak HTTPS and want a token: every kind of call goes through, and each mistake is a sentence.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeCertificate } from '../support/certificate.ts';
import { until } from '../support/until.ts';
import { type CtlResult, ctl, scratchFile } from '../support/ctl.ts';
import { SERVER_ENTRY } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { type Run, removeFolder, run, temporaryFolder } from '../support/server.ts';

const GROUPS = 2;
const TOKEN = 'for-operators';

interface Node {
  readonly server: Run;
  readonly adminUrl: string;
  readonly httpUrl: string;
}

async function startNode(folder: string, name: string): Promise<Node> {
  const config = join(folder, `${name}.toml`);
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(
    config,
    `[server]\ntls_cert = "${cert}"\ntls_key = "${key}"\n[http]\nadmin_token_file = "${join(folder, 'token')}"\n`,
  );
  const [client, admin] = [await freePort(), await freePort()];
  const flags = ['--config', config, '--data', join(folder, name), '--groups', String(GROUPS), '--cores', '1'];
  flags.push('--listen', `127.0.0.1:${client}`, '--admin-listen', `127.0.0.1:${admin}`);
  const server = run([process.execPath, SERVER_ENTRY, ...flags]);
  await until('the node is up', async () => {
    assert.equal(server.child.exitCode, null, server.output());
    return server.output().includes('ready in');
  });
  return { server, adminUrl: `https://127.0.0.1:${admin}`, httpUrl: `https://127.0.0.1:${client}` };
}

const fileOf = (adminUrl: string, httpUrl?: string): string =>
  scratchFile('c.json', JSON.stringify({ nodes: [{ id: 1, admin_url: adminUrl, http_url: httpUrl }] }));

test('TLS and a token file: looking, draining, backup and restore', async () => {
  const folder = temporaryFolder('operator-tls');
  const { certPath } = makeCertificate(folder);
  const token = join(folder, 'token');
  writeFileSync(token, `${TOKEN}\n`);
  const nodes: Node[] = [];
  try {
    for (const name of ['source', 'target']) nodes.push(await startNode(folder, name));
    const [source, target] = nodes as [Node, Node];
    const believed = ['--ca-file', certPath, '--token-file', token];
    const ask = (verb: string, flags: readonly string[], node = source): Promise<CtlResult> =>
      ctl([verb, '--config', fileOf(node.adminUrl, node.httpUrl), ...flags]);
    const ready = ['--expected-groups', String(GROUPS), '--timeout-secs', '60'];
    assert.equal((await ask('wait-ready', [...ready, ...believed])).stdout, 'ready: 1 node(s), 2 groups each\n');
    const env = { MILLRACE_CA_FILE: certPath, MILLRACE_ADMIN_TOKEN: TOKEN };
    const undrained = await ctl(['undrain', '--config', fileOf(source.adminUrl), '--node', '1'], { env });
    assert.equal(undrained.stdout, 'node 1: drain mark cleared\n', undrained.stderr);

    // Each mistake has its sentence.
    const failed = async (expected: RegExp, code: number, verb: string, flags: readonly string[]): Promise<void> => {
      const result = await ctl([verb, ...flags]);
      assert.match(result.stderr, expected);
      assert.equal(result.stderr.split('\n').length, 2, result.stderr);
      assert.equal(result.code, code);
    };
    const location = join(folder, 'backup');
    for (const [verb, ...more] of [
      ['undrain', '--node', '1'],
      ['backup-create', '--location', location],
    ] as const) {
      const one = (url: string, ...flags: string[]): string[] => ['--config', fileOf(url), ...more, ...flags];
      const { adminUrl } = source;
      const named = adminUrl.replace('127.0.0.1', 'localhost');
      await failed(/cannot be reached \(its certificate is not known here; --ca-file names/, 1, verb, one(adminUrl));
      await failed(/\(its certificate is for another name\)/, 1, verb, one(named, ...believed));
      await failed(/it wants a bearer token: set/, 1, verb, one(adminUrl, '--ca-file', certPath));
      const plain = adminUrl.replace('https:', 'http:');
      // Whether its alert comes before the reset is luck.
      await failed(
        /cannot be reached \((connection lost|what answers there does not speak plain HTTP; is its .*)\)/,
        1,
        verb,
        one(plain, ...believed),
      );
      await failed(/^millracectl: --ca-file \S+token: expected cert/, 2, verb, one(adminUrl, '--ca-file', token));
      await failed(/^millracectl: --ca-file \/no cannot be read: /, 2, verb, one(adminUrl, '--ca-file', '/no'));
    }

    // Streams on the client plane; a named pipe stands for what a shell makes of <(...).
    const pipe = join(folder, 'pipe');
    assert.equal(spawnSync('mkfifo', [pipe]).status, 0);
    const believing = ['--config', fileOf(source.adminUrl, source.httpUrl), '--ca-file', certPath];
    const appending = ctl(['stream', 'append', 'demo/log', '--create', '--file', pipe, ...believing]);
    // Waits until the tool opens the other end.
    await writeFile(pipe, 'one\ntwo\n');
    assert.equal((await appending).code, 0, (await appending).stderr);
    assert.equal((await ctl(['stream', 'cat', 'demo/log', ...believing])).stdout, 'one\ntwo\n');
    assert.equal((await ctl(['stream', 'tail', 'demo/log', '-n', '1', ...believing])).stdout, 'two\n');
    assert.match((await ctl(['stream', 'ls', 'demo', ...believing])).stdout, /^log /m);

    const created = await ask('backup-create', ['--location', location, ...believed]);
    assert.match(created.stdout, /^backup created: 2 groups, /, created.stderr);
    const restored = await ask('restore', ['--location', location, ...believed], target);
    assert.equal(restored.stdout, created.stdout.replace('backup created', 'restore complete').replace(/ -> .*/, ''));
  } finally {
    for (const { server } of nodes) {
      server.child.kill('SIGKILL');
      await server.exited;
    }
    removeFolder(folder);
  }
});

test('an https address of a plain node', async () => {
  const { createServer } = await import('node:http');
  const plain = createServer((_, response) => response.end());
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
  const { port } = plain.address() as { port: number };
  const result = await ctl(['undrain', '--node', '1', '--config', fileOf(`https://127.0.0.1:${port}`)]);
  plain.close();
  assert.equal(result.code, 1);
  assert.match(
    result.stderr,
    /cannot be reached \((it does not speak TLS; is its address http:\/\/\?|connection lost)\)/,
  );
});
