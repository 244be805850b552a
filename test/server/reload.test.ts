// SIGHUP against a real process: new certificates and tokens, connections that stay, reloads that fail, and no end of
// the process.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type TLSSocket, connect } from 'node:tls';
import type { ColdConfig } from '../../src/config/cold.ts';
import { loadConfig } from '../../src/config/load.ts';
import { NodeLog } from '../../src/logging/logger.ts';
import type { ReloadedPlanes } from '../../src/server/planes.ts';
import { Reloads } from '../../src/server/reload.ts';
import { Authority } from '../support/node-certificates.ts';
import { makeCertificate } from '../support/certificate.ts';
import { SERVER_ENTRY } from '../support/paths.ts';
import { requestOnce } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const OLD = 'the-old-token-0123456789abcdef';
const NEW = 'the-new-token-0123456789abcdef';

async function statusWith(port: number, token: string): Promise<number> {
  return (await requestOnce(port, 'GET', '/b', { Authorization: `Bearer ${token}` })).status;
}

test('SIGHUP without anything to reload changes nothing', async () => {
  await withServer({ process: true }, async (server) => {
    const said = await server.hangUp();
    assert.deepEqual([said['certificate'], said['client_token'], said['admin_token']], ['none', 'none', 'none']);
    // Twice in a row, as impatient tools do.
    process.kill(server.pid, 'SIGHUP');
    await server.hangUp();
    assert.equal((await requestOnce(server.port, 'PUT', '/b')).status, 201);
    assert.equal(await server.stop(), 0);
  });
});

/** Loading code is most of a start; this sends the signal when the bundle is about to be loaded. */
const HANG_UP_WHILE_LOADING = `
import Module from 'node:module';
const load = Module._load;
Module._load = function (request, ...rest) {
  if (request.endsWith('/bundle/start-main.cjs')) process.kill(process.pid, 'SIGHUP');
  return load.call(this, request, ...rest);
};
`;

/** A node whose keys are tried for as long as the test wants. */
class FakePlanes implements ReloadedPlanes {
  readonly trials: (() => void)[] = [];
  readonly applied: string[] = [];

  async tryColdKeys(keys: ColdConfig['keys']): Promise<() => void> {
    await new Promise<void>((resolve) => this.trials.push(resolve));
    return () => this.applied.push(String(keys?.identities.length));
  }

  trustProxies(proxies: readonly string[]): void {
    this.applied.push(...proxies);
  }

  renewCertificates(): void {}
  changeClusterTls(): void {}
  changeTokens(): void {}
  changeLimits(): void {}
  tell(): void {}
  reopenAudit(): void {}
}

test('reloads come one after the other, from the end of the start on, and apply nothing before the keys are tried', async () => {
  const folder = temporaryFolder('reloads');
  const [file, identities] = [join(folder, 'millrace.toml'), join(folder, 'identities.txt')];
  const write = (keys: number): void => {
    writeFileSync(identities, `AGE-SECRET-KEY-1${'Q'.repeat(58)}\n`.repeat(keys), { mode: 0o600 });
    const cold = `[storage.cold]\nbackend = "dir"\ndir = "${folder}/cold"\nencryption_identity_file = "${identities}"\n`;
    writeFileSync(file, `${cold}[http]\ntrusted_proxies = ["10.0.0.${keys}"]\n`);
  };
  try {
    write(1);
    const argv = ['--config', file];
    const reloads = new Reloads(argv, loadConfig(argv), NodeLog.open('silent', undefined));
    const planes = new FakePlanes();
    const tried = (count: number): Promise<void> => until(`${count} trials`, () => planes.trials.length === count);
    write(2);
    // The start has read the files, and is not over.
    reloads.run();
    reloads.begin(planes);
    await tried(1);
    write(3);
    reloads.run();
    await setImmediate();
    assert.deepEqual([planes.trials.length, planes.applied], [1, []]);
    planes.trials[0]?.();
    await tried(2);
    assert.deepEqual(planes.applied, ['2', '10.0.0.2']);
    planes.trials[1]?.();
    await until('both are done', () => planes.applied.length === 4);
    assert.deepEqual(planes.applied.slice(2), ['3', '10.0.0.3']);
    // The node stops while keys are tried.
    write(4);
    reloads.run();
    await tried(3);
    reloads.end();
    planes.trials[2]?.();
    await setImmediate();
    assert.equal(planes.applied.length, 4);
  } finally {
    removeFolder(folder);
  }
});

test('SIGHUP while the modules load does not end the process', async () => {
  const preload = `data:text/javascript,${encodeURIComponent(HANG_UP_WHILE_LOADING)}`;
  const server = new TestServer({ process: true, nodeArgs: ['--import', preload] });
  server.entry = SERVER_ENTRY;
  try {
    await server.start();
    await server.hangUp();
    assert.equal(await server.stop(), 0);
  } finally {
    await server.dispose();
  }
});

test('a token file is read again; one that cannot be used leaves the token before', async () => {
  const folder = temporaryFolder('tokens');
  const file = join(folder, 'token');
  writeFileSync(file, `${OLD}\n`, { mode: 0o600 });
  const server = new TestServer({ process: true });
  writeFileSync(server.configFile, `[http]\nclient_token_file = "${file}"\n`);
  try {
    await server.start();
    assert.deepEqual([await statusWith(server.port, OLD), await statusWith(server.port, NEW)], [404, 401]);
    writeFileSync(file, `${NEW}\n`);
    assert.equal((await server.hangUp())['client_token'], 'changed');
    assert.deepEqual([await statusWith(server.port, OLD), await statusWith(server.port, NEW)], [401, 404]);
    writeFileSync(file, 'two words\n');
    assert.match(String((await server.hangUp())['reason']), /client_token_file/);
    writeFileSync(server.configFile, '[http]\n');
    assert.match(String((await server.hangUp())['reason']), /http\.client_token was set at the start and is not now/);
    writeFileSync(server.configFile, 'this is not TOML\n');
    assert.match(String((await server.hangUp())['reason']), /not valid TOML/);
    assert.deepEqual([await statusWith(server.port, OLD), await statusWith(server.port, NEW)], [401, 404]);
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
});

/** A connection that accepts any certificate. */
async function dial(t: TestContext, port: number): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  t.after(() => socket.destroy());
  await once(socket, 'secureConnect');
  // The end of the server may be a reset; a pending once() reports it.
  socket.on('error', () => undefined);
  return socket;
}

async function ask(socket: TLSSocket): Promise<string> {
  socket.write('GET /__svc/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.toString('latin1').split('\r\n', 1)[0] ?? '';
}

async function metricsOf(port: number): Promise<Record<string, unknown>> {
  const request = get({ port, host: '127.0.0.1', path: '/__svc/metrics', rejectUnauthorized: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return (await json(response)) as Record<string, unknown>;
}

function serialOf(socket: TLSSocket): string {
  return socket.getPeerCertificate().serialNumber;
}

/** TLS keeps the helper of the other tests from asking whether the server is ready. */
class TlsServer extends TestServer {
  override async waitUntil(): Promise<number | string | undefined> {
    await this.logged(/"listening"|millrace:/);
    return undefined;
  }
}

test('a certificate is renewed on both planes; connections go on; a bad one leaves the one before', async (t) => {
  const folder = temporaryFolder('certificates');
  const { certPath, keyPath } = makeCertificate(folder);
  const server = new TlsServer({ process: true });
  writeFileSync(server.configFile, `[server]\ntls_cert = "${certPath}"\ntls_key = "${keyPath}"\n`);
  try {
    await server.start();
    const ports = [server.port, server.adminPort];
    const early = await Promise.all(ports.map((port) => dial(t, port)));
    const first = early.map(serialOf);
    makeCertificate(folder);
    const said = await server.hangUp();
    assert.equal(said['certificate'], 'changed');
    const endMs = Date.parse(String(said['certificate_valid_to']));
    assert.ok(endMs > Date.now());
    assert.equal((await metricsOf(server.adminPort))['certificate_end_unix_ms'], endMs);
    assert.match(server.log(), /"days":1,"end":"[^"]+","msg":"the certificate of the planes ends soon/);
    for (const [i, port] of ports.entries()) {
      const late = await dial(t, port);
      assert.notEqual(serialOf(late), first[i], 'a new connection gets the new certificate');
      assert.equal(await ask(late), 'HTTP/1.1 200 OK');
      assert.equal(await ask(early[i] as TLSSocket), 'HTTP/1.1 200 OK', 'an old connection goes on');
    }
    assert.equal((await server.hangUp())['certificate'], 'unchanged');
    const second = serialOf(await dial(t, server.port));
    // A key of another certificate.
    const key = readFileSync(keyPath);
    makeCertificate(folder);
    writeFileSync(keyPath, key);
    assert.match(String((await server.hangUp())['reason']), /the key belongs to another certificate/);
    writeFileSync(certPath, 'nothing');
    assert.match(String((await server.hangUp())['reason']), /server\.tls_cert/);
    assert.equal(serialOf(await dial(t, server.port)), second);
    // Everything that was opened on the way is closed at the end.
    assert.equal(await server.stop(), 0);
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
});

test('a certificate for another cluster.name is not taken while the node lives under the name before', async () => {
  const folder = temporaryFolder('renamed');
  const authority = new Authority(folder);
  const server = new TestServer({ process: true });
  const configure = (cluster: string): void => {
    const { certPath, keyPath } = authority.certify(1, { cluster });
    const files = `tls_cert = "${certPath}"\ntls_key = "${keyPath}"\ntls_ca = "${authority.caPath}"\n`;
    writeFileSync(server.configFile, `[cluster]\nname = "${cluster}"\ntls = "accept"\n${files}`);
  };
  try {
    configure('orders');
    await server.start();
    configure('orders');
    assert.equal((await server.hangUp())['cluster_tls'], 'changed');
    configure('carts');
    const { reason } = await server.hangUp();
    assert.match(String(reason), /orders\/node\/1 is millrace:\/\/carts\/node\/1 now\): that takes a restart/);
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
});
