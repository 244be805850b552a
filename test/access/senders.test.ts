// Where a request comes from: X-Forwarded-For as proxies write it, and as strangers do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ForwardedHeaders, Senders } from '../../src/access/senders.ts';
import { networks } from '../../src/config/kinds.ts';
import { createRandom } from '../support/random.ts';

const PROXIES = ['10.0.0.7', '192.168.0.0/16', 'fd00::/8', '::1'];

function senderOf(peer: string, headers: string | ForwardedHeaders, proxies: readonly string[] = PROXIES): object {
  const bytes = new TextEncoder().encode(peer);
  const sent = typeof headers === 'string' ? { forwardedFor: headers } : headers;
  return new Senders(proxies).senderOf({ getRemoteAddressAsText: () => bytes.buffer }, sent);
}

test('without a trusted proxy the header says nothing', () => {
  for (const forwarded of ['', '203.0.113.9', '10.0.0.7, 203.0.113.9']) {
    assert.deepEqual(senderOf('198.51.100.1', forwarded), { from: '198.51.100.1' }, forwarded);
    assert.deepEqual(senderOf('10.0.0.7', forwarded, []), { from: '10.0.0.7' }, forwarded);
  }
});

test('an address has one spelling', () => {
  for (const [written, from] of [
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', '127.0.0.1'],
    ['2001:0DB8:0000:0000:0000:0000:0000:0001', '2001:db8::1'],
    ['127.0.0.1', '127.0.0.1'],
    ['', ''],
    ['no address', ''],
  ] as const) {
    assert.deepEqual(senderOf(written, ''), { from }, written);
  }
});

const LONG = '203.0.113.9, '.repeat(500);

/** [X-Forwarded-For, what counts]; undefined: the proxy itself. */
const HEADERS: readonly (readonly [string, string | undefined])[] = [
  ['203.0.113.9', '203.0.113.9'],
  [' 203.0.113.9 ', '203.0.113.9'],
  ['203.0.113.9,192.168.3.4', '203.0.113.9'],
  ['203.0.113.9, 192.168.3.4, fd00::1, 10.0.0.7', '203.0.113.9'],
  // The part that a stranger wrote stands in front of what the proxy appended.
  ['127.0.0.1, 203.0.113.9', '203.0.113.9'],
  ['10.0.0.7, 192.168.1.1, 203.0.113.9', '203.0.113.9'],
  ['evil", "who":"admin_token, 203.0.113.9', '203.0.113.9'],
  [`${LONG}198.51.100.2`, '198.51.100.2'],
  // All are proxies: the one farthest away.
  ['192.168.3.4, 10.0.0.7', '192.168.3.4'],
  // Spellings.
  ['203.0.113.9:4711', '203.0.113.9'],
  ['[2001:DB8::1]:4711', '2001:db8::1'],
  ['[2001:db8:0:0::1]', '2001:db8::1'],
  ['2001:db8::1', '2001:db8::1'],
  ['::ffff:203.0.113.9', '203.0.113.9'],
  ['203.0.113.9, ::ffff:10.0.0.7', '203.0.113.9'],
  ['203.0.113.9, ::ffff:192.168.7.7, 0:0:0:0:0:0:0:1', '203.0.113.9'],
  // No address: nothing in front of it is believed.
  ['unknown', undefined],
  ['', undefined],
  [',', undefined],
  [',,,,', undefined],
  ['203.0.113.9,', undefined],
  ['203.0.113.9, unknown', undefined],
  ['203.0.113.9, unknown, 10.0.0.7', '10.0.0.7'],
  ['203.0.113.9, , 192.168.0.1', '192.168.0.1'],
  ['_hidden', undefined],
  ['203.0.113.999', undefined],
  ['203.0.113', undefined],
  ['0x7f.1', undefined],
  ['203.0.113.09', undefined],
  ['203.0.113.9:x', undefined],
  ['[203.0.113.9', undefined],
  ['fe80::1%eth0', undefined],
  ['1'.repeat(4000), undefined],
  ['203.0.113.9\n10.0.0.7', undefined],
  ['<script>', undefined],
  // More hops than any installation has.
  [`203.0.113.9${', 10.0.0.7'.repeat(40)}`, '10.0.0.7'],
];

test('of a trusted proxy the last address counts that is not a proxy', () => {
  for (const [header, client] of HEADERS) {
    const expected = client === undefined ? { from: '10.0.0.7' } : { from: client, via: '10.0.0.7' };
    assert.deepEqual(senderOf('10.0.0.7', header), expected, header.slice(0, 80));
  }
  const mapped = senderOf('0000:0000:0000:0000:0000:ffff:0a00:0007', '203.0.113.9');
  assert.deepEqual(mapped, { from: '203.0.113.9', via: '10.0.0.7' });
  assert.deepEqual(senderOf('fd12::3', '203.0.113.9'), { from: '203.0.113.9', via: 'fd12::3' });
});

/** [Forwarded, what counts]; undefined: the proxy itself. */
const FORWARDED: readonly (readonly [string, string | undefined])[] = [
  ['for=203.0.113.9', '203.0.113.9'],
  ['For="203.0.113.9:4711"', '203.0.113.9'],
  ['for="[2001:DB8::1]:4711"', '2001:db8::1'],
  ['proto=http;FOR="[2001:db8::1]";by=10.0.0.7', '2001:db8::1'],
  ['for="\\2\\03.0.113.9"', '203.0.113.9'],
  ['\t for=203.0.113.9 ; proto=https , for=192.168.3.4;by="_edge:80"', '203.0.113.9'],
  // The part that a stranger wrote stands in front of what the proxy appended.
  ['for=127.0.0.1, for=203.0.113.9', '203.0.113.9'],
  ['for="10.0.0.7,for=6.6.6.6", for=203.0.113.9', '203.0.113.9'],
  ['for=6.6.6.6;by="a\\", for=7.7.7.7", for=203.0.113.9', '203.0.113.9'],
  ['x="for=6.6.6.6"', undefined],
  // All are proxies, or what is in front of one is hidden.
  ['for=192.168.3.4, for=10.0.0.7', '192.168.3.4'],
  ['for=203.0.113.9, for=_hidden, for=10.0.0.7', '10.0.0.7'],
  ['for=203.0.113.9, for=unknown', undefined],
  ['for="_SEVKISEK"', undefined],
  ['for=203.0.113.9, by=10.0.0.7', undefined],
  ['for=203.0.113.9,', undefined],
  ['for=203.0.113.9, ,for=10.0.0.7', '10.0.0.7'],
  ['for=""', undefined],
  // Quotes of a stranger that are open swallow what the proxy wrote: nothing of it is believed.
  ['for=6.6.6.6;x=", for=203.0.113.9', undefined],
  ['for=6.6.6.6;x=", for="[2001:db8::1]"', undefined],
  ['for=6.6.6.6;x="\\", for="[2001:db8::1]";by="_x"', undefined],
  ['for="6.6.6.6, for=203.0.113.9', undefined],
  ['for=6.6.6.6", for=203.0.113.9', undefined],
  // No grammar of RFC 7239.
  ['203.0.113.9', undefined],
  ['for', undefined],
  ['for=', undefined],
  ['for =203.0.113.9', undefined],
  ['for= 203.0.113.9', undefined],
  ['for=203.0.113.9 x', undefined],
  ['for=[2001:db8::1]', undefined],
  ['for=203.0.113.9:80', undefined],
  ['for=6.6.6.6;for=203.0.113.9', undefined],
  ['for=203.0.113.9\n', undefined],
  ["for='203.0.113.9'", undefined],
  [`${'for=203.0.113.9, '.repeat(500)}for=203.0.113.9`, undefined],
  [`for=203.0.113.9${', for=10.0.0.7'.repeat(40)}`, '10.0.0.7'],
  [',;'.repeat(2000), undefined],
  ['"'.repeat(4000), undefined],
  ['\\'.repeat(4000), undefined],
];

test('the same of Forwarded, read as RFC 7239 says or not at all', () => {
  for (const [forwarded, client] of FORWARDED) {
    const expected = client === undefined ? { from: '10.0.0.7' } : { from: client, via: '10.0.0.7' };
    assert.deepEqual(senderOf('10.0.0.7', { forwarded }), expected, forwarded.slice(0, 80));
    assert.deepEqual(senderOf('198.51.100.1', { forwarded }), { from: '198.51.100.1' }, 'no trusted proxy');
  }
});

test('a row of blanks from a stranger takes no time', () => {
  const startMs = performance.now();
  for (let i = 0; i < 200; i++)
    assert.deepEqual(senderOf('10.0.0.7', { forwarded: `${' '.repeat(4000)}\0` }), { from: '10.0.0.7' });
  // A search through all splits of the row takes 60 ms each time.
  assert(performance.now() - startMs < 4000, `${performance.now() - startMs} ms`);
});

test('two headers that differ are both not believed', () => {
  const both = (forwardedFor: string, forwarded: string): object => senderOf('10.0.0.7', { forwardedFor, forwarded });
  const agreed = { from: '203.0.113.9', via: '10.0.0.7' };
  assert.deepEqual(both('203.0.113.9', 'for=203.0.113.9'), agreed);
  assert.deepEqual(both('6.6.6.6, 203.0.113.9, 192.168.0.1', 'for="203.0.113.9:80";proto=https'), agreed);
  for (const [forwardedFor, forwarded] of [
    ['203.0.113.9', 'for=203.0.113.8'],
    ['203.0.113.9', 'for=unknown'],
    ['203.0.113.9', 'for="203.0.113.9'],
    ['unknown', 'for=203.0.113.9'],
    ['203.0.113.9', 'for=203.0.113.9, for=10.0.0.8'],
  ] as const) {
    assert.deepEqual(both(forwardedFor, forwarded), { from: '10.0.0.7' }, `${forwardedFor} | ${forwarded}`);
  }
});

test('whatever a stranger writes in front, what counts is what the proxy appended, or the proxy', () => {
  const random = createRandom(0xf0);
  const pieces = [
    ...['for=6.6.6.6', 'for=', 'for', '"', '\\', ',', ';', '=', ' ', '\t', '_x', 'unknown', '6.6.6.6', '[::1]', 'by='],
    ...['"6.6.6.6"', '\\"', 'for="10.0.0.7"', '\u00ff', '\0', '10.0.0.7', ':80'],
  ];
  const appended = ['for=203.0.113.9', 'for="203.0.113.9:80";by="_edge"', 'proto=https;for="203.0.113.9"'];
  let believed = 0;
  for (let i = 0; i < 20_000; i++) {
    const front = Array.from({ length: random.int(0, 11) }, () => random.pick(pieces)).join('');
    const forwarded = `${front},${random.pick(appended)}`;
    const sender = senderOf('10.0.0.7', { forwarded }) as { readonly from: string };
    assert(['203.0.113.9', '10.0.0.7'].includes(sender.from), JSON.stringify([forwarded, sender]));
    if (sender.from === '203.0.113.9') believed++;
  }
  assert(believed > 1000, `${believed} were whole`);
});

test('the setting takes addresses and networks, and nothing else', () => {
  assert.deepEqual(networks.parse(PROXIES, ''), PROXIES);
  for (const wrong of [
    'proxy.example',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0',
    '10.0.0.0/',
    '10.0.0.7:80',
    '',
    '*',
    7,
  ]) {
    assert.equal(networks.parse([wrong], ''), undefined, String(wrong));
  }
});
