// Tokens with scopes over every row of the client plane and real sockets: what a token lacks is refused before a byte of
// the body and before a shard is asked, and what it has is answered as with the token that has all rights.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { SCOPED_OPERATIONS, type Scope, type ScopedOperation } from '../../src/base/scopes.ts';
import { CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { bookOf, bearer, listed, scopeOf } from '../support/scoped-tokens.ts';
import type { ControlPort } from '../../src/subscriptions/ports.ts';
import { type Rig, startPlanes } from './planes.ts';

const ALL_RIGHTS = 'a-token-with-all-rights-0123456789';
const BUCKET = 'shop';
const STREAM = 'orders/1';

/** For each operation a token with it alone, and one with all others. */
function tokensOf(name: string, bucket: string, streams: string): ReturnType<typeof listed>[] {
  return SCOPED_OPERATIONS.flatMap((operation) => {
    const others = SCOPED_OPERATIONS.filter((other) => other !== operation);
    return [
      listed(`${name}-only-${operation}`, [scopeOf(bucket, streams, operation)]),
      listed(`${name}-without-${operation}`, [scopeOf(bucket, streams, ...others)]),
    ];
  });
}

const everything = (bucket: string, streams: string): Scope[] => [scopeOf(bucket, streams, ...SCOPED_OPERATIONS)];

const TOKENS = [
  ...tokensOf('exact', BUCKET, STREAM),
  ...tokensOf('whole', BUCKET, '*'),
  listed('elsewhere', [...everything('other', '*'), ...everything(BUCKET, 'orders/2'), ...everything('shop2', '*')]),
  listed('other-bucket', everything('other', '*')),
  listed('everything', everything('*', '*')),
];

/** For each request to the stand-in, whether it came with scopes. */
const told: boolean[] = [];
const CONTROL: ControlPort = {
  open: ({ rights }) => {
    told.push(rights !== undefined);
    return { run: () => Promise.resolve({ status: 204 }) };
  },
  refusal: () => undefined,
};

async function startScoped(t: TestContext): Promise<Rig> {
  const settings = { clientToken: ALL_RIGHTS, clientTokens: bookOf(TOKENS) };
  const rig = await startPlanes(t, settings, false, { control: CONTROL });
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('BUCKET_NOT_EMPTY'));
  return rig;
}

const VALUES: Readonly<Record<string, string>> = {
  ...{ bucket: BUCKET, stream: encodeURIComponent(STREAM), id: 'x', offset: '0' },
};

function pathOf(pattern: string): string {
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => VALUES[name] ?? '0').replace('*', 'other');
  return /\/(snapshot|retention)$/.test(pattern) ? `${path}?record=0` : path;
}

interface Asked {
  readonly row: RouteRow;
  readonly method: string;
  readonly path: string;
}

/** All rows, and streams by their flat paths, too. */
function requests(): Asked[] {
  return CLIENT_ROWS.flatMap((row) =>
    row.methods.flatMap((one) => {
      const method = one === '*' ? 'POST' : one;
      const asked = { row, method, path: pathOf(row.pattern) };
      if (row.pattern !== '/{bucket}/{stream}') return [asked];
      return [asked, { ...asked, path: `/v1/stream/${BUCKET}/${STREAM}` }];
    }),
  );
}

/** The answer to a head whose body does not come. */
async function answerToHead({ port }: Rig, { method, path }: Asked, token: string): Promise<RawResponse> {
  const client = await RawClient.connect(port);
  try {
    const hasBody = method === 'PUT' || method === 'POST';
    const lines = [
      ...[`${method} ${path} HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json'],
      ...(hasBody ? ['Content-Length: 2'] : []),
      `Authorization: ${bearer(token).Authorization}`,
    ];
    return await client.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), method === 'HEAD');
  } finally {
    client.destroy();
  }
}

async function whole({ port }: Rig, { row, method, path }: Asked, authorization: string): Promise<string> {
  const body = method === 'PUT' || method === 'POST' ? (row.operation === 'batch' ? '\0\0\0\x01x' : '{}') : undefined;
  const headers = { 'Content-Type': 'application/json', Authorization: authorization };
  const answer = await requestOnce(port, method, path, headers, body);
  return `${answer.status} ${answer.headers.get('millrace-error') ?? ''}`;
}

function codeOf({ status, headers }: RawResponse): string {
  return `${status} ${headers.get('millrace-error') ?? ''}`;
}

/** The kind of token that covers what the route is about. */
function kindOf({ right }: RouteRow): 'exact' | 'whole' {
  return typeof right === 'object' && right.on === 'bucket' ? 'whole' : 'exact';
}

test('every row of the client plane says what a token needs, or refuses those with scopes', async (t) => {
  const rig = await startScoped(t);
  const needed = new Set<ScopedOperation>();
  for (const asked of requests()) {
    const { row, method, path } = asked;
    const { right } = row;
    const what = `${method} ${path}`;
    if (row.access !== undefined) {
      assert.equal(right, undefined, `${what}: it is open`);
      continue;
    }
    if (right === 'any') {
      // The service decides, of each subscription.
      if (path.startsWith('/v1/')) {
        assert.match(await whole(rig, asked, bearer('elsewhere').Authorization), /^204/, what);
        assert.match(await whole(rig, asked, `Bearer ${ALL_RIGHTS}`), /^204/, what);
        assert.deepEqual(told, [true, false], 'it is told of the scopes');
        continue;
      }
      // The service decides about what a body asks for.
      if (row.bodyBytesMax !== undefined)
        assert.match(await whole(rig, asked, bearer('elsewhere').Authorization), /^400/, what);
      else assert.notEqual((await answerToHead(rig, asked, 'elsewhere')).status, 403, what);
      continue;
    }
    // Only the token with all rights: what is over the whole node, and what is not decided by streams.
    if (right === undefined) {
      if (path === '/__svc/leadership-shed') continue;
      const answer = await answerToHead(rig, asked, 'everything');
      assert.equal(codeOf(answer), '403 INSUFFICIENT_SCOPE', what);
      continue;
    }
    const { operation } = right;
    needed.add(operation);
    const kind = kindOf(row);
    const denied = await answerToHead(rig, asked, `${kind}-without-${operation}`);
    assert.equal(codeOf(denied), '403 INSUFFICIENT_SCOPE', what);
    assert.equal(denied.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"', what);
    if (method !== 'HEAD') {
      const sentence = denied.body.toString();
      assert.match(sentence, new RegExp(`: ${operation} on .*${BUCKET}`), what);
      if (right.on === 'stream') assert(sentence.includes(`"${BUCKET}/${STREAM}"`), sentence);
    }
    // A part of the bucket is in scope, or nothing is.
    const hidden = await answerToHead(rig, asked, right.on === 'stream' ? 'elsewhere' : 'other-bucket');
    if (right.on === 'stream') assert.equal(codeOf(hidden), '404 STREAM_NOT_FOUND', what);
    else if (right.on === 'bucket') assert.equal(codeOf(hidden), '404 BUCKET_NOT_FOUND', what);
    // An empty list, without a question.
    else assert.equal(codeOf(hidden), '200 ', what);
    if (kind === 'whole') {
      const part = await answerToHead(rig, asked, `exact-only-${operation}`);
      assert.equal(codeOf(part), '403 INSUFFICIENT_SCOPE', `${what}: part of the bucket`);
    }
  }
  // Usage asks for all buckets, and holds each of them against the scopes.
  const asked = rig.gateway.asked.filter(({ bucket }) => bucket !== '');
  assert.deepEqual(asked, [], 'no shard was asked about a bucket or a stream');
  assert.deepEqual([...needed].sort(), SCOPED_OPERATIONS.filter((one) => one !== 'subscribe').sort());
  assert(rig.counters.access.denied > 30 && rig.counters.access.hidden > 20);
  assert.equal(rig.counters.access.unknown + rig.counters.access.missing, 0);
});

test('with the right, and it alone, a request is answered as with all rights', async (t) => {
  const rig = await startScoped(t);
  let compared = 0;
  for (const asked of requests()) {
    const { right } = asked.row;
    if (typeof right !== 'object') continue;
    const expected = await whole(rig, asked, `Bearer ${ALL_RIGHTS}`);
    assert.doesNotMatch(expected, /INSUFFICIENT|401/);
    const token = `${kindOf(asked.row)}-only-${right.operation}`;
    const answered = await whole(rig, asked, bearer(token).Authorization);
    assert.equal(answered, expected, `${asked.method} ${asked.path}`);
    compared++;
  }
  assert(compared > 30, `${compared} requests`);
});

/** Spellings of a path that a router or a proxy could take for another one. */
const SPELLINGS = [
  ...[
    '/shop/orders%2f1',
    '/shop/orders%2F1',
    '/sho%70/orders%2F1',
    '/v1/stream/shop/orders/1',
    '/v1/stream/shop%2Forders/1',
  ],
  ...['/v1/stream/sho%70/orders%2F1', '/v1/stream/shop/%6frders/1'],
];
const OTHER_NAMES = [
  ...[
    '/shop/orders%2F2/../orders%2F1',
    '/shop//orders%2F1',
    '//shop/orders%2F1',
    '/shop/orders%2F1/',
    '/shop/./orders%2F1',
  ],
  ...[
    '/other/../shop/orders%2F1',
    '/other/%2e%2e/shop/orders%2F1',
    '/v1/stream/other/../shop/orders/1',
    '/SHOP/orders%2F1',
  ],
  ...['/v1/stream//shop/orders/1', '/v1/stream/shop//orders/1', '/v1//stream/shop/orders/1', '/shop/orders%252F1'],
  ...[
    '/shop/orders%2F1%00',
    '/shop/orders%2F1%20',
    '/shop/orders%2F1%2F..',
    '/shop%2Forders%2F1',
    '/v1/stream/shop/orders/1/',
  ],
  ...[
    '/shop/orders%2F2?stream=orders/1',
    '/shop/orders%2F2;/orders%2F1',
    '/shop/ORDERS%2F1',
    '/v1/stream/other/..%2Fshop/orders/1',
  ],
];

test('no spelling of a path leads past the scopes', async (t) => {
  const rig = await startScoped(t);
  rig.gateway.script = () => undefined;
  for (const path of [...SPELLINGS, ...OTHER_NAMES]) {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']) {
      rig.gateway.asked.length = 0;
      const headers = { ...bearer('exact-only-read'), 'Content-Type': 'text/plain' };
      const { status } = await requestOnce(rig.port, method, path, headers, method === 'POST' ? 'x' : undefined);
      const reached = rig.gateway.asked.map(({ bucket, stream }) => `${bucket}/${stream}`);
      const mayRead = (method === 'GET' || method === 'HEAD') && SPELLINGS.includes(path);
      // Whatever is reached is the one stream that may be read.
      if (mayRead) assert.deepEqual([status, reached], [200, [`${BUCKET}/${STREAM}`]], `${method} ${path}`);
      else assert.deepEqual([status >= 400, reached], [true, []], `${method} ${path}: ${status}`);
    }
  }
});

test('a fork takes the right to read its source', async (t) => {
  const target = scopeOf('mine', '*', 'create');
  const tokens = [
    listed('no-source', [target]),
    listed('denied', [target, scopeOf(BUCKET, STREAM, 'append', 'list')]),
    listed('reader', [target, scopeOf(BUCKET, STREAM, 'read')]),
    listed('only-source', [scopeOf(BUCKET, STREAM, 'read'), scopeOf('mine', 'f', 'read', 'append')]),
  ];
  const rig = await startPlanes(t, { clientTokens: bookOf(tokens) });
  const fork = async (token: string, source: string): Promise<string> =>
    codeOf(await requestOnce(rig.port, 'PUT', '/mine/f', { ...bearer(token), 'Stream-Forked-From': source }));
  const sources = [
    ...['/shop/orders%2F1', '/v1/stream/shop/orders/1', ' /shop/orders%2F1 ', '/v1/stream/shop%2Forders%2F1'],
    '/%73hop/orders%2f1',
  ];
  for (const source of sources) {
    assert.equal(await fork('no-source', source), '404 FORK_SOURCE_NOT_FOUND', source);
    assert.equal(await fork('denied', source), '403 INSUFFICIENT_SCOPE', source);
    assert.equal(await fork('only-source', source), '403 INSUFFICIENT_SCOPE', source);
    // The stand-in for forks takes none.
    assert.equal(await fork('reader', source), '503 FORKS_FULL', source);
  }
  assert.equal(await fork('reader', '/shop/orders%2F2'), '404 FORK_SOURCE_NOT_FOUND');
  assert.equal(await fork('reader', '/shop/../shop/orders%2F1'), '400 INVALID_HEADER');
  assert.equal(rig.gateway.asked.length, 0);
});

test('a refused token is told why, and counted', async (t) => {
  const tokens = [
    ...[listed('good', everything('b', 's')), listed('old', everything('b', 's'), Date.now() - 1)],
    listed('lost', everything('b', 's')),
  ];
  const rig = await startPlanes(t, {
    ...{ clientTokens: bookOf(tokens, ['lost']), corsOrigins: ['https://app.example'] },
  });
  const ask = async (authorization?: string): Promise<[number, string | undefined, string]> => {
    const headers = { Origin: 'https://app.example', ...(authorization && { Authorization: authorization }) };
    const answer = await requestOnce(rig.port, 'GET', '/b/s', headers);
    if (answer.status === 401)
      assert.match(answer.headers.get('access-control-expose-headers') ?? '', /WWW-Authenticate/);
    return [answer.status, answer.headers.get('www-authenticate'), answer.body.toString()];
  };
  const invalid = (why: string): [number, string, string] => [
    ...([401, `Bearer error="invalid_token", error_description="${why}"`] as const),
    `a valid bearer token is required: ${why}\n`,
  ];
  assert.deepEqual(await ask(), [401, 'Bearer', 'a valid bearer token is required\n']);
  assert.deepEqual(await ask('Basic eDp5'), [401, 'Bearer', 'a valid bearer token is required\n']);
  assert.deepEqual(await ask('Bearer another'), invalid('the token is not known'));
  assert.deepEqual(await ask(bearer('old').Authorization), invalid('the token has expired'));
  assert.deepEqual(await ask(bearer('lost').Authorization), invalid('the token was revoked'));
  assert.deepEqual(await ask(`Bearer ${'x'.repeat(9000)}`), invalid('the token is longer than a token may be'));
  assert.equal((await ask(bearer('good').Authorization))[0], 200);
  const { missing, unknown, expired, revoked, oversized } = rig.counters.access;
  assert.deepEqual([missing, unknown, expired, revoked, oversized], [2, 1, 1, 1, 1]);
  // Open routes need none, and a page asks first without one.
  assert.equal((await requestOnce(rig.port, 'GET', '/__svc/health')).status, 200);
  assert.equal((await requestOnce(rig.port, 'OPTIONS', '/b/s')).status, 204);
  // The admin plane knows none of these tokens.
  assert.equal((await requestOnce(rig.adminPort, 'GET', '/__svc/streams/b/s', bearer('good'))).status, 200);
});
