// A client with a token for some streams tries to get at others: 6,000 drawn requests, in all spellings of paths, on
// every route, as forks, subscriptions and conditional reads, with tokens that it had made of its own, in headers and in
// URLs. What is out of its scopes neither shows nor changes, and a URL changes nothing.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SCOPED_OPERATIONS } from '../../src/base/scopes.ts';
import { ConnectionLost, type HeaderList, RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { listed, textOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';

const ROOT = { Authorization: 'Bearer root-0123456789abcdef0123456789abcdef' };
const folder = temporaryFolder('scopes-fuzz');
const [file, keyFile] = [join(folder, 'tokens.toml'), join(folder, 'key.pem')];
const server = new TestServer({
  ...{ cores: 2, groups: 8, longPollTimeout: '50ms' },
  http: `client_token = "${ROOT.Authorization.slice(7)}"\ntokens_file = "${file}"\nsigning_key_file = "${keyFile}"\ntrusted_proxies = ["127.0.0.1"]`,
});

/** No request holds this text, so an answer that does has it from where the token may not look. */
const CANARY = 'CANARY';
/** Bucket and stream; the attacker knows the first four names. */
const HIDDEN = [
  ...[
    ['shop', 'secret'] as const,
    ['shop', 'open'] as const,
    ['vault', 'gold/1'] as const,
    ['_default', 'plain'] as const,
  ],
  ['vault', `${CANARY}-name`] as const,
];
const OPEN = ['open-1', 'open-2', 'open-a/b'];

async function root(method: string, path: string, headers: HeaderList = {}, body = ''): Promise<RawResponse> {
  const type = { 'Content-Type': 'text/plain', ...headers };
  return await requestOnce(server.port, method, path, { ...ROOT, ...type }, body);
}

const pathOf = (bucket: string, stream: string): string => `/${bucket}/${encodeURIComponent(stream)}`;

before(async () => {
  writeFileSync(keyFile, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const { id, sha256 } = listed('attacker', []);
  const operations = JSON.stringify(SCOPED_OPERATIONS);
  const scopes = `[[tokens.scopes]]\nbucket = "shop"\nstreams = "open-*"\noperations = ${operations}\n`;
  writeFileSync(file, `[[tokens]]\nid = "${id}"\nsha256 = "${sha256}"\n${scopes}`);
  await server.start();
  for (const [bucket, stream] of HIDDEN) {
    const path = pathOf(bucket, stream);
    const attributes = { 'Stream-Attrs': `{"who":"${CANARY}"}` };
    assert.equal((await root('PUT', path, attributes, `${CANARY} first`)).status, 201);
    const { headers } = await root('POST', path, {}, `${CANARY} second`);
    const at = headers.get('stream-next-offset') ?? '';
    assert.equal((await root('PUT', `${path}/snapshot/${at}`, {}, `${CANARY} snapshot`)).status, 204);
  }
  for (const stream of OPEN) assert.equal((await root('PUT', pathOf('shop', stream), {}, 'open')).status, 201);
  const config = { type: 'pull-wake', pattern: 'vault/*', wake_stream: 'shop/secret', description: CANARY };
  const made = await root('PUT', '/v1/stream/__ds/subscriptions/others', {}, JSON.stringify(config));
  assert.equal(made.status, 201, made.body.toString());
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

/** Everything about what is hidden, as the token with all rights sees it. */
async function hiddenState(): Promise<string[]> {
  const seen: string[] = [];
  for (const [bucket, stream] of HIDDEN) {
    const path = pathOf(bucket, stream);
    for (const below of ['', '/attrs', '/snapshot']) {
      const { status, headers, body } = await root('GET', `${path}${below}`);
      seen.push(`${path}${below} ${status} ${headers.get('etag') ?? ''} ${body.toString()}`);
    }
  }
  for (const bucket of ['vault', '_default', 'other', 'v2']) {
    seen.push(`${bucket} ${(await root('GET', `/${bucket}/streams`)).body.toString()}`);
  }
  seen.push((await root('GET', '/shop/streams?prefix=s')).body.toString());
  seen.push((await root('GET', '/v1/stream/__ds/subscriptions/others')).body.toString());
  return seen;
}

const encode = (random: Random, text: string, share: number): string =>
  Array.from(text, (one) => {
    if (!random.chance(share)) return one;
    const hex = `%${one.charCodeAt(0).toString(16).padStart(2, '0')}`;
    return random.chance(0.5) ? hex.toUpperCase() : hex;
  }).join('');

/** A name of a stream in either family, in some spelling, perhaps behind a way around. */
function drawnPath(random: Random): string {
  const [bucket, stream] = random.chance(0.65)
    ? random.pick(HIDDEN.slice(0, 4))
    : (['shop', random.pick([...OPEN, 'open-new', 'open-1/../secret', 'open-/../../vault/gold/1'])] as const);
  const isFlat = random.chance(0.4);
  const flat = bucket === '_default' && random.chance(0.7) ? stream : `${bucket}/${stream}`;
  const share = random.pick([0, 0, 0.2, 1]);
  const named = isFlat
    ? `/v1/stream/${encode(random, flat, share)}`
    : `/${encode(random, bucket, share)}/${encode(random, stream.replaceAll('/', '%2F'), random.chance(0.9) ? 0 : share)}`;
  const around = [
    '/open-1/..',
    '/shop/open-1/../..',
    '//',
    '/.',
    '/%2e%2e',
    '/shop%2Fopen-1/..',
    '/v1/stream/shop/open-1/../..',
  ];
  const before = random.chance(0.15) ? random.pick(around) : '';
  const behind = random.chance(0.1)
    ? random.pick(['/', '//', '/.', '/..', '%00', '%2F..', ';x', '%20', '/open-1'])
    : '';
  return `${before}${named}${behind}`;
}

const BELOW = [
  '',
  '',
  '',
  '/attrs',
  '/snapshot',
  '/snapshot/0',
  '/retention/1',
  '/bootstrap',
  '/append-batch',
  '/streams',
];
const QUERIES = [
  ...['', '', '?offset=-1', '?offset=0&live=long-poll&timeout_ms=20', '?offset=now&live=long-poll&timeout_ms=20'],
  ...[
    '?offset=-1&bucket=vault&stream=gold/1',
    '?prefix=&after=',
    '?prefix=s',
    '?record=0',
    '?max_bytes=9',
    '?limit=1000',
  ],
  '?offset=-1&live=long-poll&wait=create&timeout_ms=20',
];
const SERVICE = [
  ...[
    '/vault',
    '/shop',
    '/_default',
    '/vault/streams',
    '/shop/streams',
    '/_default/streams',
    '/__svc/metrics',
    '/__svc/usage',
  ],
  ...[
    '/__svc/leadership-shed',
    '/__svc/cluster-probe',
    '/__svc/streams/shop/secret',
    '/__svc/quota/shop',
    '/__svc/purge/vault',
  ],
  ...['/__svc/../shop/secret', '/__svc/backup/group/0', '/__svc//metrics', '/v1/stream/__ds/subscriptions/others'],
  ...[
    '/v1/stream/__ds/subscriptions/others/claim',
    '/v1/stream/__ds/subscriptions/others/streams',
    '/v1/stream/__ds/%6aobs',
  ],
  ...['/v1/stream/__ds/subscriptions/others/streams/vault/gold/1', '/v1/stream/__ds/subscriptions/mine/claim'],
  ...['/v1/stream/__ds/subscriptions/mine', '/v1/stream/__ds/subscriptions/%6fthers', '/__svc/session'],
];
const METHODS = ['GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'];

/** Tokens that nodes made for the attacker, the latest ones. */
class Collected {
  readonly #tokens: string[] = [];

  add(token: string): void {
    this.#tokens.unshift(token);
    this.#tokens.length = Math.min(this.#tokens.length, 8);
  }

  drawn(random: Random): string {
    return this.#tokens.length === 0 ? 'none' : random.pick(this.#tokens);
  }

  isIn(text: string): boolean {
    return this.#tokens.some((token) => text.includes(token));
  }
}

/** The body of a wish for another one: what it asks for may be more than the attacker has. */
function drawnWish(random: Random): string {
  const scope = (): object => ({
    bucket: random.pick(['shop', 'shop', 'vault', '_default', '*']),
    [random.chance(0.5) ? 'stream' : 'streams']: random.pick([
      'open-1',
      'open-*',
      'open-1',
      'secret',
      's*',
      '*',
      'gold/1',
    ]),
    operations: random.chance(0.6) ? ['read'] : SCOPED_OPERATIONS.filter(() => random.chance(0.5)),
  });
  const fair = { bucket: 'shop', streams: 'open-*', operations: ['read'] };
  const scopes = random.chance(0.5) ? [fair] : Array.from({ length: random.int(1, 2) }, scope);
  return JSON.stringify({ scopes, expires_in: random.int(1, 1000), ...(random.chance(0.8) ? { use: 'url' } : {}) });
}

/** Tokens of the query, in ways that count and in others. */
function drawnQuery(random: Random, query: string, collected: Collected): string {
  const one = (): string => {
    const token = random.chance(0.8) ? collected.drawn(random) : random.pick([textOf('attacker'), '', 'a.b.c', '%00']);
    return `${random.chance(0.9) ? 'access_token' : random.pick(['ACCESS_TOKEN', 'access%5ftoken'])}=${token}`;
  };
  const pairs = random.chance(0.1) ? `${one()}&${one()}` : one();
  return query === '' ? `?${pairs}` : `${query}&${pairs}`;
}

function drawnHeaders(random: Random, authorization: HeaderList): HeaderList {
  const fork = random.chance(0.2) ? { 'Stream-Forked-From': drawnPath(random) } : {};
  const more: readonly HeaderList[] = [
    ...[
      {},
      {},
      { 'If-None-Match': '*' },
      { 'If-Match': '*' },
      { 'If-None-Match': '"0:0:0"' },
      { 'Last-Event-ID': '0' },
    ],
    ...[{ Range: 'bytes=0-99' }, { 'X-HTTP-Method-Override': 'GET' }, { 'X-Original-URL': '/vault/gold%2F1' }],
    ...[{ 'X-Rewrite-URL': '/shop/secret' }, { 'X-Forwarded-For': '127.0.0.1' }, { Host: 'localhost' }],
    ...[
      { 'Stream-Closed': 'true' },
      { 'Stream-TTL': 1 },
      { 'Stream-Attrs': '{"a":1}' },
      { 'Stream-Expected-Offset': 0 },
    ],
    { authorization: `${ROOT.Authorization}x` },
  ];
  return { ...authorization, 'Content-Type': 'text/plain', ...fork, ...random.pick(more) };
}

function drawnBody(random: Random): string {
  const patterns = ['vault/*', '**', 'shop/*', 'shop/open-1', 'shop/open-*/**', '*/*', 'plain', 'shop/secret'];
  const subscription = JSON.stringify({
    ...{ type: 'pull-wake', wake_stream: random.pick(['shop/open-1', 'shop/secret', 'vault/w']) },
    ...(random.chance(0.6)
      ? { pattern: random.pick(patterns) }
      : { streams: [random.pick(['vault/gold/1', 'shop/open-1'])] }),
  });
  return random.pick(['', 'x', '\0\0\0\x01x', '{}', subscription, '{"streams":["vault/gold/1"]}', '{"worker":"me"}']);
}

let senders = 0;

/** Requests from one address would be refused unseen after twenty wrong tokens in a second. */
function fromAnother(): { readonly 'X-Forwarded-For': string } {
  const n = senders++;
  return { 'X-Forwarded-For': `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}` };
}

/** The token is one that a node made for the attacker. */
async function tryHidden(token: string, what: string): Promise<void> {
  for (const [bucket, stream] of HIDDEN) {
    const path = pathOf(bucket, stream);
    const answers = [
      await requestOnce(server.port, 'GET', path, { ...fromAnother(), Authorization: `Bearer ${token}` }),
      await requestOnce(server.port, 'GET', `${path}?access_token=${token}`, fromAnother()),
    ];
    for (const { status, body } of answers)
      assert((status === 401 || status === 404) && !body.includes(CANARY), `${what}: ${path} ${status}`);
  }
}

test('no request of a token gets at what is out of its scopes', async () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  const unchanged = await hiddenState();
  let client = await RawClient.connect(server.port);
  const statuses = new Map<number, number>();
  const collected = new Collected();
  let linked = 0;
  for (let i = 0; i < 6000; i++) {
    const isWish = random.chance(0.05);
    const method = isWish ? 'POST' : random.pick(METHODS);
    const drawn = random.chance(0.75) ? `${drawnPath(random)}${random.pick(BELOW)}` : random.pick(SERVICE);
    const isLink = !isWish && random.chance(0.3);
    const known = isLink && random.chance(0.6) ? `${pathOf('shop', random.pick(OPEN))}${random.pick(BELOW)}` : drawn;
    const place = isWish ? '/__svc/tokens' : known;
    const path = `${place}${isLink ? drawnQuery(random, random.pick(QUERIES), collected) : random.pick(QUERIES)}`;
    const isUnsigned = isLink && random.chance(0.8);
    const own = random.chance(0.8) ? textOf('attacker') : collected.drawn(random);
    const authorization = isUnsigned ? {} : { Authorization: `Bearer ${own}` };
    const headers = { ...fromAnother(), ...(isWish ? authorization : drawnHeaders(random, authorization)) };
    const body = isWish ? drawnWish(random) : method === 'POST' || method === 'PUT' ? drawnBody(random) : '';
    const what = `seed ${seed}: ${method} ${path} ${JSON.stringify(headers)} ${body}`;
    if (!client.isOpen) client = await RawClient.connect(server.port);
    let answer: RawResponse;
    try {
      answer = await client.request(method, path, headers, body);
    } catch (error) {
      // The node may end the connection; it may not answer with anything that is hidden.
      assert(error instanceof ConnectionLost, String(error));
      continue;
    }
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    const told = [...answer.headers.values(), answer.body.toString()].join('\n');
    assert(!told.includes(CANARY), `${what}: ${answer.status} ${told}`);
    // The redirect to a snapshot leads on with the token that came.
    if (answer.status !== 307) assert(!collected.isIn(told), `${what}: ${answer.status} ${told}`);
    if (isUnsigned && answer.status < 300) {
      assert(['GET', 'HEAD', 'OPTIONS'].includes(method), `${what}: ${answer.status} ${told}`);
      if (method === 'GET') linked++;
    }
    if (isWish && answer.status === 201) {
      const { token } = JSON.parse(answer.body.toString()) as { readonly token: string };
      collected.add(token);
      await tryHidden(token, what);
    }
  }
  client.destroy();
  for (const status of [200, 201, 204, 400, 403, 404])
    assert((statuses.get(status) ?? 0) > 5, `seed ${seed}: ${status} among ${JSON.stringify([...statuses])}`);
  assert(linked > 5, `seed ${seed}: ${linked} reads by URL`);
  assert.deepEqual(await hiddenState(), unchanged, `seed ${seed}`);
});
