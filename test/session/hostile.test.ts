// Handshakes that become sessions, and clients that do not keep to the protocol: they are refused or cut, and counted,
// and the node goes on.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { newConnections } from '../http/new-connections.ts';
import { type Rig, startPlanes } from '../http/planes.ts';
import { createRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import {
  APPEND,
  ATTRIBUTES,
  CREATE,
  CREDIT,
  DELETE,
  DONE,
  HEAD,
  type Handshake,
  READ,
  SUBSCRIBE,
  SessionClient,
  TEXT,
  UNSUBSCRIBE,
  frameOf,
  handshakeOf,
  pack,
} from './client.ts';

const PROTOCOL_ERROR = 1002;

async function statusOf({ port }: Rig, handshake: Handshake): Promise<string> {
  const client = await SessionClient.connect(port, handshake);
  client.destroy();
  return `${client.status} ${/^millrace-error: (.*)$/m.exec(client.head)?.[1] ?? ''}`.trim();
}

test('only a request for the protocol becomes a session, and nothing is compressed', async (t) => {
  const rig = await startPlanes(t, { corsOrigins: ['http://app.example', 'loopback'] });
  const deflate = 'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits';
  const client = await SessionClient.connect(rig.port, { headers: [deflate] });
  assert.match(client.head, /^sec-websocket-protocol: millrace\.session\.v1$/im);
  assert.doesNotMatch(client.head, /deflate/);
  // A frame that says that it is compressed.
  const frame = frameOf(2, pack([HEAD, 1, 'b', 's']));
  frame[0] = 0xc2;
  client.socket.write(frame);
  await client.ended();

  assert.equal(await statusOf(rig, { protocol: 'chat, millrace.session.v1' }), '101');
  assert.equal(await statusOf(rig, { protocol: '' }), '400 INVALID_HEADER');
  assert.equal(await statusOf(rig, { protocol: 'millrace.session.v2' }), '400 INVALID_HEADER');
  assert.equal(await statusOf(rig, { path: '/b/s' }), '200');
  const origin = (from: string): Handshake => ({ headers: [`Origin: ${from}`] });
  assert.equal(await statusOf(rig, origin('http://elsewhere.example')), '403 ORIGIN_NOT_ALLOWED');
  assert.equal(await statusOf(rig, { headers: ['Sec-Fetch-Site: cross-site'] }), '403 ORIGIN_NOT_ALLOWED');
  assert.equal(await statusOf(rig, origin('http://app.example')), '101');
  assert.equal(await statusOf(rig, origin('http://localhost:3000')), '101');
  const { status, statusText, headers } = await fetch(`${rig.client}/__svc/session`);
  assert.deepEqual([status, statusText, headers.get('upgrade')], [426, 'Upgrade Required', 'websocket']);
  await until('all of them are over', () => rig.counters.sessions.open === 0);
});

test('a token comes in the header, or in the protocols', async (t) => {
  const rig = await startPlanes(t, { clientToken: 'se/cr et=' });
  const asProtocol = (token: string): Handshake => ({ protocol: `millrace.session.v1, millrace.bearer.${token}` });
  assert.equal(await statusOf(rig, {}), '401 UNAUTHORIZED');
  assert.equal(await statusOf(rig, { headers: ['Authorization: Bearer se/cr et='] }), '101');
  assert.equal(await statusOf(rig, asProtocol('se%2Fcr%20et%3D')), '101');
  assert.equal(await statusOf(rig, asProtocol('se%2Fcr%20et')), '401 UNAUTHORIZED');
  assert.equal(await statusOf(rig, asProtocol('%')), '401 UNAUTHORIZED');
  // The header is what counts.
  const both = { ...asProtocol('se%2Fcr%20et%3D'), headers: ['Authorization: Bearer other'] };
  assert.equal(await statusOf(rig, both), '401 UNAUTHORIZED');

  const client = await SessionClient.connect(rig.port, asProtocol('se%2Fcr%20et%3D'));
  rig.planes.changeTokens({ client: 'se/cr et=', admin: '' });
  assert.equal((await client.ask(HEAD, 1, 'b', 's')).kind, DONE, 'it is the same');
  rig.planes.changeTokens({ client: 'another', admin: '' });
  assert.equal(await client.ended(), 1001);
  assert.equal(await statusOf(rig, asProtocol('another')), '101');
});

test('connections that became sessions are counted until they end', async (t) => {
  const connections = newConnections({ all: 2, perAddress: 2 });
  const rig = await startPlanes(t, { connections });
  for (let round = 0; round < 5; round++) {
    const clients = [await SessionClient.connect(rig.port), await SessionClient.connect(rig.port)];
    assert.equal(connections.client.open, 2);
    for (const client of clients) client.destroy();
    await until('both are gone', () => connections.client.open === 0);
  }
});

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const X = Buffer.from('x');

/** Messages, each behind the name of its fault. */
const MALFORMED: readonly (readonly [what: string, message: Buffer])[] = [
  ['no array', pack(1)],
  ['a map', pack({ a: 1 })],
  ['an empty array', pack([])],
  ['no such kind', pack([10, 1])],
  ['a kind of nodes', pack([65, 1, 0, {}, null])],
  ['a kind that is a text', pack(['constructor', 1])],
  ['too few values', pack([HEAD, 1, 'b'])],
  ['too many values', pack([HEAD, 1, 'b', 's', 's'])],
  ['an id above 32 bits', pack([HEAD, 2 ** 32, 'b', 's'])],
  ['an id below zero', pack([HEAD, -1, 'b', 's'])],
  ['an id that is half a number', pack([HEAD, 0.5, 'b', 's'])],
  ['a name that is a number', pack([HEAD, 1, 1, 's'])],
  ['a name that is no UTF-8', hex('94 03 01 a1 ff a1 73')],
  ['a body that is a map', pack([APPEND, 1, 'b', 's', {}, {}])],
  ['a batch in a batch', pack([APPEND, 1, 'b', 's', [[X]], {}])],
  ['options that are an array', pack([APPEND, 1, 'b', 's', X, []])],
  ['an option that is a map', pack([APPEND, 1, 'b', 's', X, { 'content-type': { toString: 1 } }])],
  ['an option that is nil', pack([APPEND, 1, 'b', 's', X, { 'content-type': null }])],
  ['a credit below zero', pack([CREDIT, 1, -5])],
  ['a credit beyond all numbers', hex('93 06 01 cb 7f f0 00 00 00 00 00 00')],
  ['four billion values', hex('dd ff ff ff ff 03 01')],
  ['four billion options', hex('96 02 01 a1 62 a1 73 c0 df ff ff ff ff')],
  ['four billion messages', hex('96 02 01 a1 62 a1 73 dd ff ff ff ff')],
  ['four billion bytes', hex('96 02 01 a1 62 a1 73 c6 ff ff ff ff')],
  ['an extension', hex('94 03 01 a1 62 d4 72 40')],
  ['half a frame', pack([HEAD, 1, 'b', 's']).subarray(0, 5)],
  ['half a frame behind a whole one', Buffer.concat([pack([HEAD, 1, 'b', 's']), hex('94 03')])],
  ['an id that is in use', pack([HEAD, 1, 'b', 's'], [HEAD, 1, 'b', 't'])],
  ['the id of a subscription', pack([SUBSCRIBE, 1, 'b', 's', 1, { offset: 0 }], [HEAD, 1, 'b', 't'])],
];

/** A rig whose shards never answer, so that ids stay in use. */
async function startSilent(t: TestContext): Promise<Rig> {
  const rig = await startPlanes(t);
  rig.gateway.script = () => false;
  return rig;
}

test('a client that breaks the protocol is told so, cut and counted', async (t) => {
  const rig = await startSilent(t);
  for (const [what, message] of MALFORMED) {
    const client = await SessionClient.connect(rig.port);
    client.sendBytes(message);
    assert.equal(await client.ended(), PROTOCOL_ERROR, what);
    assert.notEqual(client.closeReason, '', what);
  }
  const client = await SessionClient.connect(rig.port);
  client.sendText('[3,1,"b","s"]');
  assert.equal(await client.ended(), 1003);
  assert.equal(rig.counters.sessions.faults, MALFORMED.length + 1);
  await until('all sessions are over', () => rig.counters.sessions.open === 0);
});

test('frames of WebSocket that lie, are too large or never end are the end of their connection alone', async (t) => {
  const rig = await startSilent(t);
  const endings: readonly (readonly [string, Buffer])[] = [
    ['larger than a message may be', frameOf(2, Buffer.alloc(300_000))],
    ['a size beyond all memory', frameOf(2, Buffer.alloc(16), { length: 2 ** 40 })],
    [
      'pieces that are too large together',
      Buffer.concat(
        Array.from({ length: 4 }, (_, i) => frameOf(i === 0 ? 2 : 0, Buffer.alloc(90_000), { fin: false })),
      ),
    ],
    // The library takes the first bytes for the mask.
    ['without a mask', hex('82 04 00 00 00 00 00 00 00 00')],
    ['an opcode that does not exist', frameOf(5, X)],
    ['a piece of nothing', frameOf(0, X)],
    ['a ping that is too long', frameOf(9, Buffer.alloc(200))],
  ];
  for (const [what, bytes] of endings) {
    const client = await SessionClient.connect(rig.port);
    client.socket.write(bytes);
    await client.ended();
    assert(client.isOver, what);
  }
  // Whole in pieces.
  const client = await SessionClient.connect(rig.port);
  rig.gateway.script = () => undefined;
  const message = pack([HEAD, 1, 'b', 's']);
  client.socket.write(frameOf(2, message.subarray(0, 3), { fin: false }));
  client.socket.write(frameOf(9, X));
  client.socket.write(frameOf(0, message.subarray(3)));
  await client.about(1);
  // Left in the middle of a frame.
  client.socket.write(frameOf(2, pack([HEAD, 2, 'b', 's'])).subarray(0, 4));
  client.destroy();
  await until('all sessions are over', () => rig.counters.sessions.open === 0);
  assert.equal(rig.counters.sessions.faults, 1, 'what has no mask is no message');
});

test('messages that were changed at random end in answers or in the end of their session', async (t) => {
  const rig = await startPlanes(t);
  const random = createRandom(7);
  const frames: readonly (readonly unknown[])[] = [
    [CREATE, 1, 'b', 's', X, { ...TEXT, 'stream-attrs': '{}', 'stream-ttl': 5 }],
    [APPEND, 2, 'b', 's', X, { ...TEXT, 'producer-id': 'p', 'producer-epoch': 1, 'producer-seq': 0 }],
    [APPEND, 3, 'b', 's', [X, X], { ...TEXT, 'stream-expected-offset': 3 }],
    [HEAD, 4, 'b', 's'],
    [READ, 5, 'b', 's', { record: 4, max_records: 3, record_view: 'envelope' }],
    [SUBSCRIBE, 6, 'b', 's', 4000, { offset: 'now', max_bytes: 5 }],
    [CREDIT, 6, 70_000],
    [UNSUBSCRIBE, 6],
    [DELETE, 7, 'b', 's', { 'if-match': '*' }],
    [ATTRIBUTES, 8, 'b', 's', Buffer.from('{}')],
  ];
  let survived = 0;
  let sent = 0;
  for (let round = 0; round < 60; round++) {
    const client = await SessionClient.connect(rig.port);
    for (let i = 0; i < 10 && !client.isOver; i++) {
      const message = pack(...Array.from({ length: random.int(1, 4) }, () => random.pick(frames)));
      for (let flips = random.int(1, 3); flips > 0; flips--)
        message[random.int(0, message.length - 1)] = random.int(0, 255);
      client.sendBytes(random.chance(0.2) ? message.subarray(0, random.int(1, message.length)) : message);
      sent++;
    }
    if (random.chance(0.3)) client.destroy();
    client.socket.write(frameOf(8, hex('03e8')));
    await client.ended();
    if (client.closeCode === 1000) survived++;
  }
  await until('all sessions are over', () => rig.counters.sessions.open === 0);
  const { sessions } = rig.counters;
  assert.equal(sent, 600);
  assert(sessions.faults > 10 && sessions.refusals > 0, JSON.stringify(sessions));
  assert(survived < 60);
  await until('nothing is left', () => rig.counters.live.subscriptions === 0 && rig.planes.openRequests() === 0);
});

test('a handshake that never ends, and one that asks for more at once, do no harm', async (t) => {
  const rig = await startPlanes(t);
  const client = await SessionClient.connect(rig.port);
  client.socket.write(handshakeOf());
  await client.ended();
  const { status } = await fetch(`${rig.client}/__svc/health`);
  assert.equal(status, 200);
});
