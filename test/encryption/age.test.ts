// Files of the age format: against Debian's age in both directions, and whatever may have happened to one.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { generateHybridIdentity, generateX25519Identity, identityToRecipient } from 'age-encryption';
import { Age, AgeError, HEADER_BYTES_MAX, headerEnd } from '../../src/encryption/age.ts';
import { CHUNK_BYTES, SALT_BYTES, SEALED_CHUNK_BYTES } from '../../src/encryption/payload.ts';
import { openBytes, openPieces, sealBytes, sealPieces } from '../../src/encryption/whole.ts';
import { sameBytes } from '../support/same-bytes.ts';

interface Pair {
  readonly identity: string;
  readonly recipient: string;
}

async function newPair(make: () => Promise<string> = generateX25519Identity): Promise<Pair> {
  const identity = await make();
  return { identity, recipient: await identityToRecipient(identity) };
}

const ageOf = (...pairs: readonly Pair[]): Promise<Age> =>
  Age.of({ identities: pairs.map((one) => one.identity), recipients: pairs.map((one) => one.recipient) });

/** Around the borders of chunks. */
const SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7];
const bytesOf = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => (i * 31) % 251);

async function* inPieces(bytes: Uint8Array, size: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size));
}

async function gathered(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return new Uint8Array(Buffer.concat(all));
}

test('what is sealed at once or in pieces is opened at once or in pieces', async () => {
  const age = await ageOf(await newPair());
  for (const size of SIZES) {
    const bytes = bytesOf(size);
    for (const pieceBytes of [1000, CHUNK_BYTES, 1 << 20]) {
      const sealed = await gathered(sealPieces(age, inPieces(bytes, pieceBytes)));
      assert.equal(sealed.length, (await sealBytes(age, bytes)).length, `${size} bytes`);
      sameBytes(await openBytes(age, sealed), bytes);
      sameBytes(await gathered(openPieces(age, inPieces(sealed, pieceBytes))), bytes);
    }
  }
});

test('each file has another key, and another one of those that may read it', async () => {
  const [old, current, escrow] = [await newPair(), await newPair(), await newPair()];
  const before = await sealBytes(await ageOf(old), bytesOf(10));
  const rotated = await Age.of({
    identities: [current.identity, old.identity],
    recipients: [current.recipient, escrow.recipient],
  });
  const after = await sealBytes(rotated, bytesOf(10));
  assert.notDeepEqual(after, await sealBytes(rotated, bytesOf(10)));
  for (const sealed of [before, after]) assert.equal((await openBytes(rotated, sealed)).length, 10);
  assert.equal((await openBytes(await ageOf(escrow), after)).length, 10);
  await assert.rejects(openBytes(await ageOf(old), after), {
    fault: 'no-key',
    message: /none of 1 identities opens it/,
  });
});

test('recipients that withstand quantum computers', async () => {
  const age = await ageOf(await newPair(generateHybridIdentity));
  await age.tryOut('both');
  assert.equal((await openBytes(age, await sealBytes(age, bytesOf(100)))).length, 100);
});

test('a file that was changed at any place, cut off, or put together from others is refused', async () => {
  const age = await ageOf(await newPair());
  const sealed = await sealBytes(age, bytesOf(3 * CHUNK_BYTES));
  const other = await sealBytes(age, bytesOf(3 * CHUNK_BYTES));
  const chunksAt = (headerEnd(sealed) ?? 0) + SALT_BYTES;
  const chunk = (file: Uint8Array, i: number): Uint8Array =>
    file.subarray(chunksAt + i * SEALED_CHUNK_BYTES, chunksAt + (i + 1) * SEALED_CHUNK_BYTES);
  const refused = async (what: string, file: Uint8Array): Promise<void> => {
    await assert.rejects(openBytes(age, file), AgeError, what);
    await assert.rejects(gathered(openPieces(age, inPieces(file, 5000))), AgeError, what);
  };
  const places = [...Array(chunksAt).keys(), chunksAt + 5, sealed.length - TAIL, sealed.length - 1];
  for (const at of places.filter((place, i) => i % 7 === 0 || place > chunksAt - 20)) {
    const changed = Uint8Array.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await refused(`byte ${at}`, changed);
  }
  for (const length of [0, 10, chunksAt - 1, chunksAt, chunksAt + SEALED_CHUNK_BYTES, sealed.length - 1])
    await refused(`cut to ${length}`, sealed.subarray(0, length));
  const front = sealed.subarray(0, chunksAt);
  const [first, second, third] = [chunk(sealed, 0), chunk(sealed, 1), chunk(sealed, 2)];
  await refused('swapped chunks', Buffer.concat([front, second, first, third]));
  await refused('a chunk twice', Buffer.concat([front, first, first, third]));
  await refused('the chunk of another file', Buffer.concat([front, first, chunk(other, 1), third]));
  await refused('no end', Buffer.concat([front, first, second]));
  await refused('more behind the end', Buffer.concat([sealed, third]));
});
const TAIL = 20;

test('keys that are none are refused, and no message shows one', async () => {
  const pair = await newPair();
  const damaged = `${pair.identity.slice(0, -1)}${pair.identity.endsWith('Q') ? 'P' : 'Q'}`;
  const shows = (error: AgeError): boolean => /AGE-SECRET|age1/i.test(error.message);
  await assert.rejects(Age.of({ identities: [damaged], recipients: [] }), (error: AgeError) => {
    assert(!shows(error) && error.fault === 'unusable', error.message);
    assert.match(error.message, /identity 1 of 1 is not one of age/);
    return true;
  });
  await assert.rejects(
    Age.of({ identities: [], recipients: [pair.recipient, `${pair.recipient}q`] }),
    (error: AgeError) => !shows(error) && /recipient 2 of 2 is not one of age/.test(error.message),
  );
  const stranger = await newPair();
  const cannotRead = await Age.of({ identities: [stranger.identity], recipients: [pair.recipient] });
  await assert.rejects(cannotRead.tryOut('both'), /none of the identities is that of a recipient/);
  await cannotRead.tryOut('seal');
  const crowd = await Age.of({ identities: [pair.identity], recipients: Array(200).fill(pair.recipient) });
  await assert.rejects(crowd.tryOut('both'), new RegExp(`more than ${HEADER_BYTES_MAX} bytes`));
});

const skip = spawnSync('age', ['--version']).error === undefined ? false : 'apt-get install age';

test("Debian's age reads what is written here, and what it writes is read here", { skip }, async (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-age-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const pair = await newPair();
  const age = await ageOf(pair);
  const key = join(folder, 'key.txt');
  writeFileSync(key, `${pair.identity}\n`, { mode: 0o600 });
  const maxBuffer = 1 << 22;
  for (const size of SIZES) {
    const bytes = bytesOf(size);
    const read = execFileSync('age', ['-d', '-i', key], { input: await sealBytes(age, bytes), maxBuffer });
    sameBytes(read, bytes, `${size} bytes`);
    const written = execFileSync('age', ['-r', pair.recipient], { input: bytes, maxBuffer });
    sameBytes(await openBytes(age, written), bytes, `${size} bytes`);
  }
});
