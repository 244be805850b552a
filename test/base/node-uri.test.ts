import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasUri, nodeUri } from '../../src/base/node-uri.ts';

test('a certificate names a node by its whole URI', () => {
  const uri = nodeUri('my cluster/é', 12);
  assert.equal(uri, 'millrace://my%20cluster%2F%C3%A9/node/12');
  assert.equal(hasUri(`DNS:node12.example, URI:${uri}`, uri), true);
  for (const names of [
    undefined,
    '',
    `URI:${uri}3`,
    `URI:${nodeUri('my cluster/é', 1)}`,
    `URI:${nodeUri('other', 12)}`,
    `DNS:${uri}`,
    // As Node.js writes one DNS name with blanks and commas in it.
    `DNS:"a, URI:${uri}, b"`,
  ])
    assert.equal(hasUri(names, uri), false, names);
});
