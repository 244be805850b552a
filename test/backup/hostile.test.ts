// Forged snapshots: faults are refused with a sentence, and what passes never breaks a node later. SEED=n ROUNDS=n
// repeats or lengthens the random part.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Packr } from 'msgpackr';
import { DocumentReader, DocumentWriter } from '../../src/backup/format/document.ts';
import { parseManifest } from '../../src/backup/format/manifest.ts';
import { Fault } from '../../src/stream/backup/fault.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';
import { withServer } from '../support/server.ts';
import { type Row, validated } from '../stream/backup/exporting.ts';
import { Used, forkedRows, goldenRows, tamper } from './hostile-rows.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const ROUNDS = Number(process.env['ROUNDS'] ?? (IS_THOROUGH ? 250 : 150));
const golden = goldenRows();
const copyOf = (rows: readonly Row[]): Row[] => rows.map(([key, value]) => [key.slice(), value.slice()]);
const isOf =
  (tag: string) =>
  ([key]: Row): boolean =>
    key[0] === tag.charCodeAt(0);

test('rows that were tampered with are refused, or do no harm for as long as they are used', () => {
  const forked = forkedRows();
  for (const kind of 'hTFPU') assert(forked.some(isOf(kind)), `there are rows of kind ${kind}`);
  for (const rows of [golden.rows, forked]) new Used().import(validated(rows));
  const first = seedFromEnvironment();
  let refused = 0;
  for (let seed = first; seed < first + ROUNDS; seed++) {
    const random = createRandom(seed);
    const rows = copyOf(random.chance(0.3) ? forked : golden.rows);
    const changes = Array.from({ length: random.int(1, 2) }, () => tamper(rows, random)).join(', ');
    let good: ReturnType<typeof validated> | undefined;
    try {
      good = validated(rows);
    } catch (error) {
      assert(error instanceof Fault, `seed ${seed}, ${changes}: ${String(error)}`);
      refused++;
    }
    if (good === undefined) continue;
    try {
      const used = new Used();
      used.import(good);
      used.use(rows, random);
    } catch (error) {
      throw new Error(`seed ${seed}, ${changes}`, { cause: error });
    }
  }
  assert(refused > ROUNDS / 2 && refused < ROUNDS, `${refused} of ${ROUNDS} are refused`);
});

test('keys that the store cannot take, or never finds again, are refused', () => {
  const refused = (tag: string, sentence: RegExp, change: (row: Row) => void): void => {
    const rows = copyOf(golden.rows);
    change(rows.findLast(isOf(tag)) as Row);
    assert.throws(() => validated(rows), sentence);
  };
  const lengthen =
    (by: number) =>
    (row: Row): void => {
      row[0] = Buffer.concat([row[0], Buffer.alloc(by, 0x71)]);
    };
  // LMDB takes 1978 bytes: every replica would end with its next checkpoint, and with every start.
  refused('p', /producer has a key of \d+ bytes/, lengthen(3000));
  for (const tag of 'acdos') refused(tag, /has a key of \d+ bytes/, lengthen(1));
  const number = (offset: number, value: number) => (row: Row) => {
    new DataView(row[1].buffer, row[1].byteOffset).setFloat64(offset, value, true);
  };
  // Keys have 48 bits for it: the next stream would get the rows of another one.
  refused('h', /incarnation cannot be/, number(8, 2 ** 48 + 5));
  const removed = forkedRows();
  number(8, 2 ** 48 + 5)(removed.find(isOf('T')) as Row);
  assert.throws(() => validated(removed), /removed stream .* has an impossible number/);
  refused('h', /impossible createdAtMs/, number(56, 1e300));
  refused('h', /impossible hotSinceMs/, number(120, Number.NaN));
  refused('h', /impossible snapshotOffset/, number(128, -5));
  refused('o', /impossible bytes/, number(8, Infinity));
  // A header of an answer, in two lines.
  refused('h', /content type cannot be/, ([, value]) => value.set([0x0d, 0x0a], 136));
  refused('o', /no key, or an impossible one/, ([, value]) => value.set(Buffer.from('../../'), value.length - 40));
});

const packr = new Packr({ useRecords: false, variableMapSize: true });

/** Any value that MessagePack has, and maps with keys that JavaScript has no name for. */
function randomValue(random: Random, depth: number): Buffer {
  const many = (per: number): Buffer[] =>
    Array.from({ length: per * random.int(0, 3) }, () => randomValue(random, depth - 1));
  const dice = random.int(0, depth > 0 ? 9 : 6);
  if (dice === 7) return Buffer.concat([Buffer.from([0xdc, 0, 0]), ...many(0)]);
  if (dice > 7) {
    const items = many(dice - 7);
    return Buffer.concat([Buffer.from([(dice === 8 ? 0x90 : 0x80) + items.length / (dice - 7)]), ...items]);
  }
  const scalar = [null, true, random.int(-40, 300), 2 ** 40, 0.5, 'format', new Uint8Array([1, 2])][dice];
  return Buffer.from(packr.pack(scalar));
}

function read(bytes: Uint8Array): void {
  const reader = new DocumentReader(
    () => undefined,
    () => undefined,
  );
  reader.push(bytes);
  reader.end();
}

test('values that no snapshot has are refused with a sentence at any position', () => {
  const head = packr.pack({
    format: 'millrace-group-snapshot',
    format_version: 1,
    group: 0,
    group_count: 1,
    write_unit_bytes: 10_240,
    commit_index: 1,
  });
  const random = createRandom(seedFromEnvironment());
  for (let round = 0; round < 20 * ROUNDS; round++) {
    const values = Array.from({ length: random.int(1, 3) }, () => randomValue(random, random.int(0, 6)));
    const bytes = Buffer.concat(random.chance(0.5) ? [head, ...values] : values);
    assert.throws(() => read(bytes), Fault, bytes.toString('hex'));
  }
  // Absurd sizes, and more levels than any stack holds.
  for (const size of ['c6ffffffff', 'dbffffffff', 'ddffffffff', 'dfffffffff', '91'.repeat(100_000)])
    assert.throws(() => read(Buffer.concat([head, Buffer.from(size, 'hex')])), Fault, size.slice(0, 20));
});

test('a value too large for an import is too large in pieces of any size', () => {
  const rows = copyOf(golden.rows);
  const big = packr.pack(rows.flat().concat([new Uint8Array(5 * 1024 * 1024)]));
  const { head } = golden.contents;
  const pieces: Uint8Array[] = [];
  void new DocumentWriter(head, (piece) => pieces.push(piece));
  const bytes = Buffer.concat([...pieces, big]);
  for (const size of [512 * 1024, 16 * 1024 * 1024]) {
    const reader = new DocumentReader(
      () => undefined,
      () => undefined,
    );
    const push = (): void => {
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    };
    assert.throws(push, /a value is larger than/, `pieces of ${size}`);
  }
});

test('a manifest that lists nothing, or what is no file of the backup, is refused', () => {
  const entry = { raft_group_id: 0, object: 'group-0000.snapshot', bytes: 1, blake3: '0'.repeat(64) };
  const counts = { group_commit_index: 0, buckets: 0, streams: 0 };
  const manifest = (groups: readonly unknown[]): string =>
    JSON.stringify({ format_version: 1, created_unix_ms: 0, raft_group_count: groups.length, groups });
  assert.equal(parseManifest(manifest([{ ...entry, ...counts }])).groups.length, 1);
  assert.throws(() => parseManifest(manifest([])), /lists no groups/);
  for (const object of ['../group-0000.snapshot', '/etc/passwd', '..', '.', '', 'a/b', 'a\\b', 'a\0b', 5, null])
    assert.throws(() => parseManifest(manifest([{ ...entry, ...counts, object }])), /no usable object name/);
});

test('an import answers any input, and the node keeps serving', async () => {
  const { rows, contents } = golden;
  const long = copyOf(rows);
  const producer = long.findLast(isOf('p')) as Row;
  producer[0] = Buffer.concat([producer[0], Buffer.alloc(3000, 0x71)]);
  const pieces: Uint8Array[] = [];
  const writer = new DocumentWriter(contents.head, (piece) => pieces.push(piece));
  for (const [key, value] of long) writer.row(key, value);
  writer.end(contents.buckets, contents.streams);
  await withServer({ cores: 1, groups: 1 }, async (server) => {
    const bodies = [Buffer.concat(pieces), Buffer.from('81c4014101', 'hex'), Buffer.from('818001', 'hex')];
    for (const body of bodies) {
      const answer = await requestOnce(server.adminPort, 'POST', '/__svc/backup/group/0/import', {}, body);
      assert.equal(answer.status, 400, answer.body.toString());
    }
    assert.equal((await requestOnce(server.port, 'PUT', '/a/b')).status, 201);
  });
});
