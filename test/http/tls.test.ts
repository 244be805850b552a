// Both planes over TLS, with a certificate made for the test.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type SecureVersion, type TLSSocket, connect } from 'node:tls';
import { makeCertificate } from '../support/certificate.ts';
import { newConnections } from './new-connections.ts';
import { startPlanes } from './planes.ts';

function get(port: number, path: string, ca: Buffer, method = 'GET'): Promise<{ status: number; location: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, method, ca, agent: false }, (answer) => {
      answer.resume();
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, location: answer.headers.location ?? '' }));
    });
    asked.on('error', reject);
    asked.end();
  });
}

test('both planes speak HTTPS when a certificate is configured', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const tls = makeCertificate(folder);
  const { port, adminPort } = await startPlanes(t, { tls });
  const ca = readFileSync(tls.certPath);
  assert.equal((await get(adminPort, '/__svc/health', ca)).status, 200);
  assert.equal((await get(port, '/demo', ca, 'PUT')).status, 201);
  const created = await get(port, '/v1/stream/demo/x', ca, 'PUT');
  assert.match(created.location, /^https:\/\//);
  await assert.rejects(fetch(`http://127.0.0.1:${port}/demo`, { method: 'PUT' }), 'plain HTTP is not understood');
});

/** The version that a client ends up with that speaks this one alone. */
async function protocolOf(port: number, version: SecureVersion): Promise<string | null> {
  // By itself a client of today refuses what is old.
  const options = { port, host: '127.0.0.1', rejectUnauthorized: false, ciphers: 'ALL:@SECLEVEL=0' };
  const socket = connect({ ...options, minVersion: version, maxVersion: version });
  try {
    await once(socket, 'secureConnect');
    return socket.getProtocol();
  } finally {
    socket.destroy();
  }
}

test('both planes speak TLS 1.2 and 1.3, and nothing older', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const planes = await startPlanes(t, { tls: makeCertificate(folder) });
  for (const port of [planes.port, planes.adminPort]) {
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) assert.equal(await protocolOf(port, version), version);
    for (const version of ['TLSv1', 'TLSv1.1'] as const)
      await assert.rejects(protocolOf(port, version), /alert protocol version/);
  }
});

test('a TLS connection beyond the bound is closed before its handshake, and the first one goes on', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const tls = makeCertificate(folder);
  const { port } = await startPlanes(t, { tls, connections: newConnections({ all: 1, perAddress: 1 }) });
  const dial = (): TLSSocket => connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  const first = dial();
  t.after(() => first.destroy());
  await once(first, 'secureConnect');
  first.on('error', () => undefined);
  for (let i = 0; i < 3; i++) {
    const late = dial();
    late.on('error', () => undefined);
    await new Promise((resolve) => late.once('close', resolve));
  }
  first.write('PUT /demo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n');
  const [answer] = (await once(first, 'data')) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1\.1 201 /);
});
