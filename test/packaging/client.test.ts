// The package of the client library: what `npm pack` makes of it, in an empty folder beside its one dependency. It runs
// there, its types compile with two compilers, and it needs nothing of Node.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';
import { VERSION } from '../../src/config/version.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { TestServer, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const folder = temporaryFolder('client-package');
const home = join(folder, 'node_modules/millrace-client');
const server = new TestServer({ cores: 1, groups: 2 });

function command(file: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8', cwd });
  assert.equal(status, 0, `${file} ${args.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

before(async () => {
  command(process.execPath, ['scripts/client-package.mjs'], REPO_ROOT);
  command('npm', ['pack', '--pack-destination', folder], join(REPO_ROOT, 'dist/client-package'));
  mkdirSync(home, { recursive: true });
  command('tar', ['-xzf', join(folder, `millrace-client-${VERSION}.tgz`), '-C', home, '--strip-components=1'], folder);
  symlinkSync(join(REPO_ROOT, 'node_modules/msgpackr'), join(folder, 'node_modules/msgpackr'));
  await server.start();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

/** As another program would write it. */
const PROGRAM = `
import { MillraceClient, OffsetConflict, type StreamRecord, StreamError, connect } from 'millrace-client';
import { createResumableStreamStore } from 'millrace-client/assistant-stream';
import { createResumableStreamContext } from 'millrace-client/resumable-stream';
import { createReadableStream, createWritableStream } from 'millrace-client/web-streams';
import { createStreamer } from 'millrace-client/workflow-streams';
import { createWorld } from 'millrace-client/workflow-world';
const client: MillraceClient = connect(process.argv.slice(2));
const stream = client.stream('b', 'package');
await stream.create({ contentType: 'application/json' });
const numbers = stream.records<{ n: number }>();
await numbers.append({ n: 1 }, { expectedOffset: 0 });
await numbers.append({ n: 1 }, { expectedOffset: 0 }).catch((error: unknown) => console.log(error instanceof OffsetConflict && error.nextOffset));
for await (const record of numbers.follow({ live: false })) {
  const { value }: StreamRecord<{ n: number }> = record;
  console.log(value.n + 1);
}
const writer = createWritableStream(stream, { closeStream: true }).getWriter();
await writer.write(5 as never).catch((error: unknown) => console.log(error instanceof StreamError && error.code));
await new Blob(['{"n":8}']).stream().pipeTo(createWritableStream(stream, { closeStream: true }));
console.log(await new Response(createReadableStream(stream)).text());
await stream.append('2').catch((error: unknown) => console.log(error instanceof StreamError && error.code));
await createResumableStreamContext({ client, bucket: '' })
  .hasExistingStream('text')
  .catch((error: unknown) => console.log(error instanceof StreamError && error.code));
console.log(await createResumableStreamStore({ client }).status('text'));
console.log((await createStreamer({ client }).streams.list('run')).length);
client.close();
`;

test('it runs in an empty folder, with a WebSocket and without one', async () => {
  const file = join(folder, 'program.mjs');
  const code = PROGRAM.replaceAll(
    /: MillraceClient|: StreamRecord<.*?>(?= =)|<\{ n: number \}>|: unknown| as never|, type StreamRecord|type StreamRecord, /g,
    '',
  );
  writeFileSync(file, code.replace('MillraceClient, ', ''));
  const isOld = process.versions.node.startsWith('20.');
  for (const flags of [isOld ? ['--experimental-websocket'] : [], isOld ? [] : ['--no-experimental-websocket']]) {
    const program = run([process.execPath, '--no-warnings', ...flags, file, server.url]);
    assert.equal(await within(program.exited, PATIENCE_MS, 'the program'), 0, program.output());
    assert.equal(
      program.output(),
      '8\n2\nINVALID_ARGUMENT\n[{"n":1},{"n":8}]\nSTREAM_CLOSED\nINVALID_ARGUMENT\nmissing\n0\n',
    );
    await server.client.expect(204, 'DELETE', '/b/package');
  }
});

test('its types compile in programs for Node and for browsers, also with the compiler before', async () => {
  writeFileSync(join(folder, 'program.mts'), `declare const process: { argv: string[] };${PROGRAM}`);
  const options = { strict: true, noEmit: true, target: 'es2022', lib: ['es2022', 'dom'], types: [] as string[] };
  for (const [name, module] of [
    ['typescript', { module: 'nodenext' }],
    ['typescript-5', { module: 'preserve', moduleResolution: 'bundler' }],
  ] as const) {
    const config = join(folder, `${name}.json`);
    writeFileSync(config, JSON.stringify({ compilerOptions: { ...options, ...module }, files: ['program.mts'] }));
    const compiler = run([process.execPath, join(REPO_ROOT, 'node_modules', name, 'bin/tsc'), '-p', config]);
    assert.equal(await within(compiler.exited, PATIENCE_MS, name), 0, compiler.output());
  }
});

/** Each module, and what it imports. */
const MODULES = {
  'assistant-stream.js': './index.js',
  'index.js': 'msgpackr',
  'resumable-stream.js': './index.js',
  'web-streams.js': './index.js',
  'workflow-streams.js': './index.js',
  'workflow-world.js': './index.js',
};

test('it is its modules, their types, and what its users read', () => {
  const manifest: { dependencies: object; version: string } = JSON.parse(
    readFileSync(join(home, 'package.json'), 'utf8'),
  );
  assert.deepEqual([Object.keys(manifest.dependencies), manifest.version], [['msgpackr'], VERSION]);
  for (const [file, imported] of Object.entries(MODULES)) {
    const code = readFileSync(join(home, file), 'utf8');
    const imports = [...code.matchAll(/^import .*["'](.+)["'];$|\bimport\(/gm)].map(([, name]) => name);
    assert.deepEqual(imports, [imported], file);
    assert.doesNotMatch(code, /\b(process|Buffer|require|global)\b[.(]/);
  }
  const page = readFileSync(join(home, 'README.md'), 'utf8');
  assert.match(page, /^# Client library/);
  assert.doesNotMatch(page, /\]\(\.\.|<!--|For maintainers/);
  const files = command('tar', ['-tzf', join(folder, `millrace-client-${VERSION}.tgz`)], folder)
    .trim()
    .split('\n');
  const strange = files.filter(
    (path) => !/^package\/((package\.json|README\.md|LICENSE)|types\/[\w-]+\.d\.ts)$/.test(path),
  );
  assert.deepEqual(
    strange,
    Object.keys(MODULES).map((file) => `package/${file}`),
  );
});
