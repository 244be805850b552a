// Group snapshots of format 1 as they were once written: later versions must keep reading them. WRITE_GOLDEN=1
// writes a new one, which is for a new format only; a file that is here stays as it is.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Contents, DocumentReader, DocumentWriter } from '../../src/backup/format/document.ts';
import { Fault } from '../../src/stream/backup/fault.ts';
import { BACKUP_TAGS } from '../../src/stream/backup/rows.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { createRandom } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { type World, aboutStreams, describeWorld, fillWorld } from './world.ts';

const FOLDER = join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1');
const SNAPSHOT = join(FOLDER, 'group-0000.snapshot');
const EXPECTED = join(FOLDER, 'expected.json');
const OPTIONS = {
  cores: 1,
  groups: 1,
  toml: '[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "100ms"\n',
  // The answers were written down when that was the default.
  http: 'cors_origins = ["*"]',
};
const STREAMS = 18;

interface Expected {
  readonly world: World;
  readonly seen: Record<string, unknown>;
}

const coldOf = (server: TestServer): string => join(server.dataDir, 'cold');

async function write(): Promise<void> {
  await withServer(OPTIONS, async (server) => {
    const world = await fillWorld(server, createRandom(11), STREAMS, 5000);
    await until('nothing is hot', async () => (await server.metrics())['cold_hot_bytes'] === 0);
    const name = world.streams[0] as string;
    await requestOnce(server.port, 'POST', name, { 'content-type': 'text/plain' }, Buffer.from('hot'));
    const answer = await requestOnce(server.adminPort, 'GET', '/__svc/backup/group/0');
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(SNAPSHOT, answer.body);
    const seen = await describeWorld(server, world);
    writeFileSync(EXPECTED, `${JSON.stringify({ world, seen }, null, 1)}\n`);
    cpSync(coldOf(server), join(FOLDER, 'cold'), { recursive: true });
  });
}

function read(bytes: Uint8Array, rows: [Uint8Array, Uint8Array][] = []): Contents {
  const reader = new DocumentReader(
    () => undefined,
    (key, value) => {
      if (BACKUP_TAGS.includes(key[0] as number)) rows.push([key.slice(), value.slice()]);
    },
  );
  for (let at = 0; at < bytes.length; at += 1000) reader.push(bytes.subarray(at, at + 1000));
  return reader.end();
}

test('a snapshot of format 1 is read, validated and restored, with the bytes that lie in the cold store', async () => {
  if (process.env['WRITE_GOLDEN'] !== undefined) await write();
  const { world, seen } = JSON.parse(readFileSync(EXPECTED, 'utf8')) as Expected;
  const bytes = readFileSync(SNAPSHOT);
  const contents = read(bytes);
  assert.equal(contents.streams, world.streams.length);
  await withServer(OPTIONS, async (server) => {
    cpSync(join(FOLDER, 'cold'), coldOf(server), { recursive: true });
    const path = '/__svc/backup/group/0/import';
    const answer = await requestOnce(server.adminPort, 'POST', path, { 'x-svc-backup-blake3': contents.digest }, bytes);
    assert.equal(answer.status, 200, answer.body.toString());
    assert.deepEqual(aboutStreams(await describeWorld(server, world)), aboutStreams(seen));
  });
});

test('an impossible snapshot is refused in a sentence, wherever it was changed', () => {
  const rows: [Uint8Array, Uint8Array][] = [];
  const bytes = readFileSync(SNAPSHOT);
  const { buckets, streams, head } = read(bytes, rows);
  const refused = (what: string, sentence: RegExp, change: (copy: [Uint8Array, Uint8Array][]) => void): void => {
    const copy: [Uint8Array, Uint8Array][] = rows.map(([key, value]) => [key.slice(), value.slice()]);
    change(copy);
    const pieces: Uint8Array[] = [];
    const writer = new DocumentWriter(head, (piece) => pieces.push(piece));
    for (const [key, value] of copy) writer.row(key, value);
    writer.end(buckets, streams);
    assert.throws(
      () => read(Buffer.concat(pieces)),
      (error: Error) => error instanceof Fault && sentence.test(error.message),
      what,
    );
  };
  const at = (tag: string, nth = 0): number => {
    const found = rows.flatMap(([key], i) => (key[0] === tag.charCodeAt(0) ? [i] : []))[nth];
    assert(found !== undefined, `a row of kind ${tag}`);
    return found;
  };
  const drop = (tag: string) => (copy: [Uint8Array, Uint8Array][]) => void copy.splice(at(tag), 1);
  const twice = (tag: string) => (copy: [Uint8Array, Uint8Array][]) => {
    copy.splice(at(tag), 0, copy[at(tag)] as [Uint8Array, Uint8Array]);
  };
  const poke = (tag: string, offset: number) => (copy: [Uint8Array, Uint8Array][]) => {
    const [, value] = copy[at(tag)] as [Uint8Array, Uint8Array];
    value[offset] = (value[offset] as number) ^ 0x55;
  };
  const number = (tag: string, offset: number, value: number) => (copy: [Uint8Array, Uint8Array][]) => {
    const [, row] = copy[at(tag)] as [Uint8Array, Uint8Array];
    new DataView(row.buffer).setFloat64(offset, value, true);
  };
  refused('a bucket is missing', /in a bucket that is not listed/, drop('b'));
  refused('a bucket twice', /duplicate bucket/, twice('b'));
  refused('a stream twice', /duplicate stream/, twice('h'));
  refused('a producer twice', /duplicate producer/, twice('p'));
  refused('a chunk is missing', /missing|begins behind|does not follow|references|nothing refers/, drop('c'));
  refused('a row is missing', /missing|leaves a gap/, drop('d'));
  refused('attributes are missing', /attributes are missing/, drop('a'));
  refused('an object is missing', /which is not listed/, drop('o'));
  refused('a snapshot has no beginning', /has no beginning/, drop('s'));
  refused('another format', /cannot be read/, poke('h', 0));
  refused('a floor beyond the tail', /lies beyond the tail/, number('h', 40, 1e12));
  refused('a snapshot beyond the tail', /lies beyond the tail/, number('h', 128, 1e12));
  refused('a gauge', /counts \d+ streams and/, number('b', 32, 1e9));
  refused('references', /counts \d+ references/, poke('o', 0));
  refused('an object shorter than its chunks', /beyond the end of the object/, number('o', 8, 1));
  refused('a chunk elsewhere', /impossible bounds|does not follow|lies outside/, number('c', 14, 3));
  refused('two rows in another order', /not in their order/, (copy) => copy.splice(0, 0, ...copy.splice(1, 1)));
  refused('another kind', /which a backup does not have/, (copy) =>
    copy.push([new Uint8Array([0x7a]), new Uint8Array(1)]),
  );
  for (const size of [0, 1, 10, 500, bytes.length - 1])
    assert.throws(() => read(bytes.subarray(0, size)), Fault, `${size}`);
  assert.throws(() => read(Buffer.concat([bytes, bytes])), /goes on behind its end/);
  const random = createRandom(5);
  for (let i = 0; i < 300; i++) {
    const copy = Buffer.from(bytes);
    const where = random.int(0, copy.length - 1);
    copy[where] = (copy[where] as number) ^ (1 << random.int(0, 7));
    assert.throws(() => read(copy), Fault, `bit of byte ${where}`);
  }
});
