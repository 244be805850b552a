// Files with keys of age: every kind of key that the package makes is taken, and what is none is told by its line.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { generateHybridIdentity, generateX25519Identity } from 'age-encryption';
import { identitiesIn, recipientsIn } from '../../src/config/age-keys.ts';
import { Age } from '../../src/encryption/age.ts';
import { newKeyPair } from '../support/age-keys.ts';
import { scratchFile } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

/** From the documentation of age: the recipient of a key in hardware, which opens files elsewhere. */
const TAG = 'age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e';

test('keys of every kind are taken', async (t: TestContext) => {
  const folder = temporaryFolder('age-keys');
  t.after(() => removeFolder(folder));
  for (const make of [generateX25519Identity, generateHybridIdentity]) {
    const pair = await newKeyPair(folder, make.name, make);
    assert.deepEqual(identitiesIn(pair.identityFile, 'keys'), [pair.identity]);
    assert.deepEqual(recipientsIn(pair.recipientsFile, 'keys'), [pair.recipient]);
    await (await Age.of({ identities: [pair.identity], recipients: [pair.recipient] })).tryOut('both');
  }
  assert.deepEqual(recipientsIn(scratchFile('tag', TAG), 'keys'), [TAG]);
  await (await Age.of({ identities: [], recipients: [TAG] })).tryOut('seal');
});

test('what is no recipient is told by its line', () => {
  for (const line of [
    'ssh-ed25519 AAAA',
    'age1',
    'AGE1QQQQQQQQQQQQQQQQQQQQQQ',
    'age1bbbbbbbbbbbbbbbbbbbbbbbb',
    'age11qqqqqqqqqqqqqqqqqqqqqqqq',
  ])
    assert.throws(
      () => recipientsIn(scratchFile('keys', `# first\n\n${line}\n`), 'the file'),
      { message: 'the file: expected a recipient of age (age1...) in line 3' },
      line,
    );
});
