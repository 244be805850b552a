// The rate of TLS handshakes: one address and all strangers have bounds, nodes that proved themselves the first alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HandshakeRate } from '../../src/peer/handshake-rate.ts';
import { until } from '../support/until.ts';

test('addresses and strangers have a bound in each second, and strangers keep no node out', () => {
  const clock = { ms: 0 };
  const rate = new HandshakeRate({ fromAddress: 3, fromStrangers: 5 }, () => clock.ms);
  const begun = (address: string, tries: number): number =>
    Array.from({ length: tries }, () => rate.refusal(address)).filter((refusal) => refusal === undefined).length;
  rate.proven('10.0.0.2');
  assert.deepEqual([begun('192.0.2.1', 9), begun('192.0.2.2', 9), begun('192.0.2.3', 9)], [3, 2, 0]);
  assert.match(rate.refusal('192.0.2.1') ?? '', /^more than 3 .* from one address/);
  assert.match(rate.refusal('192.0.2.3') ?? '', /^more than 5 .* from strangers/);
  assert.equal(begun('10.0.0.2', 9), 3);
  clock.ms = 999;
  assert.equal(begun('192.0.2.3', 1), 0);
  clock.ms = 1000;
  assert.equal(begun('192.0.2.3', 9), 3);
});

test('strangers keep out no node that is expected, from the start on', async () => {
  const rate = new HandshakeRate({ fromAddress: 100, fromStrangers: 1 }, () => 0);
  rate.expect('127.0.0.3');
  rate.expect('localhost');
  rate.expect('no name of a host');
  assert.equal(rate.refusal('192.0.2.1'), undefined);
  assert.match(rate.refusal('192.0.2.2') ?? '', /^more than 1 .* from strangers/);
  for (const address of ['127.0.0.1', '127.0.0.3', '::ffff:127.0.0.3']) {
    await until(`${address} is expected`, () => rate.refusal(address) === undefined);
  }
  assert.match(rate.refusal('127.0.0.4') ?? '', /from strangers/);
});
