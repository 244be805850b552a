// The power fails while a directory changes its format, and while a backup is restored into it.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { look, wantedOf } from '../campaign/content.ts';
import { GROUPS, HOT, Prepared, clusterFile } from '../campaign/prepared.ts';
import { ctl, scratchFile } from '../support/ctl.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { Archive } from '../upgrade/archive.ts';
import { SINGLE, describe } from '../upgrade/contents.ts';
import { Recording, imagesOf } from './recording.ts';
import { hasStrace } from './strace.ts';

const CONVERSIONS = imagesOf(2, 0.08);
const RESTORES = imagesOf(2, 0.07);
/** The archive of the release whose log is in LMDB. */
const BEFORE = 'version-0.1.0';

interface Started {
  readonly server: TestServer;
  readonly recording: Recording;
}

async function underStrace(t: TestContext, dataDir: string, options: object): Promise<Started> {
  const recording = new Recording(dataDir);
  const server = new TestServer({ ...options, process: true, dataDir, wrapper: recording.wrapper });
  t.after(async () => {
    await server.dispose();
    recording.remove();
  });
  await server.start();
  return { server, recording };
}

async function onImage(dataDir: string, options: object, body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = new TestServer({ ...options, dataDir });
  try {
    await server.start();
    await body(server);
  } finally {
    await server.dispose();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

test('the conversion of an older directory goes on after a power loss', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = createRandom(seedFromEnvironment());
  const archive = new Archive(BEFORE);
  const { world, seen } = archive.read('single');
  const folder = temporaryFolder('power-older');
  t.after(() => removeFolder(folder));
  archive.unpack('single', join(folder, 'data'));
  const { server, recording } = await underStrace(t, join(folder, 'data'), SINGLE);
  await server.kill();
  recording.read();
  for (let i = 0; i < CONVERSIONS; i++) {
    const line = recording.momentAfter(0, random);
    const where = `SEED=${random.seed} disk ${i}, line ${line}`;
    await onImage(recording.image(line, random), SINGLE, async (started) => {
      assert.deepEqual(await describe(started, world), seen, where);
    });
  }
});

test('a restore that loses its power is whole when it was reported, and goes on otherwise', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = createRandom(seedFromEnvironment());
  const folder = temporaryFolder('power-restore');
  t.after(() => removeFolder(folder));
  const prepared = new Prepared(folder);
  await prepared.make('backup');
  const options = { cores: 1, groups: GROUPS };
  const restore = async (server: TestServer, ...flags: string[]): Promise<string> => {
    const config = scratchFile('c.toml', clusterFile(server));
    const { code, stderr } = await ctl(['restore', '--config', config, '--location', prepared.backup, ...flags]);
    return code === 0 ? '' : stderr;
  };
  const dataDir = join(folder, 'data');
  await stoppedOnce(dataDir, options);
  const { server, recording } = await underStrace(t, dataDir, options);
  assert.equal(await restore(server), '');
  // Some time in which nothing but checkpoints of the import is written.
  await server.stop();
  recording.read();
  // The last answer of the admin plane is that of the last group.
  const restoredAt = recording.answers('HTTP/1.1 200').at(-1) ?? Infinity;
  for (let i = 0; i < RESTORES; i++) {
    const line = recording.momentAfter(0, random);
    const where = `SEED=${random.seed} disk ${i}, line ${line}, restored at ${restoredAt}`;
    await onImage(recording.image(line, random), options, async (started) => {
      if (line <= restoredAt) assert.equal(await restore(started, '--resume'), '', where);
      const { refused, wrong } = await look(started.port, wantedOf(HOT));
      assert.deepEqual({ refused, wrong }, { refused: [], wrong: [] }, where);
    });
  }
});

/** A node began there and stopped, so that its first start is not what is tested. */
async function stoppedOnce(dataDir: string, options: object): Promise<void> {
  const server = new TestServer({ ...options, dataDir });
  try {
    await server.start();
    assert.equal(await server.stop(), 0);
  } finally {
    await server.dispose();
  }
}
