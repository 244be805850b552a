// The ends of TLS on node links: authorities that have ended, what is plain when TLS is required, floods of handshakes.
import assert from 'node:assert/strict';
import { X509Certificate, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { NONCE_BYTES } from '../../src/peer/codec/handshake.ts';
import { ConnectorHandshake } from '../../src/peer/handshake.ts';
import type { PeerTlsSettings } from '../../src/peer/tls.ts';
import { Authority } from '../support/node-certificates.ts';
import { freePort } from '../support/ports.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { closed } from '../support/sockets.ts';
import { GROUP_COUNT, HOST, SECRET, Waiter, makePeer, pair, reasons } from './fixture.ts';

const folder = temporaryFolder('peer-tls-ends');
process.on('exit', () => removeFolder(folder));
const authority = new Authority(folder);
const CLUSTER = 'test';

test('an authority that has ended is named, by the side that trusted it', async (t) => {
  const good = (node: number): PeerTlsSettings =>
    authority.settings('dial', authority.certify(node, { cluster: CLUSTER }));
  const old = new Authority(join(folder, 'old'), -1);
  const [one, two] = [1, 2].map((node) => old.settings('dial', old.certify(node, { cluster: CLUSTER })));
  assert(one !== undefined && two !== undefined);
  const ends = new X509Certificate(old.ca).validTo;
  const told = (judge: number): RegExp =>
    new RegExp(`\\(CERT_HAS_EXPIRED\\): renew .* \\(in cluster\\.tls_ca of node ${judge}: CN=test ends ${ends}\\)`);
  const shown = await pair(t, { tls: { ...good(1), ca: old.ca } }, { tls: { ...two, ca: authority.ca } });
  await shown.waiter.until('the log line', () => shown.one.warnings().length > 0);
  assert.match(reasons(shown.one.warnings()), told(1));
  const judged = await pair(t, { tls: one }, { tls: { ...good(2), ca: old.ca } });
  await judged.waiter.until('the log line', () => judged.two.warnings().length > 0);
  assert.match(reasons(judged.two.warnings()), told(2));
});

test('what is plain on the port ends when TLS becomes required: HTTP, and a link that is half made', async (t) => {
  const waiter = new Waiter();
  const settings = (mode: PeerTlsSettings['mode']): PeerTlsSettings =>
    authority.settings(mode, authority.certify(1, { cluster: CLUSTER }));
  const one = makePeer(t, waiter, 1, { tls: settings('accept'), limits: { logWindowMs: 0 } });
  const port = await one.peers.start();
  const silent = connect({ host: HOST, port });
  t.after(() => silent.destroy());
  await once(silent, 'connect');
  const dial = async (bytes: Uint8Array): Promise<Socket> => {
    const socket = connect({ host: HOST, port }, () => socket.write(bytes));
    t.after(() => socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'data');
    return socket.resume();
  };
  const self = { clusterId: CLUSTER, groupCount: GROUP_COUNT, node: 2, shard: 0, shardCount: 1, boot: 7 };
  const handshake = new ConnectorHandshake({ self, toNode: 1, toShard: 0, nonce: randomBytes(NONCE_BYTES) }, SECRET);
  const half = await dial(handshake.start());
  const http = await dial(Buffer.from('GET /__svc/leadership-shed HTTP/1.1\r\nHost: x\r\n\r\n'));
  one.peers.changeTls(settings('require'));
  await Promise.all([closed(half), closed(http)]);
  assert.equal(silent.destroyed, false, 'it may begin with TLS');
  assert.equal(one.peers.counters().cluster_http_connections, 0);
});

test('strangers use up no TLS handshakes of a node that is expected, from the start on', async (t) => {
  const limits = { tlsHandshakes: { fromAddress: 100, fromStrangers: 1 }, logWindowMs: 0 };
  // It is down.
  const peers = [{ node: 2, address: { host: '127.0.0.3', port: await freePort() } }];
  const tls = authority.settings('require', authority.certify(1, { cluster: CLUSTER }));
  const one = makePeer(t, new Waiter(), 1, { tls, limits, peers });
  const port = await one.peers.start();
  const refused = async (localAddress: string): Promise<boolean> => {
    const dials = Array.from({ length: 8 }, async () => {
      const options = { host: HOST, port, localAddress, rejectUnauthorized: false };
      const socket = connectTls(options);
      t.after(() => socket.destroy());
      await once(socket, 'secureConnect');
      socket.on('error', () => undefined);
    });
    return (await Promise.allSettled(dials)).some(({ status }) => status === 'rejected');
  };
  // Another second may begin meanwhile.
  assert(await refused('127.0.0.2'));
  assert.equal(await refused('127.0.0.3'), false);
});
