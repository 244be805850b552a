// The system fails a call on the log or the state of a server under load. An input or output error ends the process in a
// sentence, and the next start has all that was acknowledged; an interrupted call of LMDB is made again.
// test/store/failing-calls.test.ts fails every call of the store in turn, except for LMDB's own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { readAll } from './look.ts';
import { hasStrace, straced } from './strace.ts';

const TEXT = { 'content-type': 'text/plain' };
/** After some of them the changes are enough for a checkpoint. */
const BODY_BYTES = 20_000;
const APPENDS_MAX = 3000;

interface Place {
  /** In the directory of the shard. */
  readonly files: readonly string[];
  readonly writes: string;
  /** More than a start makes. */
  readonly callsBefore: number;
  readonly sentence: RegExp;
}

const LOG: Place = {
  files: ['log/segment-1', 'log/segment-2', 'log/segment-3'],
  writes: 'pwrite64',
  callsBefore: 60,
  sentence: /"fatal".*(EIO|could not be synced).*a shard failed; the process ends/,
};
const STATE: Place = {
  files: ['data.mdb'],
  writes: 'pwrite64,pwritev,writev',
  callsBefore: 20,
  sentence: /"fatal".*data\.mdb: .*(I\/O|input\/output) error.*a shard failed; the process ends/i,
};

class FailingServer {
  readonly server: TestServer;
  readonly #trace: string;
  readonly #wrapper: string[];
  sent = '';
  acknowledged = '';

  constructor(t: TestContext, place: Place, calls: string, code: string) {
    const folder = temporaryFolder('failing-system');
    const dataDir = join(folder, 'data');
    this.#trace = join(folder, 'trace');
    const paths = place.files.flatMap((file) => ['-P', join(dataDir, 'shard-0', file)]);
    const inject = ['-e', `trace=${calls}`, '-e', `inject=${calls}:error=${code}:when=${place.callsBefore}`];
    this.#wrapper = straced(this.#trace, ...paths, ...inject);
    this.server = new TestServer({ process: true, cores: 1, groups: 1, dataDir, wrapper: this.#wrapper });
    t.after(async () => {
      await this.server.dispose();
      removeFolder(folder);
    });
  }

  get hasFailed(): boolean {
    return this.calls.includes('INJECTED');
  }

  get calls(): string {
    return readFileSync(this.#trace, 'utf8');
  }

  /** Until it has failed and then `more` appends were taken, or one was not. Returns the last answer. */
  async write(more: number): Promise<string> {
    const client = await RawClient.connect(this.server.port);
    assert.equal((await client.request('PUT', '/rot/one', TEXT)).status, 201);
    for (let i = 0, left = more; i < APPENDS_MAX && left > 0; i++) {
      const text = `${i};`.padEnd(BODY_BYTES, 'x');
      this.sent += text;
      const { status, headers } = await client.request('POST', '/rot/one', TEXT, text);
      if (status !== 204) return `${status} ${headers.get('millrace-error')}`;
      this.acknowledged = this.sent;
      if (this.hasFailed) left--;
    }
    return 'all was taken';
  }

  async restart(): Promise<void> {
    this.#wrapper.splice(0);
    await this.server.start();
  }

  async content(): Promise<string> {
    const client = await RawClient.connect(this.server.port);
    return (await readAll(client, '/rot/one', false))?.content ?? '';
  }
}

for (const [what, place] of Object.entries({ log: LOG, state: STATE })) {
  for (const calls of [place.writes, 'fdatasync']) {
    test(`EIO from ${calls} of the ${what} ends the process with a sentence, and the next start has all that was acknowledged`, async (t) => {
      if (!(await hasStrace(t))) return;
      const failing = new FailingServer(t, place, calls, 'EIO');
      const { server } = failing;
      await server.start();
      const said = await failing.write(Infinity).catch((error: Error) => error.message);
      t.diagnostic(said);
      assert.equal(await server.exited, 1);
      assert.match(server.log(), place.sentence);
      assert(failing.acknowledged.length > 0);
      await failing.restart();
      const content = await failing.content();
      const { sent, acknowledged } = failing;
      assert(
        [sent, acknowledged].includes(content),
        `${content.length} bytes are there, ${acknowledged.length} were acknowledged`,
      );
      await server.client.append('/rot/one', TEXT, 'later');
    });
  }
}

test('an interrupted write of a checkpoint is made again', async (t) => {
  if (!(await hasStrace(t))) return;
  const failing = new FailingServer(t, STATE, STATE.writes, 'EINTR');
  await failing.server.start();
  assert.equal(await failing.write(200), 'all was taken');
  assert(failing.hasFailed, failing.calls);
  await failing.server.kill();
  await failing.restart();
  assert(failing.acknowledged === (await failing.content()));
});
