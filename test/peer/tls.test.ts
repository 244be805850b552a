// TLS between nodes: which certificates are taken, what plain and encrypted links do beside each other, and strangers.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { connect as connectPlain, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type ConnectionOptions, type TLSSocket, connect } from 'node:tls';
import { nodeUri } from '../../src/base/node-uri.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, sealFrame } from '../../src/peer/codec/frame.ts';
import { NONCE_BYTES } from '../../src/peer/codec/handshake.ts';
import { ConnectorHandshake } from '../../src/peer/handshake.ts';
import { ClusterProbe } from '../../src/peer/probe.ts';
import { PeerTls, type PeerTlsSettings, looksLikeTls } from '../../src/peer/tls.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Authority, type CertificateWish } from '../support/node-certificates.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { closed } from '../support/sockets.ts';
import { GROUP_COUNT, HOST, SECRET, Waiter, makePeer, pair, reasons } from './fixture.ts';

type Mode = PeerTlsSettings['mode'];

const folder = temporaryFolder('peer-tls');
process.on('exit', () => removeFolder(folder));
const authority = new Authority(folder);
const CLUSTER = 'test';
const GOOD = [1, 2, 3].map((node) => authority.certify(node, { cluster: CLUSTER }));
const settingsOf = (node: number, mode: Mode): PeerTlsSettings => {
  const certificate = GOOD[node - 1];
  assert(certificate !== undefined);
  return authority.settings(mode, certificate);
};

let others = 0;
/** Another certificate than the node should have. */
function otherwise(wish: CertificateWish, of = authority): PeerTlsSettings {
  return of.settings('dial', of.certify(100 + ++others, { cluster: CLUSTER, ...wish }));
}

test('the first bytes tell TLS from the handshake and from HTTP', () => {
  const cases: readonly [readonly number[], boolean | 'unsure'][] = [
    [[0x16], 'unsure'],
    [[0x16, 0x03], true],
    [[0x16, 0x03, 0x01, 0x02], true],
    [[0x16, 0x04], false],
    [[0x4d, 0x52, 0x50, 0x4c], false],
    [[0x47, 0x45, 0x54], false],
    [[], false],
  ];
  for (const [bytes, told] of cases) assert.equal(looksLikeTls(new Uint8Array(bytes)), told, String(bytes));
});

const FITTING: readonly [Mode | undefined, Mode | undefined, encrypted: number][] = [
  [undefined, 'accept', 0],
  ['accept', undefined, 0],
  ['accept', 'accept', 0],
  ['accept', 'dial', 1],
  ['dial', 'accept', 0],
  ['dial', 'dial', 1],
  ['dial', 'require', 1],
  ['require', 'dial', 1],
  ['require', 'require', 1],
];

for (const [first, second, encrypted] of FITTING) {
  test(`a node with ${second ?? 'off'} links to one with ${first ?? 'off'}`, async (t) => {
    const { one, two, waiter } = await pair(
      t,
      { tls: first && settingsOf(1, first) },
      { tls: second && settingsOf(2, second) },
    );
    await waiter.until('a link', () => two.peers.connected(1, 0) && one.peers.counters().peer_sessions === 1);
    assert.equal(one.peers.counters().peer_tls_sessions, encrypted);
    assert.deepEqual(one.warnings(), []);
    // More than one record of TLS, and more than the buffers on the way.
    const bytes = new Uint8Array(3_000_000).map((_, i) => i % 251);
    assert.equal(
      two.peers.forward(1, 3, bytes, () => undefined),
      true,
    );
    two.peers.flush();
    await waiter.until('the request', () => one.heard.forwards.length === 1);
    assert.deepEqual(Buffer.compare(one.heard.forwards[0]?.bytes ?? bytes.subarray(1), bytes), 0);
  });
}

const foreign = new Authority(join(folder, 'foreign'));

/** Node 2 dials node 1: the sentences of both logs. */
const REFUSED: readonly { name: string; tls: () => PeerTlsSettings | undefined; told: RegExp; also?: RegExp }[] = [
  {
    name: 'without TLS, where it is required,',
    tls: () => undefined,
    told: /tls-required: node 1 has cluster\.tls = "require", node 2 came without TLS: set "dial" there first/,
  },
  {
    name: 'with the certificate of another node',
    tls: () => settingsOf(3, 'dial'),
    told: /wrong-certificate: node 1 wants of node 2 .* URI:millrace:\/\/test\/node\/2, .* has URI:.*node\/3/,
  },
  {
    name: 'with the certificate of its namesake in another cluster',
    tls: () => otherwise({ names: `URI:${nodeUri('other', 2)}` }),
    told: /wrong-certificate: node 1 wants of node 2/,
  },
  {
    name: 'with an expired certificate',
    tls: () => otherwise({ from: -2, until: -1, names: `URI:${nodeUri(CLUSTER, 2)}` }),
    told: /does not accept the certificate of node 2 \(CERT_HAS_EXPIRED\): renew cluster\.tls_cert of node 2 and send/,
  },
  {
    name: 'with a certificate of the future',
    tls: () => otherwise({ from: 1, until: 2, names: `URI:${nodeUri(CLUSTER, 2)}` }),
    told: /\(CERT_NOT_YET_VALID\): compare the clocks of nodes 2 and 1/,
  },
  {
    name: 'with a certificate for servers alone',
    tls: () => otherwise({ usage: 'serverAuth', names: `URI:${nodeUri(CLUSTER, 2)}` }),
    told: /\(INVALID_PURPOSE\): cluster\.tls_cert of node 2 has to be for clients and servers/,
  },
  {
    name: 'with a certificate of an unknown authority',
    tls: () => ({ ...otherwise({ names: `URI:${nodeUri(CLUSTER, 2)}` }, foreign), ca: settingsOf(1, 'dial').ca }),
    told: /wrong-certificate: .*: cluster\.tls_ca of node 1 has to hold the authority of cluster\.tls_cert of node 2/,
  },
];

for (const { name, tls, told } of REFUSED) {
  test(`a node ${name} is refused, and both sides say why`, async (t) => {
    const { one, two, waiter } = await pair(t, { tls: settingsOf(1, 'require') }, { tls: tls() });
    await waiter.until('both log lines', () => one.warnings().length > 0 && two.warnings().length > 0);
    assert.match(reasons(one.warnings()), told);
    assert.match(reasons(two.warnings()), told);
    assert.equal(one.peers.counters().peer_sessions, 0);
    assert.equal(two.peers.connected(1, 0), false);
  });
}

const UNTRUSTED: readonly { name: string; tls: () => PeerTlsSettings | undefined; told: RegExp; also: RegExp }[] = [
  {
    name: 'knows no TLS',
    tls: () => undefined,
    told: /node 1 at 127\.0\.0\.1:\d+ ended the TLS handshake .*: set cluster\.tls = "accept" there first/,
    also: /it speaks TLS: set cluster\.tls = "accept" on this node/,
  },
  {
    name: 'shows the certificate of another node',
    tls: () => settingsOf(3, 'accept'),
    told: /node 2 wants of node 1 a certificate with the name URI:millrace:\/\/test\/node\/1, .* has URI:.*node\/3/,
    also: /closed by the other side|ECONNRESET|TLS: /,
  },
  {
    name: 'shows an expired certificate',
    tls: () => otherwise({ from: -2, until: -1, names: `URI:${nodeUri(CLUSTER, 1)}` }),
    told: /node 2 does not accept the certificate of node 1 \(CERT_HAS_EXPIRED\): renew cluster\.tls_cert of node 1/,
    also: /closed by the other side|ECONNRESET|TLS: /,
  },
  {
    name: 'shows a certificate of an unknown authority',
    tls: () => ({ ...otherwise({ names: `URI:${nodeUri(CLUSTER, 1)}` }, foreign), ca: settingsOf(1, 'dial').ca }),
    told: /cluster\.tls_ca of node 2 has to hold the authority of cluster\.tls_cert of node 1/,
    also: /closed by the other side|ECONNRESET|TLS: /,
  },
];

for (const { name, tls, told, also } of UNTRUSTED) {
  test(`a node that ${name} gets no secret and no frames`, async (t) => {
    const { one, two, waiter } = await pair(t, { tls: tls() }, { tls: settingsOf(2, 'dial') });
    await waiter.until('both log lines', () => one.warnings().length > 0 && two.warnings().length > 0);
    assert.match(reasons(two.warnings()), told);
    assert.match(reasons(one.warnings()), also);
    assert.equal(one.peers.counters().peer_sessions, 0);
  });
}

test('the secret is asked for inside TLS too', async (t) => {
  const { one, two, waiter } = await pair(
    t,
    { tls: settingsOf(1, 'require') },
    { tls: settingsOf(2, 'dial'), secret: 'battery staple' },
  );
  await waiter.until('both log lines', () => one.warnings().length > 0 && two.warnings().length > 0);
  assert.match(reasons(one.warnings()), /wrong-secret/);
  assert.match(reasons(two.warnings()), /wrong-secret/);
});

test('certificates change without an end of links; a link that the mode does not allow is made again', async (t) => {
  const { one, two, waiter } = await pair(t, { tls: undefined }, { tls: undefined });
  const isLinked = (encrypted: number) => (): boolean => {
    const { peer_sessions: sessions, peer_tls_sessions: tls } = one.peers.counters();
    return two.peers.connected(1, 0) && sessions === 1 && tls === encrypted;
  };
  await waiter.until('a plain link', isLinked(0));
  const change = (mode: Mode | undefined): void => {
    one.peers.changeTls(mode && settingsOf(1, mode));
    two.peers.changeTls(mode && settingsOf(2, mode));
  };
  change('accept');
  assert.equal(isLinked(0)(), true);
  change('dial');
  await waiter.until('an encrypted link', isLinked(1));
  const { raft_grpc_append_stream_sessions_opened: opened } = two.peers.counters();
  change('require');
  two.peers.changeTls(authority.settings('require', authority.certify(2, { cluster: CLUSTER })));
  assert.equal(isLinked(1)(), true);
  // A key that cannot be used changes nothing.
  assert.throws(() => two.peers.changeTls({ ...settingsOf(2, 'dial'), key: 'none' }));
  assert.equal(two.peers.counters().raft_grpc_append_stream_sessions_opened, opened);
  change('dial');
  change('accept');
  await waiter.until('a plain link again', isLinked(0));
  one.peers.changeTls(settingsOf(1, 'require'));
  await waiter.until('the refusal', () => /tls-required/.test(reasons(two.warnings())));
  two.peers.changeTls(settingsOf(2, 'dial'));
  await waiter.until('an encrypted link again', isLinked(1));
});

test('one certificate may name several nodes', async (t) => {
  const tls = otherwise({ names: `URI:${nodeUri(CLUSTER, 1)},URI:${nodeUri(CLUSTER, 2)}` });
  const { two, waiter } = await pair(t, { tls: { ...tls, mode: 'require' } }, { tls });
  await waiter.until('a link', () => two.peers.connected(1, 0));
});

test('an established link outlives its certificate, and a new one is not made', async (t) => {
  // OpenSSL counts in seconds.
  const ending = otherwise({ until: 3 / 86_400, names: `URI:${nodeUri(CLUSTER, 2)}` });
  const endsMs = Date.now() + 4000;
  const { one, two, waiter } = await pair(t, { tls: settingsOf(1, 'require') }, { tls: ending });
  await waiter.until('a link', () => two.peers.connected(1, 0));
  await waiter.until('the end of the certificate', () => Date.now() > endsMs);
  two.peers.forward(1, 3, new Uint8Array(10), () => undefined);
  two.peers.flush();
  await waiter.until('the request', () => one.heard.forwards.length === 1);
  two.peers.setPeers([]);
  const [address] = [{ host: HOST, port: one.peers.port }];
  two.peers.setPeers([{ node: 1, address }]);
  await waiter.until('a refusal', () => /CERT_HAS_EXPIRED/.test(reasons(two.warnings())));
  two.peers.changeTls(settingsOf(2, 'dial'));
  await waiter.until('a link with the renewed certificate', () => two.peers.connected(1, 0));
});

/** A connection of its own making. */
async function dialTls(t: TestContext, port: number, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ host: HOST, port, rejectUnauthorized: false, ...options });
  t.after(() => socket.destroy());
  await once(socket, 'secureConnect');
  socket.on('error', () => undefined);
  return socket;
}

test('nothing below TLS 1.3, and no session is resumed', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1, { tls: settingsOf(1, 'require'), limits: { logWindowMs: 0 } });
  const port = await one.peers.start();
  await assert.rejects(dialTls(t, port, { maxVersion: 'TLSv1.2' }), /protocol version|ECONNRESET/);
  const { cert, key } = settingsOf(2, 'dial');
  const sessions: Buffer[] = [];
  const first = await dialTls(t, port, { cert, key });
  first.on('session', (session) => sessions.push(session));
  assert.equal(first.getProtocol(), 'TLSv1.3');
  first.write('GET /__svc/leadership-shed HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(first, 'data');
  for (const session of sessions) {
    const again = await dialTls(t, port, { cert, key, session });
    assert.equal(again.isSessionReused(), false);
  }
});

test('every ping of a burst is answered, or the window of a busy link would narrow for good', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1, { tls: settingsOf(1, 'require') });
  const port = await one.peers.start();
  const { cert, key } = settingsOf(2, 'dial');
  const socket = await dialTls(t, port, { cert, key });
  const self = { clusterId: CLUSTER, groupCount: GROUP_COUNT, node: 2, shard: 0, shardCount: 1, boot: 77 };
  const handshake = new ConnectorHandshake({ self, toNode: 1, toShard: 0, nonce: randomBytes(NONCE_BYTES) }, SECRET);
  let pongs = 0;
  let linked = false;
  socket.on('data', (chunk: Buffer) => {
    if (linked) {
      pongs += chunk.length / FRAME_HEAD_BYTES;
      return waiter.note();
    }
    const step = handshake.receive(chunk);
    if (step.kind === 'say') socket.write(step.bytes);
    linked = step.kind === 'done';
    waiter.note();
  });
  socket.write(handshake.start());
  await waiter.until('a session', () => linked);
  const ping = sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_KIND.ping);
  const BURST = 500;
  socket.write(Buffer.concat(Array.from({ length: BURST }, () => ping)));
  await waiter.until('all pongs', () => pongs === BURST);
});

test('HTTP on the cluster port: by certificate where TLS is required, and probes of the nodes', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1, { tls: settingsOf(1, 'require'), limits: { logWindowMs: 0 } });
  const address = { host: HOST, port: await one.peers.start() };
  await assert.rejects(requestOnce(address.port, 'GET', '/__svc/leadership-shed'));
  assert.match(reasons(one.warnings()), /cluster\.tls is "require", and this is not TLS/);
  const anonymous = await dialTls(t, address.port, {});
  anonymous.write('GET /__svc/leadership-shed HTTP/1.1\r\nHost: x\r\n\r\n');
  await closed(anonymous);
  assert.match(reasons(one.warnings()), /no certificate/);
  const tls = new PeerTls(CLUSTER, 2, settingsOf(2, 'dial'));
  const options = { runtime: PROCESS_RUNTIME, sizeBytes: 200_000, timeoutMs: 5000 };
  const probe = new ClusterProbe({ ...options, tls });
  t.after(() => probe.close());
  assert.equal(await probe.probe(1, address), 'reached');
  assert.equal(await probe.probe(1, address), 'reached');
  assert.equal(one.peers.counters().cluster_http_connections, 1, 'the connection is kept');
  assert.equal(await new ClusterProbe({ ...options, tls }).probe(3, address), 'failed');
  tls.change(settingsOf(2, 'accept'));
  assert.equal(await probe.probe(1, address), 'failed');
  one.peers.changeTls(settingsOf(1, 'dial'));
  assert.equal(await probe.probe(1, address), 'reached');
});

test('half handshakes of TLS are bounded in time and number', async (t) => {
  const waiter = new Waiter();
  const limits = { handshakeTimeoutMs: 300, handshakesMax: 4, logWindowMs: 0 };
  const one = makePeer(t, waiter, 1, { tls: settingsOf(1, 'require'), limits });
  const port = await one.peers.start();
  const hello = await helloOfTls();
  const beginnings = [hello.subarray(0, 1), hello.subarray(0, 2), hello.subarray(0, 40), hello, Buffer.from([0x16, 3])];
  const sockets = beginnings.flatMap((bytes) =>
    [1, 2].map(() => {
      const socket = connectPlain({ host: HOST, port }, () => socket.write(bytes)).on('error', () => undefined);
      t.after(() => socket.destroy());
      return socket.resume();
    }),
  );
  await Promise.all(sockets.map((socket) => closed(socket)));
  assert.match(reasons(one.warnings()), /too many handshakes at a time/);
  assert.match(reasons(one.warnings()), /no handshake in time/);
  assert.equal(one.peers.counters().peer_refused_connections, sockets.length);
});

test('handshakes of TLS are bounded in a second, and refused before they begin', async (t) => {
  const waiter = new Waiter();
  const limits = { tlsHandshakes: { fromAddress: 3, fromStrangers: 200 }, logWindowMs: 0 };
  const one = makePeer(t, waiter, 1, { tls: settingsOf(1, 'require'), limits });
  const port = await one.peers.start();
  const dials = await Promise.allSettled(Array.from({ length: 20 }, () => dialTls(t, port, {})));
  const refused = dials.filter(({ status }) => status === 'rejected').length;
  // Another second may begin meanwhile.
  assert(refused > 0);
  assert.match(reasons(one.warnings()), /more than 3 TLS handshakes in a second from one address/);
  assert.equal(one.peers.counters().peer_refused_connections, refused);
});

test('hostile bytes behind the beginning of TLS end their own connection alone', async (t) => {
  const { one, two, waiter, port } = await pair(t, { tls: settingsOf(1, 'accept') }, { tls: settingsOf(2, 'dial') });
  await waiter.until('a link', () => two.peers.connected(1, 0));
  const hello = await helloOfTls();
  const garbage = Buffer.alloc(70_000, 0xa5);
  const flipped = Buffer.from(hello);
  flipped[50] = 255 - (flipped[50] ?? 0);
  for (const bytes of [
    Buffer.from([0x16, 0x03, 0x01, 0xff, 0xff]),
    Buffer.concat([Buffer.from([0x16, 0x03, 0x01, 0x40, 0x00]), garbage]),
    Buffer.concat([hello, garbage]),
    Buffer.concat([hello, hello]),
    flipped.subarray(0, 60),
  ]) {
    const socket = connectPlain({ host: HOST, port }, () => socket.end(bytes)).on('error', () => undefined);
    await closed(socket.resume());
  }
  // TLS in TLS.
  const inner = await dialTls(t, port, {});
  inner.write(hello);
  await closed(inner);
  assert.equal(one.peers.counters().peer_sessions, 1);
  assert.equal(two.peers.connected(1, 0), true);
});

/** The first flight of a client. */
async function helloOfTls(): Promise<Buffer> {
  const server = createServer().listen(0, HOST);
  await once(server, 'listening');
  const client = connect({ host: HOST, port: (server.address() as AddressInfo).port }).on('error', () => undefined);
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}
