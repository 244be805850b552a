import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import { loggerTo, parseVerbosity, readable } from '../../src/logging/logger.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

function collect(): { lines: string[]; write: (line: string) => void } {
  const lines: string[] = [];
  return { lines, write: (line) => void lines.push(line) };
}

test('verbosity: a level, and exceptions by component', () => {
  assert.equal(parseVerbosity(undefined).level, 'info');
  assert.equal(parseVerbosity('').level, 'info');
  assert.equal(parseVerbosity('WARN').level, 'warn');
  const mixed = parseVerbosity('info, raft=debug ,http=warn');
  assert.equal(mixed.level, 'info');
  assert.deepEqual(
    [...mixed.components],
    [
      ['raft', 'debug'],
      ['http', 'warn'],
    ],
  );
  assert.equal(parseVerbosity('raft=debug').level, 'info');
});

test('an unknown level is refused with a sentence', () => {
  for (const text of ['loud', 'info,raft=loud', '=debug', 'raft=', '3']) {
    assert.throws(
      () => parseVerbosity(text),
      (error) =>
        error instanceof ConfigError &&
        /^MILLRACE_LOG: ".*" is not a verbosity; expected a level \(trace, /.test(error.message),
      text,
    );
  }
});

test('each component logs at its own level', () => {
  const sink = collect();
  const verbosity = parseVerbosity('warn,raft=debug,http=silent');
  loggerTo(sink, verbosity, 'raft').debug({ group: 3 }, 'campaign');
  loggerTo(sink, verbosity, 'raft').trace('hidden');
  loggerTo(sink, verbosity, 'store').info('hidden');
  loggerTo(sink, verbosity, 'http').fatal('hidden');
  loggerTo(sink, verbosity, 'store').warn('slow disk');
  const lines = sink.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ level, component, msg, group }) => ({ level, component, msg, group })),
    [
      { level: 'debug', component: 'raft', msg: 'campaign', group: 3 },
      { level: 'warn', component: 'store', msg: 'slow disk', group: undefined },
    ],
  );
  for (const { time } of lines) assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('the readable form is one line, keeps control characters out and shows the stack of an error', () => {
  const sink = collect();
  const logger = loggerTo(sink, parseVerbosity('info'), 'http');
  logger.info({ stream: 'b/\u001b[2J', bytes: 7, path: '/x/y' }, 'odd\nname');
  logger.error({ err: new Error('no space') }, 'commit failed');
  const [plain = '', failure = ''] = sink.lines.map(readable);
  assert.match(
    plain,
    /^\d\d:\d\d:\d\d\.\d{3} INFO {2}http: odd\\x0aname stream="b\/\\u001b\[2J" bytes=7 path=\/x\/y\n$/,
  );
  assert.match(failure, /ERROR http: commit failed\nError: no space\n {4}at /);
});

test('the last line before an exit is not lost, and stderr gets JSON when it is a pipe', () => {
  const script = `
    import { NodeLog } from ${JSON.stringify(new URL('../../src/logging/logger.js', import.meta.url).href)};
    const log = NodeLog.open(process.env.MILLRACE_LOG, process.env.MILLRACE_LOG_FILE).logger('main');
    for (let i = 0; i < 2000; i++) log.info({ i }, 'x'.repeat(100));
    log.fatal('the end');
    process.kill(process.pid, 'SIGKILL');
  `;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    maxBuffer: 1 << 24,
  });
  assert.equal(child.signal, 'SIGKILL');
  assert.equal(child.stdout, '');
  const lines = child.stderr.trimEnd().split('\n');
  assert.equal(lines.length, 2001);
  assert.equal((JSON.parse(lines.at(-1) ?? '') as { msg: string }).msg, 'the end');
});

/** A script with a logger on stderr. */
function logging(script: string): string {
  const url = new URL('../../src/logging/logger.js', import.meta.url).href;
  return `
    import { truncateSync, writeSync } from 'node:fs';
    import { NodeLog } from ${JSON.stringify(url)};
    const log = NodeLog.open('info').logger('main');
    ${script}`;
}

test('a fatal line that stderr does not take keeps no process from ending', () => {
  const full = openSync('/dev/full', 'w');
  const script = logging("log.fatal('the end'); writeSync(1, 'ended');");
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', full],
    encoding: 'utf8',
    timeout: PATIENCE_MS,
    killSignal: 'SIGKILL',
  });
  closeSync(full);
  assert.equal(stdout, 'ended');
});

test('a log on stderr goes on when its disk has room again, whatever did not fit meanwhile', () => {
  const folder = temporaryFolder('log');
  const path = join(folder, 'stderr');
  const stderr = openSync(path, 'a');
  const script = logging(`
    const line = 'x'.repeat(1000);
    for (let i = 0; i < 2000; i++) log.info(line);
    truncateSync(process.argv[1]);
    log.info(line.replace(/^x{5}/, 'again'));`);
  // The size limit of a file, in blocks of 512 bytes: the kernel refuses as it would on a full disk.
  const limited = [
    '-c',
    'ulimit -f 1024; exec "$@"',
    'sh',
    process.execPath,
    '--input-type=module',
    '-e',
    script,
    path,
  ];
  const { status } = spawnSync('sh', limited, { stdio: ['ignore', 'pipe', stderr] });
  closeSync(stderr);
  const lines = readFileSync(path, 'utf8').split('\n');
  removeFolder(folder);
  assert.equal(status, 0);
  assert.match(lines.at(-2) ?? '', /"msg":"againx/);
});
