// Where a request comes from: X-Forwarded-For as proxies write it, and as strangers do.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Senders } from '../../src/access/senders.ts';
import { networks } from '../../src/config/kinds.ts';

const PROXIES = ['10.0.0.7', '192.168.0.0/16', 'fd00::/8', '::1'];

function senderOf(peer: string, forwardedFor: string, proxies: readonly string[] = PROXIES): object {
  const bytes = new TextEncoder().encode(peer);
  return new Senders(proxies).senderOf({ getRemoteAddressAsText: () => bytes.buffer }, forwardedFor);
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
