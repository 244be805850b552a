// Which hosts a node may be made to call.
import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { test } from 'node:test';
import {
  type Resolve,
  guardedLookup,
  isPublicAddress,
  webhookTarget,
} from '../../../src/subscriptions/webhooks/webhook-url.ts';

const accepts = (url: string, allowLocal = false): boolean => webhookTarget(url, { enabled: true, allowLocal }).ok;

test('https to public hosts and nothing else', () => {
  for (const url of ['https://worker.example/hooks', 'https://8.8.8.8/', 'https://[2606:4700::1111]:8443/x?y=z']) {
    assert(accepts(url), url);
  }
  for (const url of [
    '',
    'hooks',
    '//worker.example/',
    'http://worker.example/',
    'ftp://worker.example/',
    'file:///etc/passwd',
    'javascript:1',
    'https://user:pass@worker.example/',
    'https://user@worker.example/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://a.localhost/',
    'https://printer.local/',
    'https://metadata.google.internal/',
    'https://10.0.0.1/',
    'https://127.0.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://192.168.1.1/',
    'https://172.31.255.255/',
    'https://100.64.0.1/',
    'https://0.0.0.0/',
    'https://255.255.255.255/',
    // Other spellings of 127.0.0.1, which the URL parser knows.
    'https://2130706433/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:a00:1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[fe80::1]/',
    'https://[fd00::1]/',
    'http://localhost/',
    'http://127.0.0.1/',
  ]) {
    assert(!accepts(url), url);
  }
});

test('none when they are turned off', () => {
  const target = webhookTarget('https://worker.example/', { enabled: false, allowLocal: true });
  assert(!target.ok && target.reason.includes('subscriptions.webhooks'));
});

test('for development this machine, also by http, and nothing more than that', () => {
  for (const url of ['http://localhost:3000/x', 'http://127.0.0.1/', 'http://127.9.9.9/', 'https://localhost:8443/']) {
    assert(accepts(url, true), url);
  }
  for (const url of ['http://10.0.0.1/', 'http://a.localhost/', 'http://worker.example/', 'https://[::1]/']) {
    assert(!accepts(url, true), url);
  }
});

test('public addresses', () => {
  for (const address of ['1.1.1.1', '172.32.0.1', '172.15.0.1', '192.167.1.1', '2001:4860:4860::8888']) {
    assert(isPublicAddress(address), address);
  }
  for (const address of ['not an address', '', '10.1.2.3', '198.18.0.1', '::ffff:8.8.8.8', 'ff02::1']) {
    assert(!isPublicAddress(address), address);
  }
});

function resolving(addresses: readonly string[]): Resolve {
  const answer = addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 }));
  return (_host, done) => done(null, answer);
}

function connectsTo(addresses: readonly string[], all: boolean): Promise<unknown> {
  return new Promise((resolve) => {
    const lookup = guardedLookup(isPublicAddress, resolving(addresses));
    lookup('rebinding.example', { all }, (error, found) => resolve(error === null ? found : error.message));
  });
}

test('a name is judged by what it resolves to when the socket connects', async () => {
  assert.equal(await connectsTo(['8.8.8.8'], false), '8.8.8.8');
  assert.equal(await connectsTo(['10.0.0.1', '8.8.8.8'], false), '8.8.8.8');
  assert.deepEqual(await connectsTo(['::1', '8.8.8.8', '127.0.0.1'], true), [{ address: '8.8.8.8', family: 4 }]);
  for (const all of [true, false]) {
    assert.match(String(await connectsTo(['127.0.0.1', '::1', '::ffff:10.0.0.1'], all)), /no public address/);
  }
});

test('what a developer on one machine meets names the setting', () => {
  const reason = (url: string, allowLocal: boolean): string => {
    const target = webhookTarget(url, { enabled: true, allowLocal });
    return target.ok ? '' : target.reason;
  };
  for (const url of ['http://localhost:3000/hook', 'https://127.0.0.1/hook']) {
    assert.match(reason(url, false), /subscriptions\.local_webhooks = true$/, url);
  }
  assert.doesNotMatch(reason('http://worker.example/', true), /local_webhooks/);
});
