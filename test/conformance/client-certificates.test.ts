// Client certificates on the admin plane of a real process: who is let in, over new, kept and resumed connections; the tool with
// and without one; and authorities that change.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type ConnectionOptions, type TLSSocket, connect } from 'node:tls';
import { makeCertificate } from '../support/certificate.ts';
import { ctl, scratchFile } from '../support/ctl.ts';
import { Authority, type NodeCertificate } from '../support/node-certificates.ts';
import { SERVER_ENTRY } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { type Run, removeFolder, run, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

const folder = temporaryFolder('client-certificates');
const { certPath, keyPath } = makeCertificate(folder);
const [ops, others] = [new Authority(join(folder, 'ops')), new Authority(join(folder, 'others'))];
/** The file that the node reads. */
const caFile = join(folder, 'client-ca.pem');
const TOKEN = 'an-admin-token-0123456789abcdef01';
const USAGE = { usage: 'clientAuth' } as const;
const SECOND = 1 / 86_400;
let server: Run;
let adminPort = 0;
let port = 0;

before(async () => {
  copyFileSync(ops.caPath, caFile);
  const config = join(folder, 'millrace.toml');
  writeFileSync(
    config,
    `[server]\ntls_cert = "${certPath}"\ntls_key = "${keyPath}"\n[http]\nadmin_token = "${TOKEN}"\nadmin_client_ca_file = "${caFile}"\n`,
  );
  [port, adminPort] = [await freePort(), await freePort()];
  const flags = ['--config', config, '--data', join(folder, 'data'), '--groups', '2', '--cores', '1'];
  flags.push('--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`);
  server = run([process.execPath, SERVER_ENTRY, ...flags]);
  await until('the node is up', () => {
    assert.equal(server.child.exitCode, null, server.output());
    return server.output().includes('ready in');
  });
});
after(async () => {
  server?.child.kill('SIGKILL');
  await server?.exited;
  removeFolder(folder);
});

function pairOf({ certPath: cert, keyPath: key }: NodeCertificate): ConnectionOptions {
  return { cert: readFileSync(cert), key: readFileSync(key) };
}

interface Told {
  readonly head: string;
  readonly body: string;
}

async function ask(socket: TLSSocket, path = '/__svc/whoami'): Promise<Told> {
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  const [head = '', body = ''] = chunk.toString('latin1').split('\r\n\r\n');
  return { head, body: body.trim() };
}

async function dial(options: ConnectionOptions, to = adminPort): Promise<TLSSocket> {
  const socket = connect({ port: to, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  await once(socket, 'secureConnect');
  socket.on('error', () => undefined);
  return socket;
}

/** Also when it is reset. */
const closeOf = (socket: TLSSocket): Promise<void> => new Promise((resolve) => socket.once('close', () => resolve()));

/** The answer over a new connection, or why there is none. */
async function answerTo(options: ConnectionOptions, path?: string): Promise<string> {
  try {
    const socket = await dial(options);
    const ended = new Promise<never>((_, reject) => {
      socket.once('error', reject).once('close', () => reject(new Error('closed')));
    });
    const told = await Promise.race([ask(socket, path), ended]);
    socket.destroy();
    return `${told.head.split(' ')[1]} ${told.body}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code ?? error);
  }
}

const WELCOME = '200 {"token":null,"role":"destroy"}';
const REFUSED = '403 this plane takes requests with a valid client certificate only: none was sent';
const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const;

test('only a valid certificate of the authority is let in, and the token is still asked for', async () => {
  const good = pairOf(ops.certify(1, USAGE));
  for (const maxVersion of VERSIONS) {
    const told = async (options: ConnectionOptions, path?: string): Promise<string> =>
      await answerTo({ ...options, maxVersion }, path);
    assert.equal(await told(good), WELCOME, maxVersion);
    for (const path of ['/', '/__svc/health', '/__svc/ready', '/__svc/metrics', '/nowhere']) {
      assert.equal(await told({}, path), REFUSED, `${path} without a certificate, ${maxVersion}`);
    }
    const bad: readonly (readonly [string, ConnectionOptions, RegExp])[] = [
      ['another authority', pairOf(others.certify(1, USAGE)), /ALERT_UNKNOWN_CA|ECONNRESET|closed/],
      ['expired', pairOf(ops.certify(2, { ...USAGE, from: -2, until: -1 })), /CERTIFICATE_EXPIRED|ECONNRESET|closed/],
      ['not yet valid', pairOf(ops.certify(3, { ...USAGE, from: 1 })), /ALERT_|ECONNRESET|closed/],
      ['for servers', pairOf(ops.certify(4, { usage: 'serverAuth' })), /UNSUPPORTED_CERT|ECONNRESET|closed/],
      ['signed by itself', pairOf({ certPath, keyPath }), /ALERT_|ECONNRESET|closed/],
    ];
    for (const [what, options, reason] of bad) assert.match(await told(options), reason, `${what}, ${maxVersion}`);
  }
  const socket = await dial(good);
  socket.write('GET /__svc/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  assert.match(chunk.toString('latin1'), /^HTTP\/1\.1 401 /, 'a certificate is no token');
  socket.destroy();
  // The client plane asks for none.
  const client = await dial({}, port);
  assert.match((await ask(client, '/__svc/health')).head, /^HTTP\/1\.1 200 /);
  client.destroy();
});

interface Kept {
  readonly maxVersion: (typeof VERSIONS)[number];
  readonly socket: TLSSocket;
  /** For the next connection. */
  readonly tickets: readonly Buffer[];
}

/** A connection that has asked once. */
async function keep(pair: ConnectionOptions, maxVersion: Kept['maxVersion']): Promise<Kept | undefined> {
  const tickets: Buffer[] = [];
  const socket = connect({ port: adminPort, host: '127.0.0.1', rejectUnauthorized: false, maxVersion, ...pair });
  socket.on('error', () => undefined).on('session', (ticket) => tickets.push(ticket));
  const ended = once(socket, 'close').catch(() => undefined);
  const told = await Promise.race([once(socket, 'secureConnect').then(() => ask(socket)), ended]).catch(
    () => undefined,
  );
  return typeof told === 'object' && 'head' in told && told.head.includes(' 200 ')
    ? { maxVersion, socket, tickets }
    : undefined;
}

test('a certificate that expires ends what kept and resumed connections may do', async () => {
  // On a slow machine the certificate is over before it is used; then one that lasts longer is tried.
  for (const life of [3, 6]) {
    const pair = pairOf(ops.certify(5, { ...USAGE, until: life * SECOND }));
    const endMs = Date.now() + life * 1000;
    const kept = (await Promise.all(VERSIONS.map((version) => keep(pair, version)))).filter((one) => one !== undefined);
    if (kept.length < VERSIONS.length) continue;
    await until('the certificate is over', () => Date.now() > endMs + 1000);
    for (const { socket, maxVersion, tickets } of kept) {
      assert.match((await ask(socket)).body, /certificate only: it has expired$/, maxVersion);
      socket.destroy();
      const session = tickets.at(-1);
      assert(session !== undefined, maxVersion);
      assert.match(await answerTo({ ...pair, maxVersion, session }), /it has expired$|ALERT_|ECONNRESET|closed/);
      // The session alone, without the certificate.
      assert.match(await answerTo({ maxVersion, session }), /none was sent$|it has expired$|ALERT_|ECONNRESET|closed/);
    }
    return;
  }
  assert.fail('no certificate lasted until it was used');
});

test('the tool shows its certificate, and says why it is not let in', async () => {
  const { certPath: cert, keyPath: key } = ops.certify(6, USAGE);
  const both = scratchFile('operator.pem', `${readFileSync(cert, 'utf8')}${readFileSync(key, 'utf8')}`);
  const config = scratchFile(
    'c.json',
    JSON.stringify({ nodes: [{ id: 1, admin_url: `https://127.0.0.1:${adminPort}` }] }),
  );
  const undrain = async (...flags: string[]): ReturnType<typeof ctl> => {
    const all = ['undrain', '--config', config, '--node', '1', '--ca-file', certPath, ...flags];
    return await ctl(all, { env: { MILLRACE_ADMIN_TOKEN: TOKEN } });
  };
  const done = await undrain('--cert-file', both);
  assert.equal(done.stdout, 'node 1: drain mark cleared\n', done.stderr);
  assert.match((await undrain()).stderr, /403 \(this plane takes requests with a valid client certificate only/);
  const foreign = others.certify(6, USAGE);
  const wrong = [foreign.certPath, foreign.keyPath].map((path) => readFileSync(path, 'utf8')).join('');
  const refused = await undrain('--cert-file', scratchFile('foreign.pem', wrong));
  assert.match(refused.stderr, /it does not take this client certificate; --cert-file|connection lost/);
  assert.match(
    (await undrain('--cert-file', cert)).stderr,
    /--cert-file .*: expected a certificate and its private key/,
  );
});

test('SIGHUP reads the authorities again; connections of those before end', async () => {
  const hangUp = async (): Promise<void> => {
    const before = server.output().split('"reloaded').length;
    server.child.kill('SIGHUP');
    await until('the node has read its files', () => server.output().split('"reloaded').length > before);
  };
  const [early, late] = [pairOf(ops.certify(7, USAGE)), pairOf(others.certify(7, USAGE))];
  const kept = await Promise.all(VERSIONS.map((version) => keep(early, version)));
  const open = kept.map(async (one) => {
    assert(one !== undefined);
    const { maxVersion, socket, tickets } = one;
    const resumed = await dial({ ...early, maxVersion, session: tickets.at(-1) });
    assert(resumed.isSessionReused(), maxVersion);
    return [socket, resumed];
  });
  const closed = (await Promise.all(open)).flat().map(closeOf);
  copyFileSync(others.caPath, caFile);
  await hangUp();
  await Promise.all(closed);
  assert.equal(await answerTo(late), WELCOME);
  assert.match(await answerTo(early), /ALERT_UNKNOWN_CA|ECONNRESET|closed/);
  // A session that began with them is not resumed.
  for (const one of kept) {
    const [session, maxVersion] = [one?.tickets.at(-1), one?.maxVersion];
    assert(session !== undefined, maxVersion);
    assert.match(await answerTo({ ...early, maxVersion, session }), /ALERT_UNKNOWN_CA|ECONNRESET|closed/, maxVersion);
    assert.equal(await answerTo({ maxVersion, session }), REFUSED, maxVersion);
  }
  // A file that cannot be used leaves the authorities before.
  writeFileSync(caFile, 'nothing');
  server.child.kill('SIGHUP');
  await until('the reload failed', () =>
    server.output().includes('http.admin_client_ca_file: expected certificates in PEM'),
  );
  assert.equal(await answerTo(late), WELCOME);
});
