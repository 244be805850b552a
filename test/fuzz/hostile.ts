// Hostile requests as raw bytes. Each generator is a pure function of its randomness, so a seed repeats the whole attack.
import type { Random } from '../support/random.ts';

export interface Attack {
  readonly label: string;
  readonly bytes: Buffer;
  /** The framing is whole, so the server owes an answer or a closed connection. */
  readonly complete: boolean;
}

export const FUZZ_BUCKET = 'fuzz';
const MIB = 1024 * 1024;
const FAMILIES = [`/${FUZZ_BUCKET}/`, `/v1/stream/${FUZZ_BUCKET}/`] as const;
const METHODS = ['GET', 'PUT', 'POST', 'HEAD', 'DELETE'] as const;

/** Everything in latin1, so that any byte can be written as an escape. */
const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

function request(method: string, path: string, headers: readonly string[] = [], body: string | Buffer = ''): Buffer {
  const payload = typeof body === 'string' ? latin1(body) : body;
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...headers, `Content-Length: ${payload.length}`, '', ''];
  return Buffer.concat([latin1(lines.join('\r\n')), payload]);
}

/** Paths that must never reach a stream: nothing may answer 2xx to a write on them. */
export const FORBIDDEN_PATHS: readonly string[] = [
  ...FAMILIES.flatMap((base) => [
    `${base}%00`,
    `${base}a%00b`,
    `${base}..`,
    `${base}%2e%2e`,
    `${base}%2E.`,
    `${base}.%2e`,
    `${base}..%2fx`,
    `${base}a%2f..%2fb`,
    `${base}a%2f%2e%2e`,
    `${base}%ff`,
    `${base}%c0%af`,
    `${base}%ed%a0%80`,
    `${base}%f8%88%80%80%80`,
    `${base}%`,
    `${base}%z`,
    `${base}%zz`,
    `${base}a%2`,
    `${base}%u1234`,
    `${base}\xff\xfe`,
    `${base}a\x01b`,
    `${base}${'n'.repeat(1100)}`,
    `${base}${'%61'.repeat(1100)}`,
    base,
  ]),
  '/__svc/x',
  '/__svc/',
  '/__svc/metrics/x',
  '/__svc/..',
  '/__svc%2fx/y',
  '/%5f%5fsvc/x',
  '/%5F_svc/metrics',
  '/__other/x',
  '/%00/x',
  '/../x',
  '/%2e%2e/x',
  '//x',
  `/${FUZZ_BUCKET}//x`,
  '/v1/stream/',
  '/v1/stream//x',
  '/v1/stream/a//b',
  '/v1/stream/a/',
  '/v1/stream/../x',
  '/v1/stream/%2e%2e/x',
  '/v1/stream/__svc/x',
  '/v1/stream',
  '/v1/x',
  '/v1/streams/x',
  '*',
  '',
  'x',
  'http://localhost/fuzz/absolute',
];

export function forbiddenPaths(): Attack[] {
  return FORBIDDEN_PATHS.flatMap((path) =>
    ['PUT', 'POST', 'DELETE', 'GET', 'HEAD'].map((method) => ({
      label: `${method} ${JSON.stringify(path)}`,
      bytes: request(method, path, ['Content-Type: text/plain'], method === 'PUT' || method === 'POST' ? 'x' : ''),
      // A broken request line may make the rest of the head unreadable for the HTTP library.
      complete: path.startsWith('/'),
    })),
  );
}

const BAD_NUMBERS = [
  '9007199254740992',
  '9007199254740993',
  '18446744073709551615',
  '18446744073709551616',
  '99999999999999999999999999999999',
  '-1',
  '-0',
  '+1',
  '1.5',
  '1e3',
  '0x10',
  'NaN',
  'Infinity',
  'null',
  'true',
  '1 2',
  '1,2',
  '\xd9\xa3',
  '\x00',
  '',
  ' ',
  '1'.repeat(3000),
  `${'0'.repeat(3000)}1`,
  'now',
];
const NUMERIC_HEADERS = ['Producer-Epoch', 'Producer-Seq', 'Stream-TTL', 'Stream-Record-Match', 'Stream-Expires-At', 'Content-Length'];
const TEXT_HEADERS = [
  ...['Producer-Id', 'Stream-Seq', 'Stream-Closed', 'Stream-Attrs', 'Content-Type', 'If-None-Match', 'Expect', 'Upgrade'],
  ...['Transfer-Encoding', 'Connection', 'Host', 'Origin', 'Authorization', 'Accept-Encoding', 'Range'],
];
const BAD_TEXTS = [
  ...['', ' ', '\xff\xfe\xfd', '\xc3\x28', '\x00', 'a\x01b', '"', '{', '[]', '{"title":5}', '{"metadata":[]}', '{"title":"\\ud800"}'],
  ...['x'.repeat(5000), `{"title":"${'t'.repeat(12_000)}"}`, '['.repeat(6000), 'TRUE', 'tRuE', 'application/json; charset=utf-16'],
  ...['application/json;;;=;', ';', '/', 'a/b/c', 'chunked', 'gzip, chunked', '100-continue', 'websocket', 'h2c', '*', 'W/"x"', '\t'],
];

function badHeaders(random: Random): Attack {
  const method = random.pick(METHODS);
  const path = `${random.pick(FAMILIES)}s${random.int(0, 9)}`;
  const headers = ['Content-Type: application/json'];
  if (random.chance(0.5)) headers.push('Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0');
  const count = random.int(1, 3);
  for (let i = 0; i < count; i++) {
    const numeric = random.chance(0.6);
    headers.push(`${random.pick(numeric ? NUMERIC_HEADERS : TEXT_HEADERS)}: ${random.pick(numeric ? BAD_NUMBERS : BAD_TEXTS)}`);
  }
  // Repeat one of them, perhaps with another value.
  if (random.chance(0.4)) headers.push(random.pick(headers), `${random.pick(headers).split(':')[0]}: other`);
  return { label: `headers ${method}`, bytes: request(method, path, headers, random.chance(0.5) ? '{"a":1}' : ''), complete: false };
}

const QUERY_NAMES = [
  ...['offset', 'live', 'cursor', 'max_bytes', 'timeout_ms', 'record', 'tail_records', 'max_records', 'record_view', 'prefix', 'after', 'limit'],
  ...['', '%00', '\xff', 'x'.repeat(500)],
];
const QUERY_VALUES = [
  ...BAD_NUMBERS.filter((value) => !/[\s\x00]/.test(value)),
  ...['0', '1', '42', '-1', '00000000000000000000', '00000000000000000005', 'sse', 'long-poll', 'websocket', 'envelope', 'now', '%', '%zz', '%ff'],
];

function badQuery(random: Random): Attack {
  const pairs = Array.from({ length: random.int(1, 5) }, () => {
    const glue = random.pick(['=', '=', '=', '', '==', '%3d']);
    return `${random.pick(QUERY_NAMES)}${glue}${random.pick(QUERY_VALUES)}`;
  });
  const query = pairs.join(random.pick(['&', '&', '&', '&&', ';', '?']));
  const path = `${random.pick([...FAMILIES, '/'])}${random.pick(['s1', 's2', 'json', 'streams', 'attrs', 's1/attrs', FUZZ_BUCKET])}?${query}`;
  // A long-poll may rightly stay open.
  return { label: 'query', bytes: request(random.pick(['GET', 'GET', 'GET', 'HEAD', 'PUT']), path), complete: !query.includes('live') };
}

const DEEP = 10_000;

function jsonBodies(): (string | Buffer)[] {
  return [
    '['.repeat(DEEP) + ']'.repeat(DEEP),
    '{"a":'.repeat(DEEP) + '1' + '}'.repeat(DEEP),
    '['.repeat(DEEP),
    '[' + '['.repeat(129) + ']'.repeat(129) + ']',
    '[{"a":'.repeat(DEEP),
    '['.repeat(MIB),
    `[${'1,'.repeat(200_000)}1]`,
    `"${'\\u0000'.repeat(50_000)}"`,
    ...['[]', '[', ']', '{', '}', '{"a"}', '{"a":}', '{"a":1,}', '[1,]', '[,1]', '01', '1.', '.5', '+1', '-', '1e', 'tru', 'nul', 'NaN'],
    ...['"\\x"', '"\\u12"', '"\\ud800"', '"a\nb"', '"unended', '1 2', '{} {}', '\xef\xbb\xbf{}', '"\xff\xfe"', '"\xc3\x28"', '\x00', '\x00{}'],
    ...['1e999', '-1e999', '123456789012345678901234567890', '1e-999', '', ' ', '\r\n\t ', '/*c*/1', "{'a':1}", '[1]x'],
  ];
}

function badJson(random: Random): Attack {
  const body = random.pick(jsonBodies());
  const method = random.pick(['POST', 'POST', 'PUT']);
  const path = method === 'PUT' ? `${FAMILIES[0]}json/attrs` : `${random.pick(FAMILIES)}json`;
  return { label: 'JSON body', bytes: request(method, path, ['Content-Type: application/json'], body), complete: true };
}

const BAD_LENGTHS = [
  ...['33554433', '67108864', '4294967296', '9007199254740992', '18446744073709551616', '99999999999999999999999'],
  ...['-1', '1.5', 'abc', '0x10', '', '+5', '5 5', '5, 5', '5\r\nContent-Length: 6', '5\r\nTransfer-Encoding: chunked'],
];

function badLength(random: Random): Attack {
  const head = `POST ${random.pick(FAMILIES)}s1 HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n`;
  return { label: 'length', bytes: latin1(`${head}Content-Length: ${random.pick(BAD_LENGTHS)}\r\n\r\nhello`), complete: false };
}

const BAD_CHUNKS = [
  ...['zz\r\nabc\r\n', '-5\r\nabcde\r\n0\r\n\r\n', 'FFFFFFFFFFFFFFFF\r\nabc', 'FFFFFFFF\r\nabc', '7fffffffffffffff\r\nabc', '2000001\r\nabc'],
  ...['3\r\nabcdef\r\n0\r\n\r\n', '3\r\nab', '3abc\r\n0\r\n\r\n', '\r\n\r\n', '0\r\n', '0\r\nX: y\r\n\r\n', `0\r\n${'X: y\r\n'.repeat(2000)}\r\n`],
  ...[`3;${'e'.repeat(20_000)}\r\nabc\r\n0\r\n\r\n`, `${'0'.repeat(20_000)}3\r\nabc\r\n0\r\n\r\n`, '3\nabc\n0\n\n', ' 3\r\nabc\r\n0\r\n\r\n', '1\r\na\r\n'.repeat(2000)],
  ...['3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n', '\xff\r\n', '3\r\n\x00\x00\x00\r\n0\r\n\r\n'],
];

function badChunks(random: Random): Attack {
  const coding = random.pick(['chunked', 'chunked', 'Chunked', 'gzip, chunked', 'identity', 'chunked, chunked', 'x']);
  const both = random.chance(0.2) ? 'Content-Length: 5\r\n' : '';
  const head = `POST ${random.pick(FAMILIES)}s1 HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n${both}Transfer-Encoding: ${coding}\r\n\r\n`;
  return { label: 'chunks', bytes: latin1(head + random.pick(BAD_CHUNKS)), complete: false };
}

function badHead(random: Random): Attack {
  const path = `${random.pick(FAMILIES)}s1`;
  const heads = [
    `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Big: ${'b'.repeat(random.int(15_000, 70_000))}\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: x\r\n${'X-Many: y\r\n'.repeat(random.int(90, 3000))}\r\n`,
    `GET /${'p'.repeat(random.int(2000, 40_000))} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET ${path}?${'q'.repeat(random.int(2000, 40_000))} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nno colon here\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\n: empty\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: x\r\nX\x00Y: z\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: x\nX: y\n\n`,
    `GET ${path} HTTP/1.1\r\n\r\n`,
    `GET ${path} HTTP/1.0\r\n\r\n`,
    `GET ${path} HTTP/0.9\r\n\r\n`,
    `GET ${path} HTTP/2.0\r\nHost: x\r\n\r\n`,
    `GET ${path} HTTP/9999.1\r\nHost: x\r\n\r\n`,
    `GET ${path}\r\n\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    '\r\n\r\n\r\n\r\n',
    `${'\r\n'.repeat(5000)}GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`,
  ];
  return { label: 'head', bytes: latin1(random.pick(heads)), complete: false };
}

const ODD_METHODS = [
  ...['PATCH', 'TRACE', 'CONNECT', 'OPTIONS', 'PROPFIND', 'LINK', 'get', 'Put', 'POSTPOSTPOST', 'G\x00T', '\xff\xff', 'M'.repeat(3000), ''],
];

function oddMethod(random: Random): Attack {
  const path = random.pick([`${random.pick(FAMILIES)}s1`, `/${FUZZ_BUCKET}`, '/', '/__svc/metrics', '/v1/stream/', '*']);
  return { label: 'method', bytes: request(random.pick(ODD_METHODS), path, [], random.chance(0.3) ? 'body' : ''), complete: false };
}

/** Valid requests on every route, as seeds for mutation. */
function validRequest(random: Random): Buffer {
  const base = random.pick(FAMILIES);
  const stream = `${base}s${random.int(0, 9)}`;
  return random.pick([
    () => request('PUT', stream, ['Content-Type: text/plain', 'Stream-TTL: 3600'], 'first'),
    () => request('PUT', stream, ['Content-Type: application/json', 'Stream-Attrs: {"title":"t"}'], '[1,2]'),
    () => request('POST', stream, ['Content-Type: text/plain'], 'hello'),
    () => request('POST', stream, ['Content-Type: text/plain', 'Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0'], 'hello'),
    () => request('POST', `${base}json`, ['Content-Type: application/json', 'Stream-Record-Match: 0'], '{"a":[1,2,{"b":null}]}'),
    () => request('GET', `${stream}?offset=-1`),
    () => request('GET', `${stream}?offset=now&live=long-poll&timeout_ms=5`),
    () => request('GET', `${base}json?tail_records=2&max_records=1`),
    () => request('HEAD', stream),
    () => request('DELETE', stream),
    () => request('PUT', `/${FUZZ_BUCKET}/s1/attrs`, ['Content-Type: application/json'], '{"metadata":{"k":1}}'),
    () => request('GET', `/${FUZZ_BUCKET}/streams?prefix=s&limit=5`),
    () => request('GET', '/__svc/metrics'),
  ])();
}

function mutated(random: Random): Attack {
  let bytes = validRequest(random);
  const count = random.int(1, 4);
  for (let i = 0; i < count; i++) {
    const at = random.int(0, bytes.length - 1);
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
    bytes = random.pick([
      () => Buffer.concat([before, random.bytes(1), after.subarray(1)]),
      () => Buffer.concat([before, random.bytes(random.int(1, 8)), after]),
      () => Buffer.concat([before, after.subarray(random.int(1, 6))]),
      () => Buffer.concat([before, after.subarray(0, 20), after]),
      () => Buffer.concat([before, latin1(random.pick(['%', '%00', '\r\n', '..', '/', '\x00', '?', '&', ':', ' '])), after]),
      () => Buffer.from(before),
    ])();
    if (bytes.length === 0) bytes = latin1('G');
  }
  return { label: 'mutation', bytes, complete: false };
}

function pipelined(random: Random): Attack {
  const parts = Array.from({ length: random.int(2, 8) }, () => (random.chance(0.7) ? validRequest(random) : random.bytes(random.int(1, 200))));
  return { label: 'pipeline', bytes: Buffer.concat(parts), complete: false };
}

function noise(random: Random): Attack {
  return { label: 'noise', bytes: random.bytes(random.int(1, 4000)), complete: false };
}

const KINDS: readonly (readonly [number, (random: Random) => Attack])[] = [
  [20, badHeaders],
  [15, badQuery],
  [8, badJson],
  [6, badLength],
  [8, badChunks],
  [8, badHead],
  [5, oddMethod],
  [20, mutated],
  [7, pipelined],
  [3, noise],
];

export function randomAttack(random: Random): Attack {
  let dice = random.int(1, KINDS.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, kind] of KINDS) {
    dice -= weight;
    if (dice <= 0) return kind(random);
  }
  return noise(random);
}
