// Hostile requests as raw bytes. Each generator is a pure function of its randomness, so a seed repeats the whole
// attack.
import type { Random } from '../support/random.ts';
import { FAMILIES, FUZZ_BUCKET, latin1, request, type Attack } from './attack.ts';
import {
  BAD_CHUNKS,
  BAD_LENGTHS,
  BAD_NUMBERS,
  BAD_TEXTS,
  jsonBodies,
  NUMERIC_HEADERS,
  ODD_METHODS,
  QUERY_NAMES,
  QUERY_VALUES,
  TEXT_HEADERS,
} from './hostile-values.ts';

const METHODS = ['GET', 'PUT', 'POST', 'HEAD', 'DELETE'] as const;

function badHeaders(random: Random): Attack {
  const method = random.pick(METHODS);
  const path = `${random.pick(FAMILIES)}s${random.int(0, 9)}`;
  const headers = ['Content-Type: application/json'];
  if (random.chance(0.5)) headers.push('Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0');
  if (random.chance(0.2)) headers.push(`Stream-Forked-From: ${random.pick(FAMILIES)}s${random.int(0, 9)}`);
  const count = random.int(1, 3);
  for (let i = 0; i < count; i++) {
    const numeric = random.chance(0.6);
    headers.push(
      `${random.pick(numeric ? NUMERIC_HEADERS : TEXT_HEADERS)}: ${random.pick(numeric ? BAD_NUMBERS : BAD_TEXTS)}`,
    );
  }
  // Repeat one of them, perhaps with another value.
  if (random.chance(0.4)) headers.push(random.pick(headers), `${random.pick(headers).split(':')[0]}: other`);
  return {
    label: `headers ${method}`,
    bytes: request(method, path, headers, random.chance(0.5) ? '{"a":1}' : ''),
    complete: false,
  };
}
function badQuery(random: Random): Attack {
  const pairs = Array.from({ length: random.int(1, 5) }, () => {
    const glue = random.pick(['=', '=', '=', '', '==', '%3d']);
    return `${random.pick(QUERY_NAMES)}${glue}${random.pick(QUERY_VALUES)}`;
  });
  const query = pairs.join(random.pick(['&', '&', '&', '&&', ';', '?']));
  const path = `${random.pick([...FAMILIES, '/'])}${random.pick(['s1', 's2', 'json', 'streams', 'attrs', 's1/attrs', 's1/bootstrap', 's1/snapshot', 's1/retention', FUZZ_BUCKET])}?${query}`;
  // A long-poll may rightly stay open.
  return {
    label: 'query',
    bytes: request(random.pick(['GET', 'GET', 'GET', 'HEAD', 'PUT']), path),
    complete: !query.includes('live'),
  };
}
function badJson(random: Random): Attack {
  const body = random.pick(jsonBodies());
  const method = random.pick(['POST', 'POST', 'PUT']);
  const path = method === 'PUT' ? `${FAMILIES[0]}json/attrs` : `${random.pick(FAMILIES)}json`;
  return { label: 'JSON body', bytes: request(method, path, ['Content-Type: application/json'], body), complete: true };
}
function badLength(random: Random): Attack {
  const head = `POST ${random.pick(FAMILIES)}s1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n`;
  return {
    label: 'length',
    bytes: latin1(`${head}Content-Length: ${random.pick(BAD_LENGTHS)}\r\n\r\nhello`),
    complete: false,
  };
}
function badChunks(random: Random): Attack {
  const coding = random.pick(['chunked', 'chunked', 'Chunked', 'gzip, chunked', 'identity', 'chunked, chunked', 'x']);
  const both = random.chance(0.2) ? 'Content-Length: 5\r\n' : '';
  const head = `POST ${random.pick(FAMILIES)}s1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n${both}Transfer-Encoding: ${coding}\r\n\r\n`;
  return { label: 'chunks', bytes: latin1(head + random.pick(BAD_CHUNKS)), complete: false };
}

function badHead(random: Random): Attack {
  const path = `${random.pick(FAMILIES)}s1`;
  const heads = [
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX-Big: ${'b'.repeat(random.int(15_000, 70_000))}\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${'X-Many: y\r\n'.repeat(random.int(90, 3000))}\r\n`,
    `GET /${'p'.repeat(random.int(2000, 40_000))} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    `GET ${path}?${'q'.repeat(random.int(2000, 40_000))} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nno colon here\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\n: empty\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\n folded: y\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX\x00Y: z\r\n\r\n`,
    `GET ${path} HTTP/1.1\r\nHost: x\nX: y\n\n`,
    `GET ${path} HTTP/1.1\r\n\r\n`,
    `GET ${path} HTTP/1.0\r\n\r\n`,
    `GET ${path} HTTP/0.9\r\n\r\n`,
    `GET ${path} HTTP/2.0\r\nHost: localhost\r\n\r\n`,
    `GET ${path} HTTP/9999.1\r\nHost: localhost\r\n\r\n`,
    `GET ${path}\r\n\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    '\r\n\r\n\r\n\r\n',
    `${'\r\n'.repeat(5000)}GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  ];
  return { label: 'head', bytes: latin1(random.pick(heads)), complete: false };
}
function oddMethod(random: Random): Attack {
  const path = random.pick([
    `${random.pick(FAMILIES)}s1`,
    `/${FUZZ_BUCKET}`,
    '/',
    '/__svc/metrics',
    '/v1/stream/',
    '*',
  ]);
  return {
    label: 'method',
    bytes: request(random.pick(ODD_METHODS), path, [], random.chance(0.3) ? 'body' : ''),
    complete: false,
  };
}

/** Valid requests on every route, as seeds for mutation. */
function validRequest(random: Random): Buffer {
  const base = random.pick(FAMILIES);
  const stream = `${base}s${random.int(0, 9)}`;
  return random.pick([
    () => request('PUT', stream, ['Content-Type: text/plain', 'Stream-TTL: 3600'], 'first'),
    () => request('PUT', stream, ['Content-Type: application/json', 'Stream-Attrs: {"title":"t"}'], '[1,2]'),
    () => request('POST', stream, ['Content-Type: text/plain'], 'hello'),
    () =>
      request(
        'POST',
        stream,
        ['Content-Type: text/plain', 'Producer-Id: p', 'Producer-Epoch: 0', 'Producer-Seq: 0'],
        'hello',
      ),
    () =>
      request(
        'POST',
        `${base}json`,
        ['Content-Type: application/json', 'Stream-Record-Match: 0'],
        '{"a":[1,2,{"b":null}]}',
      ),
    () => request('GET', `${stream}?offset=-1`),
    () => request('GET', `${stream}?offset=now&live=long-poll&timeout_ms=5`),
    () => request('GET', `${base}json?tail_records=2&max_records=1`),
    () => request('HEAD', stream),
    () => request('DELETE', stream),
    () => request('PUT', `/${FUZZ_BUCKET}/s1/attrs`, ['Content-Type: application/json'], '{"metadata":{"k":1}}'),
    () => request('GET', `/${FUZZ_BUCKET}/streams?prefix=s&limit=5`),
    () => request('POST', `/${FUZZ_BUCKET}/s1/append-batch`, [], '\0\0\0\x02ab\0\0\0\0\0\0\0\x01c'),
    () => request('POST', `/${FUZZ_BUCKET}/json/append-batch`, ['Content-Type: application/json'], '\0\0\0\x03[1]'),
    () => request('PUT', `/${FUZZ_BUCKET}/json/snapshot?record=${random.int(0, 3)}`, ['Content-Type: a/b'], 'state'),
    () => request('PUT', `/${FUZZ_BUCKET}/s1/snapshot/${random.int(0, 9)}`, ['Stream-Snapshot-Match: 00'], 'state'),
    () => request('PUT', `/${FUZZ_BUCKET}/json/retention?record=${random.int(0, 3)}`),
    () => request('PUT', `/${FUZZ_BUCKET}/s1/retention/${random.int(0, 9)}`),
    () => request('GET', `/${FUZZ_BUCKET}/s1/snapshot`),
    () => request('DELETE', `/${FUZZ_BUCKET}/s1/snapshot/0`),
    () => request('GET', `/${FUZZ_BUCKET}/${random.pick(['s1', 'json'])}/bootstrap`),
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
      () =>
        Buffer.concat([
          before,
          latin1(random.pick(['%', '%00', '\r\n', '..', '/', '\x00', '?', '&', ':', ' '])),
          after,
        ]),
      () => Buffer.from(before),
    ])();
    if (bytes.length === 0) bytes = latin1('G');
  }
  return { label: 'mutation', bytes, complete: false };
}

function pipelined(random: Random): Attack {
  const parts = Array.from({ length: random.int(2, 8) }, () =>
    random.chance(0.7) ? validRequest(random) : random.bytes(random.int(1, 200)),
  );
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
  let dice = random.int(
    1,
    KINDS.reduce((sum, [weight]) => sum + weight, 0),
  );
  for (const [weight, kind] of KINDS) {
    dice -= weight;
    if (dice <= 0) return kind(random);
  }
  return noise(random);
}
