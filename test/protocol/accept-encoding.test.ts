// Clients' words about gzip.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { prefersGzip } from '../../src/protocol/accept-encoding.ts';

test('Accept-Encoding: who gets gzip', () => {
  const wanted = [
    'gzip',
    'GZip',
    'x-gzip',
    'gzip, deflate, br',
    'br;q=1.0, gzip;q=0.001',
    'deflate , gzip ; q=0.5',
    'gzip;Q=1.000',
    '*',
    '*;q=0.1',
    'br, *;q=0.1',
    'gzip, identity;q=0.5',
    'gzip;q=0.5, identity;q=0.4',
    'identity;q=0, gzip;q=0.1',
    'identity;q=0, *',
    ',,gzip,',
  ];
  for (const header of wanted) assert(prefersGzip(header), header);
  const refused = [
    '',
    'identity',
    'deflate, br',
    'gzip;q=0',
    'gzip;q=0.000',
    'gzip;q=0, *',
    '*;q=0',
    'gzip;q=0, identity;q=0',
    'gzip, identity',
    'gzip;q=0.5, identity;q=0.5',
    'gzip;q=0.4, identity',
    '*, identity',
    // It is ambiguous.
    'gzip;q=2',
    'gzip;q=0.1234',
    'gzip;q=',
    'gzip;q=x',
    'gzip;level=1',
    'gzip;q=1;q=0',
    'gzip q=1',
    'gzipped',
    ';q=1',
    '\u0000',
  ];
  for (const header of refused) assert(!prefersGzip(header), header);
});
